# SPDX-License-Identifier: Apache-2.0
"""The comparison of allocations in Placement with the written ones, and their repair."""

import pytest

from tests.unit.extensions.placement.test_allocation_writer import FakePlacement
from tests.unit.scheduler.world import StoragePool, World
from tonnage.extensions.placement import allocation_check
from tonnage.extensions.placement.allocation_check import Cause, Difference
from tonnage.extensions.placement.allocation_writer import AllocationWriter

POOL = "host@backend#p"


class CheckedPlacement(FakePlacement):
    """A Placement with one provider, for the pool."""

    def providers(self) -> dict[str, str]:
        return {POOL: "provider"}

    def allocations(self, provider: str) -> dict[str, int]:
        return {consumer: size for consumer, size in self.sizes.items() if size}


@pytest.fixture
def world() -> World:
    return World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()


def difference(cause: Cause, consumer_id: str, told_gb: int, held_gb: int) -> Difference:
    return Difference(cause=cause, pool=POOL, consumer_id=consumer_id, told_gb=told_gb, held_gb=held_gb)


def test_written_allocations_are_no_difference_and_unwritten_ones_are_pending(world: World) -> None:
    placement = CheckedPlacement()
    world.made(5)
    result = allocation_check.check(world.database, placement)
    assert (result.differences, result.pending) == ([], 1)
    AllocationWriter(world.database, placement).write_all()
    result = allocation_check.check(world.database, placement)
    assert (result.differences, result.pending) == ([], 0)


@pytest.mark.parametrize("held_gb", [0, 3])
def test_a_lost_or_smaller_allocation_is_written_again(world: World, held_gb: int) -> None:
    placement = CheckedPlacement()
    volume_id = world.made(5)
    AllocationWriter(world.database, placement).write_all()
    placement.sizes[volume_id] = held_gb
    lost = [difference(Cause.LOST, volume_id, 5, held_gb)]
    assert allocation_check.check(world.database, placement, "demo").drift == lost
    result = allocation_check.sync(world.database, placement)
    assert (result.drift, result.refused) == (lost, 0)
    assert placement.sizes == {volume_id: 5}
    assert allocation_check.check(world.database, placement).drift == []


def test_a_foreign_consumer_is_shown_and_left_alone(world: World) -> None:
    placement = CheckedPlacement()
    placement.sizes["instance"] = 40
    result = allocation_check.sync(world.database, placement)
    assert result.differences == [difference(Cause.FOREIGN, "instance", 0, 40)]
    assert (result.drift, placement.sizes) == ([], {"instance": 40})
    # A project's check is about its own volumes.
    assert allocation_check.check(world.database, placement, "demo").differences == []


def test_lost_allocations_come_before_foreign_ones(world: World) -> None:
    placement = CheckedPlacement()
    volume_id = world.made(5)
    AllocationWriter(world.database, placement).write_all()
    placement.sizes = {"0-instance": 1}
    differences = allocation_check.check(world.database, placement).differences
    assert [row.consumer_id for row in differences] == [volume_id, "0-instance"]
