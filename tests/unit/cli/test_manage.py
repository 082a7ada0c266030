# SPDX-License-Identifier: Apache-2.0
"""Tests of ``tonnage-manage`` without a database, and with an empty one."""

import os
import pathlib

import pytest

from tests.unit.cli import command_runs
from tonnage.capacity import errors
from tonnage.ledger.db import schema

COMMANDS = (
    "ledger check",
    "ledger repair",
    "ledger repair --dry-run",
    "orphan list",
    "orphan purge h@b#p name --yes",
    "backend list",
    "driver audit",
    "backend disable h@b",
    "backend remove h@b --volumes-are-lost",
)


def test_only_a_sync_creates_a_database(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (*COMMANDS, "db version"):
        with pytest.raises(errors.ConfigurationError, match=r"there is no database .* run 'tonnage-manage db sync'"):
            command_runs.manage(line, tmp_path)
    assert command_runs.manage("db check", tmp_path) == 3
    assert capsys.readouterr().out.startswith("There is no database ")
    assert os.listdir(tmp_path) == []
    assert command_runs.manage("db sync", tmp_path) == 0
    assert command_runs.manage("db check", tmp_path) == 0
    assert command_runs.manage("backend list", tmp_path) == 0
    assert f"The database is at revision {schema.HEAD} (it was at none)" in capsys.readouterr().out


@pytest.mark.parametrize("line", COMMANDS)
def test_errors_about_a_database_without_tables_name_the_solution(line: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tonnage.sqlite").touch()
    with pytest.raises(errors.ConfigurationError, match=r"at revision none, .* run 'tonnage-manage db sync'"):
        command_runs.manage(line, tmp_path)
