# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage ledger``: exit statuses and JSON of checks and repairs."""

import json

import pytest
import sqlalchemy as sa

from tests.unit.cli import command_runs
from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models

POOL = f"{BACKEND}#p0"


@pytest.fixture
def wrong(ledger: Ledger) -> Ledger:
    """A ledger whose counter of allocated capacity is 3 GiB too high."""
    allocated = models.Pool.allocated_capacity_gb + 3
    with ledger.engine.begin() as connection:
        connection.execute(
            sa.update(models.Pool).where(models.Pool.name == POOL).values(allocated_capacity_gb=allocated)
        )
    return ledger


def test_a_right_ledger_has_status_0(ledger: Ledger) -> None:
    assert "2 pool(s) checked: the ledger is right" in ledger.run("ledger check")
    assert json.loads(ledger.run("ledger check --json"))["clean"]
    assert ledger.run("ledger repair") == "There is nothing to mend\n"


@pytest.mark.parametrize("command", ["ledger check", "ledger check --json", "ledger check --strict"])
def test_an_empty_ledger_is_not_right(ledger: Ledger, command: str) -> None:
    """It may be a new one in the place of a lost one."""
    with ledger.engine.begin() as connection:
        for table in reversed(models.Base.metadata.sorted_tables):
            connection.execute(sa.delete(table))
    words = r"^there is nothing to check: no agent has introduced a backend to the ledger in sqlite:///"
    with pytest.raises(errors.ConfigurationError, match=words):
        ledger.run(command)


def test_a_wrong_counter_is_found(wrong: Ledger) -> None:
    answer = json.loads(wrong.run("ledger check --json", 3))
    [finding] = answer["findings"]
    assert (answer["clean"], answer["drift"]) == (False, 1)
    assert (finding["cause"], finding["where"], finding["mended"]) == ("counter", POOL, True)
    assert finding["ledger_gb"] - finding["found_gb"] == 3
    text = "2 pool(s) checked: 1 thing(s) wrong, of which 'tonnage-manage ledger repair' mends 1\n"
    assert wrong.run("ledger check", 3).endswith(text)
    assert json.loads(wrong.run(f"ledger check --json --pool {BACKEND}#p1"))["clean"]


def test_a_dry_run_changes_nothing_and_a_repair_mends_the_counter(wrong: Ledger) -> None:
    assert wrong.run("ledger repair --dry-run", 3).endswith("1 value(s) would be mended; nothing was changed\n")
    answer = json.loads(wrong.run("ledger repair --json", 4))
    [change] = answer["changes"]
    assert (answer["clean"], change["before_gb"] - change["after_gb"]) == (True, 3)
    assert json.loads(wrong.run("ledger check --json"))["clean"]


@pytest.fixture
def unwritable(ledger: Ledger) -> Ledger:
    """A ledger that refuses the write by which processes try it."""
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON write_probes BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    return ledger


@pytest.mark.parametrize(("command", "status"), [("ledger check", 1), ("ledger check --json", 1), ("backend list", 0)])
def test_a_ledger_that_cannot_be_written_is_named_after_the_output(
    unwritable: Ledger, capsys: pytest.CaptureFixture[str], command: str, status: int
) -> None:
    """It can be read, and its backends only seem to be down."""
    assert command_runs.run(unwritable.program, command.split(), unwritable.conf) == status
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("tonnage-manage: the ledger cannot be written: ")
    assert "disk is full" in last
