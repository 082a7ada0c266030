# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage ledger``: exit statuses and JSON of checks and repairs."""

import json

import pytest
import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND
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
