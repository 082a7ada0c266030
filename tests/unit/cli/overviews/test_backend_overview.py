# SPDX-License-Identifier: Apache-2.0
"""``tonnage backends``."""

from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND


def test_a_backend_is_shown_with_its_sums(ledger: Ledger) -> None:
    ledger.world.create(4)
    [row] = ledger.json("backends")
    assert (row["name"], row["state"], row["up"], row["allocated_gb"]) == (BACKEND, "enabled", True, 4)
    assert "| enabled |" in ledger.run("backends")
