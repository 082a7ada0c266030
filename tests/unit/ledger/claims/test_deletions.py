# SPDX-License-Identifier: Apache-2.0
"""Deletes and unmanaging of volumes."""

import pytest
import sqlalchemy as sa

from tests.unit.ledger import faults
from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import deletions
from tonnage.rpc.messages import Answer


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()


def test_a_volume_removed_during_the_wait_for_its_pool_is_not_found(world: World) -> None:
    volume = world.made(3)
    with faults.before(world.engine, faults.LOCK, lambda connection: connection.execute(sa.delete(models.Volume))):
        [result] = world.database.run(deletions.begin, [deletions.Order(volume, "req-1")])
    assert isinstance(result, errors.NotFound)
    assert volume in result.message


def test_each_deletion_has_its_own_answer(world: World) -> None:
    volume = world.made(3)
    first, missing, again = world.database.run(
        deletions.begin,
        [
            deletions.Order(volume, "req-1"),
            deletions.Order("00000000-0000-0000-0000-000000000000", "req-2"),
            deletions.Order(volume, "req-3"),
        ],
    )
    assert isinstance(first, deletions.Deletion)
    assert first.order is not None
    assert isinstance(missing, errors.NotFound)
    assert again == deletions.Deletion(None)


@pytest.mark.parametrize("unmanage", [False, True])
def test_a_delete_starts_again_if_the_volume_has_moved(unmanage: bool) -> None:
    """The transaction runs again with the volume in its old pool, as the move is rolled back too."""
    world = World({f"p{number}": StoragePool(20, 2.0, thin=True, thick=False) for number in range(2)}).started()
    volume = world.made(3)
    [(pool,)] = world.rows("SELECT pool_id FROM volumes")
    [(other,)] = world.rows(f"SELECT id FROM pools WHERE id <> {pool}")
    locks = []

    def move(connection: sa.Connection) -> None:
        locks.append(connection.scalar(sa.select(models.Volume.pool_id)))
        if len(locks) == 1:
            connection.execute(sa.update(models.Volume).values(pool_id=other))

    with faults.before(world.engine, faults.LOCK, move):
        if unmanage:
            world.database.run(deletions.unmanage, "req-1", volume)
        else:
            world.database.run(deletions.begin, [deletions.Order(volume, "req-1")])
    assert locks == [pool, pool]
    assert world.rows("SELECT pool_id FROM claims WHERE verb = 'delete'") == [] if unmanage else [(pool,)]


def test_capacity_returns_at_the_confirmation_of_a_delete() -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False, reports_provisioned=False)}).started()
    volume = world.made(20)
    world.delete(volume)
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(20, 0)]
    [early] = world.create(1)
    assert isinstance(early, Answer)
    assert early.pool is None
    gone = world.agent.work()
    assert gone is not None
    world.deliver(gone)
    # The figures contained the volume, so its end does not put it in flight again.
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(0, 0)]
    [late] = world.create(20)
    assert isinstance(late, Answer)
    assert late.pool is not None
