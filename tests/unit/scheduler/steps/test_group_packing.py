# SPDX-License-Identifier: Apache-2.0
"""Several volumes at once, all or none."""

import itertools
import random
from typing import Any

import pytest

from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.rpc.messages import CreateGroup, CreateVolume, GroupAnswer
from tonnage.scheduler.steps import group_packing


def world_of(*free: int, storage: Storage | None = None) -> World:
    """Return a world of backends with a pool each that has room for so much, thick."""
    pools = {
        f"host{number}@b#p": StoragePool(storage or Storage(None, room), 1.0, thin=False, thick=True)
        for number, room in enumerate(free)
    }
    world = World(pools)
    world.settle()
    return world


def ask(world: World, *sizes: int, **hints: dict[str, list[int]]) -> Any:
    """Ask for a group of these sizes; ``hints`` name members by their places, as ``same_host={"0": [1]}``."""
    request_id = world.request_id()
    plain = [world.create_message(size, request_id=request_id) for size in sizes]
    members: list[CreateVolume] = []
    for number, message in enumerate(plain):
        named = {
            hint: [plain[other].volume_id for other in wanted[str(number)]]
            for hint, wanted in hints.items()
            if str(number) in wanted
        }
        members.append(
            world.create_message(message.size_gb, request_id=request_id, volume_id=message.volume_id, hints=named)
        )
    [answer] = world.place(world.schedulers[0], CreateGroup(request_id=request_id, volumes=members))
    return answer


def backends(answer: GroupAnswer) -> list[str]:
    assert answer.refusal is None, answer.refusal.message
    return [backend_of(each.pool or "") for each in answer.volumes]


def test_all_members_are_placed_or_none() -> None:
    world = world_of(10, 10)
    answer = ask(world, 8, 8, 8)
    assert answer.refusal is not None
    assert answer.volumes == []
    assert "volume 3 of 3, all or none" in answer.refusal.message
    for table in ("volumes", "claims"):
        assert world.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    assert world.rows("SELECT SUM(allocated_capacity_gb) FROM pools") == [(0,)]
    # Nothing of the attempt is left in memory either.
    assert backends(ask(world, 10, 10)) != []


def test_members_count_against_the_capacity_of_each_other() -> None:
    world = world_of(10, 10)
    assert sorted(backends(ask(world, 6, 6))) == ["host0@b", "host1@b"]


def test_members_count_against_each_other_on_a_shared_storage() -> None:
    world = world_of(20, 20, storage=Storage("array", 20))
    assert ask(world, 11, 11).refusal is not None
    assert backends(ask(world, 11, 9)) != []


def test_members_are_rearranged_if_only_that_fits() -> None:
    # In order, 4 goes where most is free and leaves no room for 10.
    world = world_of(10, 4)
    assert backends(ask(world, 4, 10)) == ["host1@b", "host0@b"]


@pytest.mark.parametrize("seed", range(15))
def test_a_group_is_refused_only_if_no_arrangement_fits(seed: int) -> None:
    draw = random.Random(seed)
    free = [draw.randint(3, 12) for _ in range(3)]
    sizes = [draw.randint(1, 8) for _ in range(4)]
    possible = any(
        all(sum(size for size, at in zip(sizes, places, strict=True) if at == pool) <= free[pool] for pool in range(3))
        for places in itertools.product(range(3), repeat=len(sizes))
    )
    answer = ask(world_of(*free), *sizes)
    assert (answer.refusal is None) is possible, (free, sizes)


def test_the_search_for_an_arrangement_is_bounded_with_many_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_packing, "_ROWS", 6 * 30)
    monkeypatch.setattr(group_packing, "_LEAST_BUDGET", 20)
    claimed: list[int] = []
    claim = group_packing.GroupPacking.claim

    def count(fit: group_packing.GroupPacking, number: int, index: int) -> None:
        claimed.append(number)
        claim(fit, number, index)

    monkeypatch.setattr(group_packing.GroupPacking, "claim", count)
    apart = {str(number): [other for other in range(7) if other != number] for number in range(7)}
    assert ask(world_of(*[10] * 6), *[1] * 7, different_host=apart).refusal is not None
    assert len(claimed) == 6 + 6 + 30, "in turn, the tightest first, and by searching"


def test_members_can_have_affinity_and_anti_affinity() -> None:
    world = world_of(30, 30, 30)
    placed = backends(ask(world, 5, 5, 5, same_host={"2": [0]}, different_host={"0": [1]}))
    assert placed[0] == placed[2] != placed[1]
    # Whoever says so: the one that is placed first knows nothing of it.
    placed = backends(ask(world, 5, 5, 5, different_host={"2": [0, 1], "1": [0]}))
    assert len(set(placed)) == 3
    assert ask(world, 1, 1, 1, 1, different_host={"3": [0, 1, 2], "2": [0, 1], "1": [0]}).refusal is not None


def test_members_with_affinity_are_placed_where_both_fit() -> None:
    # The first one alone would go to the larger pool, which has no room for both.
    world = world_of(9, 8)
    first = ask(world, 1)
    assert backends(first) == ["host0@b"]
    world = world_of(10, 9)
    ask(world, 3)
    assert len(set(backends(ask(world, 4, 4, same_host={"1": [0]})))) == 1


def test_a_repeated_group_request_creates_one_group() -> None:
    world = world_of(10, 10)
    request_id = world.request_id()
    members = [world.create_message(3, request_id=request_id) for _ in range(2)]
    message = CreateGroup(request_id=request_id, volumes=members)
    first, again = world.place(world.schedulers[0], message, message)
    world.start_scheduler()
    assert first == again == world.place(world.schedulers[0], message)[0]
    assert world.rows("SELECT COUNT(*), SUM(size_gb) FROM volumes") == [(2, 6)]


def test_an_invalid_member_refuses_the_group() -> None:
    world = world_of(10)
    assert isinstance(ask(world, 3, 0), errors.InvalidInput)
    assert isinstance(ask(world), errors.InvalidInput)
    twice = world.create_message(1)
    [answer] = world.place(world.schedulers[0], CreateGroup(request_id="req-twice", volumes=[twice, twice]))
    assert isinstance(answer, errors.InvalidInput)
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
