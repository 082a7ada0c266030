# SPDX-License-Identifier: Apache-2.0
"""The comparison of claims with the allocations that were sent, on a real ledger."""

import datetime
from typing import Any

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.extensions.placement import placement_allocations
from tonnage.extensions.placement.placement_allocations import AllocationChange, Compared, ConsumerType, SentUsage


@pytest.fixture
def world() -> World:
    return World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()


def read(world: World, function: Any, *arguments: Any) -> Any:
    with world.database.reading() as session:
        return function(session, *arguments)


def differing(world: World) -> list[str]:
    compared: Compared = read(world, placement_allocations.compare)
    return compared.volume_ids


def plan(world: World, name: str = "round") -> list[AllocationChange]:
    return world.database.run(placement_allocations.plan, differing(world), name)


def send(world: World) -> list[AllocationChange]:
    changes = plan(world)
    world.database.run(placement_allocations.record_sent, changes, "round")
    return changes


def sizes(world: World) -> dict[str, int]:
    loaded: dict[str, int] = read(world, placement_allocations.load, 1)
    return loaded


def test_a_new_volume_differs_until_its_allocation_was_sent(world: World) -> None:
    volume_id = world.made(5)
    assert differing(world) == [volume_id]
    [change] = plan(world)
    assert (change.consumer_id, change.consumer_type, change.size_gb, change.before_gb) == (
        volume_id,
        ConsumerType.VOLUME,
        5,
        0,
    )
    assert (change.generation, change.doubted) == (None, False)
    # It is being sent, and perhaps Placement has it already.
    assert differing(world) == [volume_id]
    assert sizes(world) == {}
    world.database.run(placement_allocations.record_sent, [change], "round")
    assert differing(world) == []
    assert sizes(world) == {volume_id: 5}


def test_an_extended_volume_is_sent_with_its_new_size(world: World) -> None:
    volume_id = world.made(5)
    send(world)
    world.extend(volume_id, 7)
    world.settle()
    [change] = send(world)
    assert (change.size_gb, change.before_gb) == (7, 5)
    assert sizes(world) == {volume_id: 7}


def test_the_allocation_of_a_deleted_volume_is_removed(world: World) -> None:
    volume_id = world.made(5)
    send(world)
    world.delete(volume_id)
    world.settle()
    [change] = send(world)
    assert (change.consumer_id, change.size_gb, change.before_gb) == (volume_id, 0, 5)
    assert (sizes(world), differing(world)) == ({}, [])


def test_a_newer_round_takes_a_consumer_over(world: World) -> None:
    volume_id = world.made(5)
    old, new = plan(world, "old"), plan(world, "new")
    assert [change.doubted for change in new] == [True]
    assert read(world, placement_allocations.current_changes, old, "old") == []
    assert read(world, placement_allocations.current_changes, new, "new") == new
    world.database.run(placement_allocations.record_sent, old, "old")
    assert sizes(world) == {}
    world.database.run(placement_allocations.record_sent, new, "new")
    assert sizes(world) == {volume_id: 5}


def test_after_a_refusal_placement_has_what_it_had(world: World) -> None:
    volume_id = world.made(5)
    send(world)
    world.extend(volume_id, 7)
    world.settle()
    changes = plan(world)
    world.database.run(placement_allocations.record_refused, changes, "round")
    assert (sizes(world), differing(world)) == ({volume_id: 5}, [volume_id])


def test_after_a_refusal_in_doubt_the_state_stays_unknown(world: World) -> None:
    world.made(5)
    plan(world, "lost")
    world.database.run(placement_allocations.record_refused, plan(world), "round")
    assert sizes(world) == {}


def test_volumes_are_compared_in_pages_that_leave_none_out(world: World) -> None:
    volume_ids = sorted(world.made(1) for _ in range(5))
    collected: list[str] = []
    after: str | None = ""
    pages = 0
    while after is not None:
        compared: Compared = read(world, placement_allocations.compare, after, 2)
        collected += compared.volume_ids
        after = compared.upto
        pages += 1
    assert collected == volume_ids
    assert pages > 1


def test_usage_counts_by_user_and_is_in_doubt_while_a_round_sends(world: World) -> None:
    world.made(5)
    send(world)
    user = world.create_message(1).user_id
    assert read(world, placement_allocations.sent_usage, "demo") == SentUsage({user: 5}, False)
    world.made(2)
    plan(world)
    usage: SentUsage = read(world, placement_allocations.sent_usage, "demo")
    assert (usage.of(user), usage.of(""), usage.of("nobody"), usage.doubt) == (5, 5, 0, True)
    assert read(world, placement_allocations.sent_usage, "other") == SentUsage({}, False)


def test_pools_have_their_allocated_and_their_sent_capacity(world: World) -> None:
    world.made(5)
    send(world)
    world.made(2)
    [figures] = read(world, placement_allocations.pools)
    assert (figures.name, figures.ratio, figures.allocated_gb, figures.sent_gb) == ("host@backend#p", 2.0, 7, 5)
    assert read(world, placement_allocations.pools, [figures.id]) == [figures]
    assert read(world, placement_allocations.pools, [figures.id + 1]) == []


@pytest.mark.parametrize("project", [False, True])
def test_allocations_can_be_sent_again(world: World, project: bool) -> None:
    volume_id = world.made(5)
    send(world)
    if project:
        world.database.run(placement_allocations.mark_project_for_resend, "other")
        assert differing(world) == []
        world.database.run(placement_allocations.mark_project_for_resend, "demo")
    else:
        world.database.run(placement_allocations.mark_for_resend, [volume_id])
    assert differing(world) == [volume_id]
    assert read(world, placement_allocations.sent_consumers, [volume_id, "unknown"]) == {volume_id}
    [change] = send(world)
    assert (change.size_gb, change.before_gb, change.doubted) == (5, 5, True)


def test_a_volume_is_unsent_from_its_creation_to_its_first_allocation(world: World) -> None:
    volume_id = world.made(5)
    soon = read(world, placement_allocations.now) + datetime.timedelta(minutes=1)
    earlier = soon - datetime.timedelta(minutes=2)
    assert read(world, placement_allocations.any_unsent, soon)
    assert not read(world, placement_allocations.any_unsent, earlier)
    send(world)
    assert not read(world, placement_allocations.any_unsent, soon)
    assert sizes(world) == {volume_id: 5}
