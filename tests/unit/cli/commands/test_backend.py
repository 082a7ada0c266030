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
from tonnage.ledger.inventory import drains


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


def test_a_drain_is_listed_with_its_progress(ledger: Ledger) -> None:
    assert "cannot move" not in ledger.run("backend list")
    volume_id = ledger.world.made(4)
    assert ledger.run(f"backend drain {BACKEND}").startswith(f"Backend {BACKEND} is being drained")
    ledger.write(drains.record, {volume_id: "No pool for 4 GiB"})
    [row] = ledger.json("backend list")
    assert (row["volumes_left"], row["moving"], row["cannot_move"]) == (1, 0, 1)
    assert row["drain_reasons"] == [f"volume {volume_id}: No pool for 4 GiB"]
    table = ledger.run("backend list")
    assert "cannot move" in table
    assert f"volume {volume_id}" in table


def test_a_backend_without_pools_is_listed_with_the_volumes_that_the_ledger_counts_there(ledger: Ledger) -> None:
    ledger.world.made(4)
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(present=False))
    [row] = ledger.json("backend list")
    assert row["allocated_gb"] == 4
    assert "allocated GiB" in ledger.run("backend list")


def test_a_driver_that_reports_its_storage_as_down_is_the_problem(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(stats={"pool_name": "p", "backend_state": "Down"}))
    [row] = ledger.json("backend list")
    assert row["problem"] == "its driver reports backend_state down"


def test_the_removal_of_a_backend_that_is_not_down_has_a_status_of_its_own(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loop that waits for the removal must end if the name is wrong, which has status 1."""
    assert ledger.run(f"backend remove {BACKEND} --volumes-are-lost", status=3) == ""
    with pytest.raises(errors.NotFound):
        ledger.run("backend remove h@b --volumes-are-lost --wait")


def test_the_removal_of_a_backend_waits_until_it_is_down(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        with ledger.engine.begin() as connection:
            minutes = sa.func.datetime(models.Backend.last_report_at, "-2 minutes")
            connection.execute(sa.update(models.Backend).values(last_report_at=sa.type_coerce(minutes, sa.String)))

    monkeypatch.setattr("time.sleep", sleep)
    printed = ledger.run(f"backend remove {BACKEND} --volumes-are-lost --wait")
    assert f"Backend {BACKEND} is removed, with 2 pool(s)" in printed
    [pause] = pauses
    assert 0 < pause < 61
    assert ledger.json("backend list") == []
