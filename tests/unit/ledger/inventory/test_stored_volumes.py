# SPDX-License-Identifier: Apache-2.0
"""The volumes that the ledger counts in the pools of a backend, compared with its storage."""

from collections.abc import Collection

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.ledger.inventory import stored_volumes
from tonnage.rpc.messages import Answer, ListedVolume

POOLS = ("p0", "p1")


@pytest.fixture
def world() -> World:
    return World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in POOLS}).started()


def made(world: World) -> tuple[str, str]:
    """Create a volume and return its id and its pool."""
    volume_id = world.made(2)
    [pool] = [name for name, pool in world.pools.items() if volume_id in pool.volumes]
    return volume_id, pool


def counted(world: World, pools: Collection[str] = POOLS, backend: str = BACKEND) -> dict[str, int]:
    with world.database.reading() as session:
        return stored_volumes.counted(session, backend, pools)


def unlisted(world: World, *listed: tuple[str, str], pools: Collection[str] = POOLS) -> dict[str, int]:
    volumes = [ListedVolume(volume_id=volume_id, pool=pool, size_gb=1) for volume_id, pool in listed]
    with world.database.reading() as session:
        return stored_volumes.unlisted(session, BACKEND, pools, volumes)


def test_volumes_are_counted_once_from_their_claim_to_the_end_of_their_deletion(world: World) -> None:
    assert counted(world) == {}
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    assert list(counted(world).values()) == [1]
    world.settle()
    world.extend(answer.volume_id, 5)
    assert list(counted(world).values()) == [1], "two claims of one volume"
    world.settle()
    world.delete(answer.volume_id)
    assert list(counted(world).values()) == [1]
    world.settle()
    assert counted(world) == {}


def test_only_the_named_pools_of_the_backend_count(world: World) -> None:
    _, pool = made(world)
    [other] = set(POOLS) - {pool}
    assert counted(world, [pool, "\0", "\ud800"]) == {pool: 1}
    assert counted(world, [other]) == counted(world, [pool], "host@other") == counted(world, []) == {}


def test_a_pool_is_unlisted_if_the_listing_shows_none_of_its_settled_volumes(world: World) -> None:
    volume_id, pool = made(world)
    [other] = set(POOLS) - {pool}
    assert unlisted(world) == unlisted(world, ("foreign", pool), (volume_id, other)) == {pool: 1}
    assert unlisted(world, (volume_id, pool)) == unlisted(world, pools=[other]) == {}


def test_a_volume_with_an_operation_is_not_settled(world: World) -> None:
    volume_id, _ = made(world)
    world.extend(volume_id, 3)
    assert unlisted(world) == {}
    world.settle()
    world.delete(volume_id)
    assert unlisted(world) == {}


def test_the_marks_of_a_backend_are_recorded_by_pool(world: World) -> None:
    [(backend_id,)] = world.rows("SELECT id FROM backends")
    for marks in ({"p0": "one", "p1": "one"}, {"p1": "two", "p2": "two", "\0": "two", "p3": "x" * 256}, {}):
        world.database.run(stored_volumes.record_marks, backend_id, marks)
    with world.database.reading() as session:
        assert stored_volumes.marks(session, BACKEND) == {"p0": "one", "p1": "two", "p2": "two"}
        assert stored_volumes.marks(session, "host@other") == {}
