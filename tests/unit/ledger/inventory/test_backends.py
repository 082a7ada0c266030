# SPDX-License-Identifier: Apache-2.0
"""Volumes to migrate away from a draining backend, and pools that have vanished."""

import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger import models
from tonnage.ledger.inventory import backends


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


def test_backends_are_read_fresh_from_the_database(world: World) -> None:
    with world.database.reading() as session:
        [loaded] = session.scalars(sa.select(models.Backend)).all()
        before = loaded.report_seq
        session.execute(sa.text("UPDATE backends SET report_seq = report_seq + 1"))
        assert [row.report_seq for row in backends.load_backends(session)] == [before + 1]


def ids(world: World) -> list[str]:
    with world.database.reading() as session:
        return list(session.scalars(sa.select(models.Volume.id).order_by(models.Volume.id)))


def draining(world: World, limit: int, after: str = "") -> list[str]:
    with world.database.reading() as session:
        return backends.draining_volumes(session, limit, after)


def change(world: World, volume_id: str, **values: Any) -> None:
    def update(session: orm.Session) -> None:
        session.execute(sa.update(models.Volume).where(models.Volume.id == volume_id).values(**values))

    world.database.run(update)


def test_volumes_without_another_pool_do_not_block_the_rest(world: World) -> None:
    known = ids(world)
    first = draining(world, 2)
    second = draining(world, 2, first[-1])
    third = draining(world, 2, second[-1])
    assert (first, second, third) == (known[:2], known[2:4], [known[4], known[0]])
    assert draining(world, 9, known[2]) == known[3:] + known[:3]


def test_at_most_the_limit_of_volumes_move_at_a_time(world: World) -> None:
    known = ids(world)
    change(world, known[3], status="maintenance")
    assert draining(world, 3) == known[:2]
    assert draining(world, 1) == []


def test_a_volume_whose_migration_failed_is_skipped_for_a_while(world: World) -> None:
    known = ids(world)
    change(world, known[0], migration_status="error")
    change(world, known[1], migration_status="success")
    assert draining(world, 9) == known[1:]
    change(world, known[0], updated_at=sa.text("'2020-01-01 00:00:00'"))
    assert draining(world, 9) == known


def test_no_volume_leaves_a_disabled_backend_that_is_not_draining(world: World) -> None:
    with world.database.reading() as session:
        name = backends.load_backends(session)[0].name
    world.database.run(backends.set_state, name, enabled=False, draining=False, reason="new disks")
    assert draining(world, 9) == []


def test_an_unused_pool_that_has_vanished_is_deleted_after_a_month() -> None:
    pools = {name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1", "p2")}
    world = World(pools).started()
    [answer] = world.create(1)
    assert not isinstance(answer, Exception)
    assert answer.pool
    world.settle()
    used = answer.pool.partition("#")[2]
    kept, unused = sorted(pools.keys() - {used})
    removed = {name: world.pools.pop(name) for name in (used, unused)}
    world.settle()
    assert world.database.run(backends.purge_pools) == 0
    with world.database.engine.begin() as connection:
        long_ago = datetime.datetime(2020, 1, 1)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
        connection.execute(sa.update(models.Pool).values(reported_at=long_ago))
    assert world.database.run(backends.purge_pools) == 1
    names = {name.partition("#")[2] for (name,) in world.rows("SELECT name FROM pools")}
    assert names == {used, kept}
    world.pools.update(removed)
    world.settle()
    answers = world.create(10, 10, 10, 10)
    assert unused in {answer.pool.partition("#")[2] for answer in answers if answer.pool}
