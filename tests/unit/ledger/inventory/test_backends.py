# SPDX-License-Identifier: Apache-2.0
"""Backends as they are read, and pools that have vanished."""

import datetime

import sqlalchemy as sa

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger import models
from tonnage.ledger.inventory import backends


def test_backends_are_read_fresh_from_the_database() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    with world.database.reading() as session:
        [loaded] = session.scalars(sa.select(models.Backend)).all()
        before = loaded.report_seq
        session.execute(sa.text("UPDATE backends SET report_seq = report_seq + 1"))
        assert [row.report_seq for row in backends.load_backends(session)] == [before + 1]


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
