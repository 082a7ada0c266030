# SPDX-License-Identifier: Apache-2.0
"""Each kind of drift, made with plain SQL, is found with its cause, and repaired if possible."""

import logging
import re
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.repair import consistency_check, orphans, repairs
from tonnage.rpc.messages import Answer, Verb

POOL = f"{BACKEND}#p0"

#: Statements that damage a ledger with one volume of 3 GiB, and the findings: cause, place and subject.
COUNTERS = [
    ("UPDATE pools SET allocated_capacity_gb = 8", [("counter", POOL, "allocated_capacity_gb")]),
    ("UPDATE pools SET in_flight_gb = 2", [("counter", POOL, "in_flight_gb")]),
    ("UPDATE pools SET in_flight_physical_gb = -1", [("counter", POOL, "in_flight_physical_gb")]),
    ("UPDATE pools SET shared_in_flight_gb = 7", [("shared_counter", POOL, "shared_in_flight_gb")]),
    ("UPDATE pools SET shared_in_flight_physical_gb = 7", [("shared_counter", POOL, "shared_in_flight_physical_gb")]),
    ("UPDATE backends SET allocated_capacity_gb = 0", [("backend_counter", BACKEND, "allocated_capacity_gb")]),
    (
        "UPDATE claims SET size_gb = 2, target_size_gb = 2",
        [
            ("counter", POOL, "allocated_capacity_gb"),
            ("backend_counter", BACKEND, "allocated_capacity_gb"),
            ("volume_size", POOL, "{volume}"),
        ],
    ),
    ("UPDATE claims SET contained = false", [("counter", POOL, "in_flight_gb")]),
    ("UPDATE volumes SET size_gb = 9", [("volume_size", POOL, "{volume}")]),
]
OTHERS = [
    ("DELETE FROM volumes", [("leaked_claim", POOL, "{volume}")]),
    ("UPDATE volumes SET pool_id = NULL", [("leaked_claim", POOL, "{volume}"), ("stuck_volume", "", "{volume}")]),
    *(
        (f"UPDATE volumes SET status = '{status}'", [("stuck_volume", POOL, "{volume}")])
        for status in ("creating", "extending", "deleting", "maintenance", "retyping")
    ),
]


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}).started()


def listed_volume(world: World, size: int = 3) -> str:
    volume_id = world.made(size)
    record_listing(world)
    return volume_id


def record_listing(world: World) -> None:
    [receipt] = world.registration.listings([world.agent.listing()])
    assert not isinstance(receipt, Exception)


def execute(world: World, statement: str, **values: Any) -> None:
    with world.engine.begin() as connection:
        assert connection.execute(sa.text(statement), values).rowcount > 0


def summaries(findings: list[consistency_check.Finding]) -> list[tuple[str, str, str]]:
    return [(one.cause.value, one.where, one.subject) for one in findings]


def expected(findings: list[tuple[str, str, str]], volume_id: str) -> list[tuple[str, str, str]]:
    return [(cause, where, subject.format(volume=volume_id)) for cause, where, subject in findings]


