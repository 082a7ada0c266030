# SPDX-License-Identifier: Apache-2.0
from collections.abc import Collection

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tonnage.capacity import errors
from tonnage.ledger import counters
from tonnage.ledger import deletions
from tonnage.ledger import models
from tonnage.rpc.messages import Answer


@pytest.fixture
def world() -> World:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    world.start_agent()
    world.report()
    return world


def made(world: World) -> str:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    world.settle()
    return answer.volume_id


def test_a_volume_that_goes_while_its_pool_is_waited_for_is_not_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = made(world)

    def lock_late(session: orm.Session, pool_ids: Collection[int]) -> None:
        session.execute(sa.delete(models.Volume).execution_options(synchronize_session=False))

    monkeypatch.setattr(counters, "lock_pools", lock_late)
    with pytest.raises(errors.NotFound, match=volume):
        world.database.run(deletions.begin, volume, "req-1")


def test_backends_are_locked_before_pools_as_everywhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = made(world)
    order: list[str] = []
    for name in ("lock_backends", "lock_pools"):
        monkeypatch.setattr(counters, name, lambda session, pool_ids, name=name: order.append(name))
    world.database.run(deletions.begin, volume, "req-1")
    assert order == ["lock_backends", "lock_pools"]
