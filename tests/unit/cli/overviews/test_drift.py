# SPDX-License-Identifier: Apache-2.0
"""``tonnage drift``."""

import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.ledger import models


def test_drift_is_found_with_its_cause_and_status_3(ledger: Ledger) -> None:
    assert ledger.run("drift") == "2 pool(s) checked: the ledger is right\n"
    assert ledger.json("drift") == []
    ledger.world.create(4)
    assert {row["cause"] for row in ledger.json("drift --all")} == {"in_flight"}
    with ledger.engine.begin() as connection:
        name = f"{BACKEND}#p0"
        wrong = models.Pool.allocated_capacity_gb + 3
        connection.execute(sa.update(models.Pool).where(models.Pool.name == name).values(allocated_capacity_gb=wrong))
    [row] = ledger.json("drift", status=3)
    assert (row["cause"], row["where"], row["is_drift"], row["is_mended_by_repair"]) == ("counter", name, True, True)
    assert row["ledger_bytes"] - row["found_bytes"] == gib(3)
    assert "allocated_capacity_gb" in ledger.run("drift", status=3)
    assert ledger.json(f"drift --pool {BACKEND}#p1") == []