@pytest.mark.parametrize(("statement", "findings"), COUNTERS, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_counters_are_found_and_repaired(
    world: World, statement: str, findings: list[tuple[str, str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    volume_id = listed_volume(world)
    assert consistency_check.check(world.database).drift == []
    execute(world, statement)
    drift = consistency_check.check(world.database).drift
    assert summaries(drift) == expected(findings, volume_id)
    assert all(one.mended for one in drift)
    generation = world.rows("SELECT generation FROM pools")
    planned = repairs.plan(world.database)
    assert summaries(consistency_check.check(world.database).drift) == expected(findings, volume_id), (
        "a plan changes nothing"
    )
    with caplog.at_level(logging.INFO):
        done = repairs.repair(world.database)
    assert {(one.where, one.subject, one.before_gb, one.after_gb) for one in done.changes} == {
        (one.where, one.subject, one.before_gb, one.after_gb) for one in planned.changes
    }
    assert done.final_check.drift == []
    lines = [record.getMessage() for record in caplog.records if record.name == "tonnage.ledger.repair.repairs"]
    assert len(lines) == len(done.changes), "a line for each change"
    if any(cause in ("counter", "shared_counter") for cause, *_ in findings):
        assert world.rows("SELECT generation FROM pools") != generation, (
            "decisions that read the old row do not take effect"
        )
    assert repairs.repair(world.database).changes == []
    world.report()
    [answer] = world.create(1)
    assert isinstance(answer, Answer)
    assert answer.pool == POOL, "the scheduler reads the changed rows again"
    world.settle()
    assert consistency_check.check(world.database).drift == []


@pytest.mark.parametrize(("statement", "findings"), OTHERS, ids=lambda value: value if isinstance(value, str) else "")
def test_drift_that_needs_a_decision_is_found_and_left(
    world: World, statement: str, findings: list[tuple[str, str, str]]
) -> None:
    volume_id = listed_volume(world)
    execute(world, statement)
    drift = consistency_check.check(world.database).drift
    assert summaries(drift) == expected(findings, volume_id)
    before = [world.rows(f"SELECT * FROM {table} ORDER BY id") for table in ("pools", "claims", "volumes")]
    done = repairs.repair(world.database)
    assert done.changes == []
    assert summaries(done.final_check.drift) == expected(findings, volume_id)
    assert [world.rows(f"SELECT * FROM {table} ORDER BY id") for table in ("pools", "claims", "volumes")] == before


def test_a_volume_without_claims_is_found(world: World) -> None:
    volume_id = listed_volume(world)
    execute(world, "DELETE FROM claims")
    drift = summaries(consistency_check.check(world.database).drift)
    assert ("unclaimed_volume", POOL, volume_id) in drift
    assert summaries(repairs.repair(world.database).final_check.drift) == [("unclaimed_volume", POOL, volume_id)]


def test_shared_counters_are_repaired(world: World) -> None:
    world.pools["p1"] = StoragePool(100, 2.0, thin=True, thick=False)
    world.report()
    [answer] = world.create(5)
    assert isinstance(answer, Answer)
    assert answer.pool is not None
    execute(world, "UPDATE pools SET storage_id = 's'")
    execute(world, "UPDATE claims SET contained_by_all = false")
    other = f"{BACKEND}#p1" if answer.pool == POOL else POOL
    execute(world, "UPDATE pools SET external_gb = 1.5 WHERE name = :name", name=answer.pool)
    changed = repairs.repair(world.database).changes
    assert {(one.cause.value, one.where, one.subject, one.after_gb) for one in changed} == {
        ("shared_counter", other, "shared_allocated_gb", 7),
        ("shared_counter", other, "shared_in_flight_gb", 5),
    }
    assert repairs.repair(world.database).changes == []
    execute(world, "UPDATE pools SET storage_free_gb = 50")
    assert {(one.subject, one.after_gb) for one in repairs.repair(world.database).changes} == {
        ("shared_allocated_gb", 0),
        ("shared_in_flight_gb", 0),
    }


def test_pending_and_external_capacity_is_no_drift(world: World) -> None:
    listed_volume(world)
    world.pools["p0"].volumes["of-others"] = (7, Provisioning.THIN)
    world.report()
    record_listing(world)
    kept, *_ = world.rows("SELECT id FROM volumes")
    world.create(2)
    world.extend(kept[0], 5)
    found = consistency_check.check(world.database)
    assert found.drift == []
    assert {one.cause.value for one in found.findings} == {"in_flight", "external", "orphan"}
    assert [backend.listed is not None for backend in found.backends] == [True]


def test_an_operation_that_takes_no_room_is_no_figure_of_reports(world: World) -> None:
    world.delete(listed_volume(world))
    [deletion] = consistency_check.check(world.database).findings
    assert re.fullmatch(r"1 operation\(s\) under way, the oldest \d+ s old", deletion.text)
    world.create(2)
    [both] = consistency_check.check(world.database).findings
    assert re.fullmatch(r"2 operation\(s\) under way, the oldest \d+ s old; no report contains 2 GiB yet", both.text)


def test_discrepancies_of_listings_are_found(world: World) -> None:
    lost, grown, gone = listed_volume(world), listed_volume(world), listed_volume(world)
    storage = world.pools["p0"].volumes
    del storage[lost], storage[gone]
    storage[grown] = (4, Provisioning.THIN)
    storage["of-others"] = (7, Provisioning.THIN)
    record_listing(world)
    found = consistency_check.check(world.database)
    assert sorted(summaries(found.drift)) == sorted([("lost", POOL, lost), ("lost", POOL, gone), ("size", POOL, grown)])
    assert ("orphan", POOL, "of-others") in summaries(list(found.findings))
    left = repairs.repair(world.database)
    # Growth on the storage counts from now on; a lost volume is left to an operator.
    [size] = [change for change in left.changes if change.cause is consistency_check.Cause.SIZE]
    assert (size.subject, size.before_gb, size.after_gb) == (grown, 3, 4)
    assert len(left.final_check.drift) == 2
    world.delete(gone)
    world.settle()
    assert ("lost", POOL, gone) not in summaries(consistency_check.check(world.database).drift), (
        "the difference has been resolved since"
    )


def test_a_leaked_claim_is_dropped_once_a_listing_lacks_its_copy(world: World) -> None:
    volume_id = listed_volume(world)
    execute(world, "DELETE FROM volumes")
    del world.pools["p0"].volumes[volume_id]
    record_listing(world)
    done = repairs.repair(world.database)
    assert {(one.cause.value, one.subject) for one in done.changes} == {
        ("leaked_claim", volume_id),
        ("counter", "allocated_capacity_gb"),
        ("backend_counter", "allocated_capacity_gb"),
    }
    assert done.final_check.drift == []
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(0,)]


def test_a_size_that_the_storage_contradicts_is_not_repaired(world: World) -> None:
    volume_id = listed_volume(world)
    world.pools["p0"].volumes[volume_id] = (2, Provisioning.THIN)
    record_listing(world)
    execute(world, "UPDATE volumes SET size_gb = 2")
    done = repairs.repair(world.database)
    assert done.changes == []
    assert sorted(cause for cause, *_ in summaries(done.final_check.drift)) == ["size", "volume_size"]


def test_a_larger_size_on_the_storage_is_adopted_with_the_size_in_the_row(world: World) -> None:
    volume_id = listed_volume(world)
    world.pools["p0"].volumes[volume_id] = (9, Provisioning.THIN)
    record_listing(world)
    execute(world, "UPDATE volumes SET size_gb = 5")
    done = repairs.repair(world.database)
    assert done.final_check.drift == []
    assert world.rows("SELECT size_gb FROM volumes") == [(9,)]


def test_a_check_can_be_limited_to_a_pool_or_a_backend(world: World) -> None:
    world.pools["p1"] = StoragePool(100, 2.0, thin=True, thick=False)
    world.report()
    execute(world, "UPDATE pools SET in_flight_gb = 4")
    for scope, places in (
        ({"pool": POOL}, [POOL]),
        ({"backend": BACKEND}, [POOL, f"{BACKEND}#p1"]),
        ({}, [POOL, f"{BACKEND}#p1"]),
    ):
        found = consistency_check.check(world.database, **scope)
        assert [one.where for one in found.drift] == places
        assert found.pools == len(places)
    for scope in ({"pool": "no#where"}, {"backend": "nobody@nowhere"}):
        with pytest.raises(errors.NotFound, match="could not be found"):
            consistency_check.check(world.database, **scope)


def misplaced_volume(world: World, size_gb: int = 3) -> str:
    """Move a volume of 3 GiB to pool p1 on the storage, as if an older state of the ledger had been restored."""
    world.pools["p1"] = StoragePool(100, 2.0, thin=True, thick=False)
    volume_id = listed_volume(world)
    world.report()
    [(name,)] = world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    source, target = ("p0", "p1") if name == POOL else ("p1", "p0")
    del world.pools[source].volumes[volume_id]
    world.pools[target].volumes[volume_id] = (size_gb, Provisioning.THIN)
    for _ in range(2):
        record_listing(world)
    return volume_id


def test_a_volume_in_another_pool_is_adopted_there(world: World) -> None:
    volume_id = misplaced_volume(world)
    [finding] = consistency_check.check(world.database).drift
    assert (finding.cause.value, finding.subject, finding.mended) == ("misplaced", volume_id, True)
    done = repairs.repair(world.database)
    assert ("misplaced", volume_id) in {(one.cause.value, one.subject) for one in done.changes}
    assert done.final_check.drift == []
    assert repairs.repair(world.database).changes == []
    world.report()
    record_listing(world)
    assert consistency_check.check(world.database).drift == []
    [(pool, allocated)] = world.rows(
        "SELECT p.name, p.allocated_capacity_gb FROM volumes v JOIN pools p ON p.id = v.pool_id"
    )
    assert (pool, allocated) != (finding.where, 3)
    assert allocated == 3
    world.delete(volume_id)
    world.settle()
    assert [list(pool.volumes) for pool in world.pools.values()] == [[], []], "the delete reaches the new pool"
    assert world.rows("SELECT SUM(allocated_capacity_gb), SUM(in_flight_gb) FROM pools") == [(0, 0)]


def test_a_volume_in_another_pool_and_of_another_size_is_left(world: World) -> None:
    volume_id = misplaced_volume(world, size_gb=4)
    done = repairs.repair(world.database)
    assert done.changes == []
    assert summaries(done.final_check.drift) == [("misplaced", done.final_check.drift[0].where, volume_id)]


def test_a_volume_of_a_group_on_another_backend_is_left(world: World) -> None:
    volume_id = misplaced_volume(world)
    execute(world, "UPDATE volumes SET group_id = 'g' WHERE id = :id", id=volume_id)
    assert next(iter(repairs.plan(world.database).changes)).subject == volume_id, "the other pool is on its backend"
    backend = models.Backend(id=99, name="other@backend")
    world.database.run(lambda session: session.add(backend))
    execute(world, "UPDATE pools SET backend_id = 99 WHERE id <> (SELECT pool_id FROM volumes)")
    [finding] = consistency_check.check(world.database).drift
    assert (finding.cause.value, finding.mended) == ("misplaced", False)
    assert repairs.repair(world.database).changes == []


def test_the_only_copy_of_a_volume_is_not_purged_as_an_orphan(world: World) -> None:
    volume_id = misplaced_volume(world)
    with world.database.reading() as session:
        [orphan] = orphans.load(session)
    assert orphan.name == volume_id
    with pytest.raises(errors.Conflict, match="this may be its only copy"):
        world.database.run(orphans.purge, orphan.pool, volume_id)


def test_an_orphan_is_purged_on_order(world: World) -> None:
    storage = world.pools["p0"].volumes
    storage["of-others"] = (7, Provisioning.THIN)
    kept = listed_volume(world)
    with world.database.reading() as session:
        assert [(one.pool, one.name, one.size_gb) for one in orphans.load(session)] == [(POOL, "of-others", 7.0)]
    world.database.run(orphans.purge, POOL, "of-others")
    with world.database.reading() as session:
        assert orphans.load(session) == []
    with pytest.raises(errors.TonnageError, match="of-others"):
        world.database.run(orphans.purge, POOL, "of-others")
    assert consistency_check.check(world.database).drift == []
    world.sweep()
    [command] = world.agent.commands
    assert (command.verb, command.volume_id, command.pool) == (Verb.PURGE, "of-others", "p0")
    del storage["of-others"]
    world.agent.commands.clear()
    record_listing(world)
    assert list(storage) == [kept]
    assert world.rows("SELECT external_gb FROM pools") == [(0.0,)]


def test_storage_full_of_unknown_volumes_is_not_purged(world: World) -> None:
    names = [str(uuid.uuid4()) for _ in range(5)]
    listed_volume(world)
    world.pools["p0"].volumes.update(dict.fromkeys(("of-others", *names[:4]), (1, Provisioning.THIN)))
    record_listing(world)
    assert consistency_check.check(world.database).drift == [], "four may be remains of failures"
    world.pools["p0"].volumes[names[4]] = (1, Provisioning.THIN)
    record_listing(world)
    [finding] = consistency_check.check(world.database).drift
    assert (finding.cause, finding.where, finding.subject) == ("unknown_volumes", POOL, "5 orphans")
    with pytest.raises(errors.Conflict, match=f"{names[0]} may be a volume: the ledger knows 1 volume"):
        world.database.run(orphans.purge, POOL, names[0])
    world.database.run(orphans.purge, POOL, names[0], force=True)
    assert consistency_check.check(world.database).drift == []


@pytest.mark.parametrize("name", ["unheard-of", "x" * 37, "{volume}"])
def test_only_orphans_can_be_purged(world: World, name: str) -> None:
    volume_id = listed_volume(world)
    world.pools["p0"].volumes["x" * 37] = (1, Provisioning.THIN)
    record_listing(world)
    claims = world.rows("SELECT COUNT(*) FROM claims")
    with pytest.raises(errors.TonnageError) as refused:
        world.database.run(orphans.purge, POOL, name.format(volume=volume_id))
    assert name.format(volume=volume_id) in refused.value.message
    with pytest.raises(errors.NotFound, match="no#where could not be found"):
        world.database.run(orphans.purge, "no#where", "of-others")
    assert world.rows("SELECT COUNT(*) FROM claims") == claims


def test_an_orphan_that_is_being_managed_is_not_purged(world: World) -> None:
    world.pools["p0"].volumes["of-others"] = (1, Provisioning.THIN)
    listed_volume(world)
    execute(
        world,
        "INSERT INTO claims (id, volume_id, backend_id, pool_id, verb, state, size_gb, physical_gb, target_size_gb,"
        " provisioning, contained, contained_by_all, sent, reference, request_id, created_at)"
        " VALUES ('c', 'v', 1, 1, 'manage', 'pending', 0, 0, 0, '', true, true, true, 'of-others', '', '2026-01-01')",
    )
    with pytest.raises(errors.Conflict, match="named by a claim"):
        world.database.run(orphans.purge, POOL, "of-others")
