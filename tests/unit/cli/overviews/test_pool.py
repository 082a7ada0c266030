# SPDX-License-Identifier: Apache-2.0
"""``tonnage pool``: one pool with all that belongs to it."""

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.inventory import audit_findings
from tonnage.ledger.inventory.audit_findings import Evidence


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


def test_a_part_of_the_name_is_enough_if_no_other_pool_has_it(ledger: Ledger) -> None:
    for part in ("p0", "#p0", f"{BACKEND}#p0"):
        assert ledger.json(f"pool {part}")["pool"] == f"{BACKEND}#p0"
    with pytest.raises(errors.InvalidInput, match=f"^p is a part of the names of 2 pools: {BACKEND}#p0, {BACKEND}#p1$"):
        ledger.run("pool p")
    with pytest.raises(errors.NotFound, match=rf"; did you mean {BACKEND}#p0\?$"):
        ledger.run("pool pp0")
    with pytest.raises(errors.NotFound, match=r"; 'tonnage pools' lists the pools$"):
        ledger.run("pool zzzzz")


def test_a_pool_named_by_a_part_of_another_name_is_shown(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        renamed = sa.update(models.Pool).where(models.Pool.name == f"{BACKEND}#p1")
        connection.execute(renamed.values(name=f"{BACKEND}#p01"))
    assert ledger.json("pool p0")["pool"] == f"{BACKEND}#p0"


def test_the_findings_about_a_pool_are_shown(ledger: Ledger) -> None:
    def store(session: orm.Session) -> None:
        backend_id = session.scalars(sa.select(models.Backend.id)).one()
        evidence = {
            ("p0", "provisioned"): Evidence("reports 3 GiB, its volumes have 5"),
            ("p1", "provisioned"): Evidence("reports 4 GiB, its volumes have 6"),
            ("p0", "listing"): Evidence("was seen once", once=1),
        }
        audit_findings.store(session, backend_id, evidence, lambda key: True)

    ledger.write(store)
    [finding] = ledger.json("pool p0")["findings"]
    assert (finding["breach"], finding["because"]) == ("provisioned", "reports 3 GiB, its volumes have 5")
    assert "reports 3 GiB" in ledger.run("pool p0")


def test_pools_of_one_storage_name_each_other(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(storage_id="array"))
    assert [each["pool"] for each in ledger.json(f"pool {BACKEND}#p0")["sharing"]] == [f"{BACKEND}#p1"]
    assert "total 20 GiB" in ledger.run("pools")
