# SPDX-License-Identifier: Apache-2.0
"""After the restore of an older ledger, no step deletes the only copy of a volume that was in an operation."""

import dataclasses
import uuid

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.inventory import backends, pending_claims
from tonnage.ledger.locks import heartbeats
from tonnage.ledger.models import claim_verbs
from tonnage.ledger.repair import consistency_check, orphans, repairs, restore
from tonnage.rpc.messages import Answer, MigrateVolume, Verb
from tonnage.scheduler.requests.placement_requests import Move, Retry

DOWN_TIME = 60.0


@pytest.fixture
def world() -> World:
    pools = {name: StoragePool(100, 2.0, thin=True, thick=False) for name in ("p0", "p1")}
    return World(pools).started()


def pool_of(world: World, volume_id: str) -> str | None:
    [(name,)] = world.rows(
        f"SELECT pools.name FROM volumes LEFT JOIN pools ON pools.id = pool_id WHERE volumes.id = '{volume_id}'"
    )
    return None if name is None else name.partition("#")[2]


def status(world: World, volume_id: str) -> str:
    [(found,)] = world.rows(f"SELECT status FROM volumes WHERE id = '{volume_id}'")
    return str(found)


def moving(world: World) -> tuple[str, str, str]:
    """Return the id of a volume that is being migrated, its pool and the other pool."""
    volume_id = world.made(3)
    source = pool_of(world, volume_id)
    [answer] = world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=volume_id))])
    assert isinstance(answer, Answer)
    assert source is not None
    return volume_id, source, "p1" if source == "p0" else "p0"


def copies(world: World, volume_id: str) -> list[str]:
    return [name for name, pool in world.pools.items() if volume_id in pool.volumes]


def restored(world: World) -> set[tuple[str, str]]:
    """Run the documented steps up to the second listing: the agent is back late. Return the interrupted operations."""
    interrupted = restore.interrupt(world.database, DOWN_TIME)
    world.start_scheduler()
    # The agent of the backend stays away for so long that the sweep abandons all that is pending.
    ids = [row[0] for row in world.rows("SELECT id FROM claims WHERE state = 'pending'")]
    world.outcome_handler.abandon(ids)
    with world.database.reading() as session:
        unplaced = pending_claims.unplaced_volumes(session)
    world.place([Retry(volume_id) for volume_id in unplaced])
    world.start_agent()
    world.settle()
    for _ in range(2):
        world.agent.next_tick()
        world.registration.listings([world.agent.listing()])
    causes = {one.cause.value for one in consistency_check.check(world.database).drift}
    assert causes <= {"misplaced", "lost", "size"}, "counters and claims agree, and nothing is stuck"
    return {(one.volume_id, one.operation) for one in interrupted}


def test_a_volume_whose_create_was_pending_stays_where_it_was_made(world: World) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    volume_id = answer.volume_id
    assert world.agent.work() is not None, "it ends after the backup"
    [name] = copies(world, volume_id)
    interrupted = restored(world)
    assert copies(world, volume_id) == [name]
    assert interrupted == {(volume_id, claim_verbs.CREATE)}
    assert (pool_of(world, volume_id), status(world, volume_id)) == (name, "error")
    assert consistency_check.check(world.database).drift == []


def test_a_volume_that_was_made_in_another_pool_is_adopted_there(world: World) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    volume_id = answer.volume_id
    other = "p1" if pool_of(world, volume_id) == "p0" else "p0"
    world.pools[other].volumes[volume_id] = (3, Provisioning.THIN)
    restored(world)
    assert copies(world, volume_id) == [other]
    repairs.repair(world.database)
    assert pool_of(world, volume_id) == other
    assert consistency_check.check(world.database).drift == []


@pytest.mark.parametrize("ended", [True, False])
def test_a_volume_whose_migration_was_pending_is_found(world: World, ended: bool) -> None:
    volume_id, source, target = moving(world)
    if ended:
        world.pools[target].volumes[volume_id] = world.pools[source].volumes.pop(volume_id)
    place = target if ended else source
    interrupted = restored(world)
    assert copies(world, volume_id) == [place]
    assert interrupted == {(volume_id, claim_verbs.MIGRATE)}
    repairs.repair(world.database)
    assert (pool_of(world, volume_id), status(world, volume_id)) == (place, "available")
    assert consistency_check.check(world.database).drift == []


