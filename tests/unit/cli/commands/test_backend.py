# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage backend``: the administrative state of backends."""

import pathlib

import pytest

from tests.unit.cli import command_runs
from tonnage.capacity import errors


def test_a_reason_that_is_too_long_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PostgreSQL and MariaDB store at most 255 characters, and fail with a traceback otherwise."""
    assert command_runs.manage("db sync", tmp_path) == 0
    for action in ("disable", "drain"):
        with pytest.raises(SystemExit) as ended:
            command_runs.manage(f"backend {action} h@b --reason {'x' * 256}", tmp_path)
        assert ended.value.code == 2
        assert "--reason: it has 256 characters: expected at most 255" in capsys.readouterr().err
        with pytest.raises(errors.NotFound):
            command_runs.manage(f"backend {action} h@b --reason {'x' * 255}", tmp_path)
