# SPDX-License-Identifier: Apache-2.0
"""What has to hold after every commit, and at rest, looked at from outside with plain SQL."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tests.unit.scheduler.model import admission
from tests.unit.scheduler.model.world import World
from tonnage.ledger import models

LIVE = ("pending", "confirmed", "abandoned")

Row = dict[str, Any]


class Ledger:
    """The tables as they are at this moment."""

    def __init__(self, engine: sa.Engine) -> None:
        with engine.connect() as connection:

            def table(name: str) -> list[Row]:
                return [dict(row) for row in connection.execute(sa.text(f"SELECT * FROM {name}")).mappings()]

            self.backends, self.volumes = table("backends"), table("volumes")
            self.pools, self.claims = table("pools"), table("claims")
        self.by_pool: dict[int, list[Row]] = defaultdict(list)
        for claim in self.claims:
            self.by_pool[claim["pool_id"]].append(claim)

    def sharing(self, pool: Row) -> list[Row]:
        """Return the other pools on the storage of one."""
        if pool["storage_id"] is None:
            return []
        return [other for other in self.pools if other["storage_id"] == pool["storage_id"] and other is not pool]


def check(world: World, by_hand: Collection[tuple[str, str]] = ()) -> None:
    """Check the invariants of the ledger.

    ``by_hand`` are copies, by pool and name, that the ledger has never heard of.
    """
    ledger = Ledger(world.engine)
    for pool in ledger.pools:
        _check_counters(ledger, pool)
        # Nothing is placed in a pool that is not reported, and its next report is looked at like a first one.
        if pool["present"]:
            _check_truth(world, ledger, pool, by_hand)
    for backend in ledger.backends:
        own = sum(pool["allocated_capacity_gb"] for pool in ledger.pools if pool["backend_id"] == backend["id"])
        assert backend["allocated_capacity_gb"] == own, backend["name"]


def _check_counters(ledger: Ledger, pool: Row) -> None:
    """The counters are what the claims add up to, by the definitions in the documentation."""
    claims = ledger.by_pool[pool["id"]]
    whole = pool["storage_free_gb"] is None
    others = ledger.sharing(pool)
    unseen = [
        claim
        for other in others
        for claim in ledger.by_pool[other["id"]]
        if not claim["contained_by_all"] and not _seen(claim, other, pool)
    ]
    external = sum(-(-other["external_gb"] // 1) for other in others)
    expected = {
        "allocated_capacity_gb": _sum(claims, "size_gb", live=True),
        "in_flight_gb": _sum([claim for claim in claims if not claim["contained"]], "size_gb"),
        "in_flight_physical_gb": _sum([claim for claim in claims if not claim["contained"]], "physical_gb"),
        "shared_allocated_gb": sum(_sum(ledger.by_pool[other["id"]], "size_gb", live=True) for other in others)
        + external
        if whole
        else 0,
        "shared_in_flight_gb": _sum(unseen, "size_gb") if whole else 0,
        "shared_in_flight_physical_gb": _sum(unseen, "physical_gb"),
    }
    found = {name: pool[name] for name in expected}
    assert found == expected, (pool["name"], found, expected, claims)
    assert min(found.values()) >= 0, (pool["name"], found)
    assert pool["external_gb"] >= 0, pool["name"]


def _check_truth(world: World, ledger: Ledger, pool: Row, by_hand: Collection[tuple[str, str]]) -> None:
    """Never less is counted than is there or has been promised, on the pool or on the storage that it draws on."""
    here = world.pools[pool["name"]]
    whole = here.carved_gb is None and here.storage.name is not None
    own = [pool, *(ledger.sharing(pool) if whole else [])]
    if pool["total_capacity_gb"] is None:
        return
    if pool["provisioned_capacity_gb"] is None:
        unknown = set(by_hand).union(*(driver.forgotten for driver in world.drivers.values()))
        unknown |= {
            (each["name"], claim["volume_id"])
            for each in own
            for claim in ledger.by_pool[each["id"]]
            if claim["verb"] == "manage" and claim["state"] == "pending"
        }
        counted = pool["allocated_capacity_gb"] + pool["shared_allocated_gb"] + pool["external_gb"]
        needed = sum(_needed(world, ledger, each, unknown)[0] for each in own)
    else:
        counted = pool["provisioned_capacity_gb"] + pool["in_flight_gb"] + pool["shared_in_flight_gb"]
        needed = sum(_needed(world, ledger, each)[0] for each in own)
    assert counted >= needed, (pool["name"], counted, needed, pool, _claims_of(ledger, own))
    used = pool["total_capacity_gb"] - pool["free_capacity_gb"] + pool["in_flight_physical_gb"]
    used += pool["shared_in_flight_physical_gb"] if whole else 0
    needed = sum(_needed(world, ledger, each)[1] for each in own)
    assert used >= min(needed, pool["total_capacity_gb"]), (pool["name"], used, needed, _claims_of(ledger, own))
    if pool["storage_free_gb"] is not None:
        total = here.storage.total_gb
        used = total - pool["storage_free_gb"] + pool["in_flight_physical_gb"] + pool["shared_in_flight_physical_gb"]
        needed = sum(_needed(world, ledger, each)[1] for each in [pool, *ledger.sharing(pool)])
        both = [pool, *ledger.sharing(pool)]
        assert used >= min(needed, total), (pool["name"], used, needed, both, _claims_of(ledger, both))


def _needed(world: World, ledger: Ledger, pool: Row, unknown: Collection[tuple[str, str]] = ()) -> tuple[int, int]:
    """Return what a pool holds or has promised to hold, and what of that takes up space."""
    promised: dict[str, int] = defaultdict(int)
    physical: dict[str, int] = defaultdict(int)
    claims = ledger.by_pool[pool["id"]]
    # What is being deleted may be gone already: nothing is promised of it, unless it may still be made.
    leaving = {claim["volume_id"] for claim in claims if claim["verb"] in ("delete", "purge")}
    leaving |= {volume["id"] for volume in ledger.volumes if volume["status"] == "error_deleting"}
    for claim in claims:
        kept = claim["volume_id"] not in leaving or (claim["state"] == "abandoned" and not claim["contained"])
        if claim["state"] in LIVE and kept:
            promised[claim["volume_id"]] += claim["size_gb"]
            physical[claim["volume_id"]] += claim["physical_gb"]
    copies = {
        name: copy for name, copy in world.pools[pool["name"]].copies.items() if (pool["name"], name) not in unknown
    }
    names = promised.keys() | copies.keys()
    return (
        sum(max(promised[name], copies[name].size_gb if name in copies else 0) for name in names),
        sum(max(physical[name], copies[name].written_gb if name in copies else 0) for name in names),
    )


def _seen(claim: Row, of: Row, by: Row) -> bool:
    if of["backend_id"] == by["backend_id"]:
        covers = (by["covers_epoch"], by["covers_tick"])
        return claim["end_tick"] is not None and (claim["end_epoch"], claim["end_tick"]) < covers
    return claim["end_stamp"] is not None and claim["end_stamp"] <= by["covers_stamp"]


def _sum(claims: Collection[Row], column: str, live: bool = False) -> int:
    return sum(claim[column] for claim in claims if not live or claim["state"] in LIVE)


def _claims_of(ledger: Ledger, pools: Collection[Row]) -> list[Row]:
    keys = (
        "verb",
        "state",
        "size_gb",
        "physical_gb",
        "contained",
        "end_epoch",
        "end_tick",
        "contained_by_all",
        "end_stamp",
        "volume_id",
        "pool_id",
    )
    return [{key: claim[key] for key in keys} for pool in pools for claim in ledger.by_pool[pool["id"]]]


def check_at_rest(
    world: World, by_hand: Collection[tuple[str, str]], loose: Collection[tuple[str, str]], contents: dict[str, str]
) -> None:
    """Check that the ledger and the storages agree, with nothing under way.

    ``loose`` are copies that belong to no volume, ``contents`` is what users have written to volumes.
    """
    check(world, by_hand)
    ledger = Ledger(world.engine)
    assert all(claim["state"] == "confirmed" and claim["contained"] for claim in ledger.claims), ledger.claims
    assert all(claim["contained_by_all"] for claim in ledger.claims), ledger.claims
    names = {pool["id"]: pool["name"] for pool in ledger.pools}
    expected: set[tuple[str, str]] = set()
    orphans = set(loose)
    managed = {claim["volume_id"] for claim in ledger.claims if claim["verb"] == "manage"}
    for volume in ledger.volumes:
        if volume["pool_id"] is None:
            assert volume["status"] in ("error", "error_managing"), volume
            if volume["status"] == "error_managing":
                orphans |= {(pool, volume["id"]) for pool in world.pools if volume["id"] in world.pools[pool].copies}
            continue
        place = names[volume["pool_id"]], volume["id"]
        copy = world.pools[place[0]].copies.get(volume["id"])
        if copy is not None:
            expected.add(place)
        if volume["status"] == "available":
            assert copy is not None, volume
            assert copy.size_gb == volume["size_gb"], volume
            # What was taken over stays as it was made.
            assert copy.kind == volume["provisioning"] or volume["id"] in managed, volume
            assert copy.content == contents.get(volume["id"], copy.content), volume
        else:
            assert volume["status"].startswith("error"), volume
        claimed = _sum(
            [claim for claim in ledger.by_pool[volume["pool_id"]] if claim["volume_id"] == volume["id"]], "size_gb"
        )
        assert claimed == volume["size_gb"], (volume, claimed)
    volumes = {volume["id"]: volume["pool_id"] for volume in ledger.volumes}
    assert all(volumes.get(claim["volume_id"]) == claim["pool_id"] for claim in ledger.claims)
    there = {(pool, name) for pool in world.pools for name in world.pools[pool].copies}
    forgotten = set().union(*(driver.forgotten for driver in world.drivers.values()))
    assert there - forgotten == (expected | orphans) - forgotten, (there, expected, orphans)
    shown = {
        (names[pool_id], name)
        for pool_id, name in world.rows("SELECT pool_id, volume_id FROM discrepancies WHERE category = 'orphan'")
    }
    assert orphans <= shown, (orphans, shown)
    for pool in ledger.pools:
        assert pool["in_flight_gb"] == pool["in_flight_physical_gb"] == 0, pool["name"]
        assert pool["shared_in_flight_gb"] == pool["shared_in_flight_physical_gb"] == 0, pool["name"]
        figures = world.pools[pool["name"]].figures("")
        assert pool["provisioned_capacity_gb"] == figures["provisioned_capacity_gb"], pool["name"]
        assert pool["free_capacity_gb"] == figures["free_capacity_gb"], pool["name"]


def check_drained(world: World) -> None:
    """Check that what is still on a backend that is drained has no other place to go to."""
    with sa.orm.Session(world.engine) as session:
        rows = admission.snapshot(session)
        types: dict[str, dict[str, str]] = {}
        for type_id, key, value in session.execute(
            sa.select(models.ExtraSpec.volume_type_id, models.ExtraSpec.key, models.ExtraSpec.value)
        ):
            types.setdefault(type_id, {})[key] = value
    ledger = Ledger(world.engine)
    for volume in ledger.volumes:
        row = rows.get(volume["pool_id"])
        if row is None or not row["draining"] or volume["status"] != "available":
            continue
        for other in rows.values():
            if other["present"] and other["enabled"] and not other["draining"]:
                here = world.pools[other["name"]]
                specs = types.get(volume["volume_type_id"], {})
                kinds = [kind for kind in ("thin", "thick") if getattr(here, kind)]
                asked = specs.get("provisioning:type", volume["provisioning"])
                thin = (asked if asked in kinds else kinds[0]) == "thin"
                suits = specs.get("media", here.media) == here.media
                reserved = admission.reserved_percentage(other)
                fits = suits and admission.admits(other, volume["size_gb"], thin, world.calculation, reserved)
                assert not fits, (volume, other["name"])
