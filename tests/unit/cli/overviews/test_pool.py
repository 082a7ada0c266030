# SPDX-License-Identifier: Apache-2.0
"""``tonnage pool``: one pool with all that belongs to it."""

import pytest
import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models


def test_a_pool_is_shown_with_all_that_belongs_to_it(ledger: Ledger) -> None:
    [made] = ledger.world.create(4)
    pool = next(row for row in ledger.json("pools") if row["in_flight_bytes"])
    name = pool["pool"]
    ledger.world.create(60)
    shown = ledger.json(f"pool {name}")
    assert {key: shown[key] for key in ("pool", "allocated_bytes", "in_flight_bytes")} == {
        key: pool[key] for key in ("pool", "allocated_bytes", "in_flight_bytes")
    }
    assert [(each["verb"], each["size_bytes"]) for each in shown["claims"]] == [("create", gib(4))]
    assert shown["claims"][0]["age_seconds"] >= 0
    assert [each["id"] for each in shown["volumes"]] == [made.volume_id]
    assert (shown["findings"], shown["sharing"]) == ([], [])
    nearest = ledger.json("refusals")[0]["pool"] if ledger.json("refusals") else None
    assert [each["pool"] for each in ledger.json(f"pool {nearest}")["refusals"]] == [nearest]
    ledger.world.settle()
    assert ledger.json(f"pool {name}")["claims"] == []
    table = ledger.run(f"pool {name}")
    assert "Claims in flight: none" in table
    assert "Volumes: 1" in table
    assert ledger.run(f"pool {name} -f value -c pool -c state") == f"{name}\nup\n"
    with pytest.raises(errors.NotFound, match="pool h@b#p could not be found"):
        ledger.run("pool h@b#p")


def test_pools_of_one_storage_name_each_other(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(storage_id="array"))
    assert [each["pool"] for each in ledger.json(f"pool {BACKEND}#p0")["sharing"]] == [f"{BACKEND}#p1"]
    assert "total 20 GiB" in ledger.run("pools")
