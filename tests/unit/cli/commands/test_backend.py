# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage backend``: the administrative state of backends."""

import pathlib

import pytest
import sqlalchemy as sa

from tests.unit.cli import command_runs
from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models


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


def test_a_backend_that_is_down_or_in_doubt_is_listed_with_its_problem(ledger: Ledger) -> None:
    [row] = ledger.json("backend list")
    assert (row["name"], row["up"], row["problem"]) == (BACKEND, True, None)
    with ledger.engine.begin() as connection:
        values = {"notice": "failing", "notice_text": "not mounted", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    [row] = ledger.json("backend list")
    assert (row["up"], row["problem"]) == (True, "its agent cannot report: not mounted")
    with ledger.engine.begin() as connection:
        hours = sa.func.datetime(models.Backend.last_report_at, "-2 hours")
        connection.execute(sa.update(models.Backend).values(last_report_at=sa.type_coerce(hours, sa.String)))
    [row] = ledger.json("backend list")
    assert row["up"] is False
    assert row["problem"].startswith("no report for 72")
    assert row["problem"].endswith(" s; its agent cannot report: not mounted")