def test_a_volume_that_has_returned_to_its_old_pool_is_adopted_there(world: World) -> None:
    volume_id, source, target = moving(world)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    assert pool_of(world, volume_id) == target, "the purge of the old copy is pending"
    world.pools[source].volumes[volume_id] = world.pools[target].volumes.pop(volume_id)
    interrupted = restored(world)
    assert copies(world, volume_id) == [source]
    assert interrupted == {(volume_id, claim_verbs.PURGE), (volume_id, "copy")}
    repairs.repair(world.database)
    assert pool_of(world, volume_id) == source
    assert consistency_check.check(world.database).drift == []


def test_an_abandoned_copy_is_not_purged(world: World) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    volume_id = answer.volume_id
    first = pool_of(world, volume_id)
    assert first is not None
    world.outcome_handler.abandon([row[0] for row in world.rows("SELECT id FROM claims")])
    world.place([Retry(volume_id)])
    world.agent.commands.clear()
    world.pools[first].volumes[volume_id] = (3, Provisioning.THIN)
    restored(world)
    assert copies(world, volume_id) == [first]
    repairs.repair(world.database)
    assert (pool_of(world, volume_id), status(world, volume_id)) == (first, "error")
    assert consistency_check.check(world.database).drift == []


def test_a_volume_without_a_pool_is_not_made_again(world: World) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    volume_id = answer.volume_id
    outcome = world.agent.work(fails=True, clean=True)
    assert outcome is not None
    world.deliver(outcome)
    world.pools["p1"].volumes[volume_id] = (3, Provisioning.THIN)
    assert restored(world) == {(volume_id, "retry")}
    assert (pool_of(world, volume_id), status(world, volume_id)) == (None, "error")
    assert copies(world, volume_id) == ["p1"]


def test_deletes_and_extends_that_were_pending_are_not_repeated(world: World) -> None:
    deleted, extended = world.made(3), world.made(3)
    world.delete(deleted)
    world.extend(extended, 5)
    interrupted = restored(world)
    assert copies(world, deleted)
    assert interrupted == {(deleted, claim_verbs.DELETE), (extended, claim_verbs.EXTEND)}
    assert (status(world, deleted), status(world, extended)) == ("error_deleting", "error_extending")
    # The larger size counts until the volume is unmanaged and managed again.
    [finding] = consistency_check.check(world.database).drift
    assert (finding.cause.value, finding.subject, finding.ledger_gb, finding.found_gb) == ("size", extended, 5, 3)


def test_a_purge_of_an_orphan_is_ordered_anew_by_an_operator(world: World) -> None:
    world.pools["p0"].volumes["of-others"] = (7, Provisioning.THIN)
    world.registration.listings([world.agent.listing()])
    world.database.run(orphans.purge, f"{BACKEND}#p0", "of-others")
    interrupted = restored(world)
    assert copies(world, "of-others") == ["p0"]
    assert interrupted == {("of-others", claim_verbs.PURGE)}
    with world.database.reading() as session:
        assert [one.name for one in orphans.load(session)] == ["of-others"]


def test_drains_stop(world: World) -> None:
    world.database.run(backends.set_state, BACKEND, enabled=False, draining=True, reason="maintenance")
    [one] = restore.interrupt(world.database, DOWN_TIME)
    assert (one.target, one.operation) == (BACKEND, "drain")
    assert restore.interrupt(world.database, DOWN_TIME) == []
    assert world.rows("SELECT enabled, draining FROM backends") == [(0, 0)]


def test_a_ledger_in_use_is_not_interrupted(world: World) -> None:
    world.create(3)
    process = heartbeats.SchedulerProcess(
        binary=heartbeats.SCHEDULER, host="box", nonce="n", default_ratio="20", calculation="cinder"
    )
    world.database.run(heartbeats.heartbeat, process)
    with pytest.raises(errors.Conflict, match="stop the scheduler on box"):
        restore.interrupt(world.database, DOWN_TIME)
    world.database.run(heartbeats.heartbeat, dataclasses.replace(process, nonce=uuid.uuid4().hex))
    assert world.rows("SELECT state FROM claims") == [("pending",)]


def test_a_volume_is_not_moved_into_a_pool_that_has_a_copy_of_it(world: World) -> None:
    volume_id = world.made(3)
    other = "p1" if pool_of(world, volume_id) == "p0" else "p0"
    world.pools[other].volumes[volume_id] = (5, Provisioning.THIN)
    for _ in range(2):
        world.agent.next_tick()
        world.registration.listings([world.agent.listing()])
    [answer] = world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=volume_id))])
    assert isinstance(answer, Answer)
    assert answer.refusal is not None
    assert not [command for command in world.agent.commands if command.verb is Verb.MIGRATE]
