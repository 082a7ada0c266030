# SPDX-License-Identifier: Apache-2.0
"""The volumes that leave a draining backend next, and their order."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger import models
from tonnage.ledger.inventory import backends, drains


@pytest.fixture
def world() -> World:
    """Five volumes on a draining backend."""
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    for _ in range(5):
        world.create(1)
    world.settle()
    with world.database.reading() as session:
        name = backends.load_backends(session)[0].name
    world.database.run(backends.set_state, name, enabled=False, draining=True, reason=None)
    return world


def ids(world: World) -> list[str]:
    with world.database.reading() as session:
        return list(session.scalars(sa.select(models.Volume.id).order_by(models.Volume.id)))


def draining(world: World, limit: int, after: str = "") -> list[str]:
    with world.database.reading() as session:
        return drains.next_volumes(session, limit, after)


def change(world: World, volume_id: str, **values: Any) -> None:
    def update(session: orm.Session) -> None:
        session.execute(sa.update(models.Volume).where(models.Volume.id == volume_id).values(**values))

    world.database.run(update)


def test_volumes_without_another_pool_do_not_block_the_rest(world: World) -> None:
    volume_ids = ids(world)
    first = draining(world, 2)
    second = draining(world, 2, first[-1])
    third = draining(world, 2, second[-1])
    assert (first, second, third) == (volume_ids[:2], volume_ids[2:4], [volume_ids[4], volume_ids[0]])
    assert draining(world, 9, volume_ids[2]) == volume_ids[3:] + volume_ids[:3]


def test_at_most_the_limit_of_volumes_move_at_a_time(world: World) -> None:
    volume_ids = ids(world)
    change(world, volume_ids[3], status="maintenance")
    assert draining(world, 3) == volume_ids[:2]
    assert draining(world, 1) == []


def test_a_volume_whose_migration_failed_is_skipped_for_a_while(world: World) -> None:
    volume_ids = ids(world)
    change(world, volume_ids[0], migration_status="error")
    change(world, volume_ids[1], migration_status="success")
    assert draining(world, 9) == volume_ids[1:]
    change(world, volume_ids[0], updated_at=sa.text("'2020-01-01 00:00:00'"))
    assert draining(world, 9) == volume_ids


def test_no_volume_leaves_a_disabled_backend_that_is_not_draining(world: World) -> None:
    with world.database.reading() as session:
        name = backends.load_backends(session)[0].name
    world.database.run(backends.set_state, name, enabled=False, draining=False, reason="new disks")
    assert draining(world, 9) == []
