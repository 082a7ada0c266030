# SPDX-License-Identifier: Apache-2.0
"""Tests of concurrent writers, with a fake Placement that checks generations as the real one does."""

from collections.abc import Callable, Iterable, Mapping

from tests.unit.scheduler.world import StoragePool, World
from tonnage.extensions.placement import placement_allocations
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.client import Inventory, PlacementClient, PlacementRefused
from tonnage.extensions.placement.placement_allocations import AllocationChange


class FakePlacement(PlacementClient):
    """A client with sizes and generations by consumer in memory. ``before`` runs once before the next write."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.generations: dict[str, int] = {}
        self.before: Callable[[], object] = lambda: None

    def providers(self) -> dict[str, str]:
        return {}

    def create_provider(self, name: str, uuid: str) -> None: ...

    def inventory(self, provider: str) -> tuple[int, Inventory | None]:
        return 0, None

    def set_inventory(self, provider: str, generation: int, inventory: Inventory) -> None: ...

    def set_allocations(self, allocations: Iterable[AllocationChange], providers: Mapping[int, str]) -> None:
        before, self.before = self.before, lambda: None
        before()
        allocations = list(allocations)
        if any(self.generation(each.consumer_id) != each.generation for each in allocations):
            raise PlacementRefused(409, "consumer generation conflict")
        for each in allocations:
            self.sizes[each.consumer_id] = each.size_gb
            self.generations[each.consumer_id] = self.generations.get(each.consumer_id, 0) + 1

    def generation(self, consumer_id: str) -> int | None:
        return self.generations.get(consumer_id)


def test_a_round_does_not_write_outdated_sizes_after_a_faster_round() -> None:
    world = World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()
    volume_id = world.made(5)
    placement = FakePlacement()
    slow, fast = AllocationWriter(world.database, placement), AllocationWriter(world.database, placement)

    def overtake() -> None:
        world.extend(volume_id, 7)
        world.settle()
        assert fast.write_all().done == 1

    placement.before = overtake
    slow.write_all()
    assert placement.sizes == {volume_id: 7}
    with world.database.reading() as session:
        assert placement_allocations.sent_usage(session, "demo") == placement_allocations.SentUsage(
            {world.create_message(1).user_id: 7}, False
        )


def test_an_allocation_is_written_again_after_a_foreign_change() -> None:
    world = World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()
    volume_id = world.made(5)
    placement = FakePlacement()
    placement.before = lambda: placement.generations.update({volume_id: 3})
    assert AllocationWriter(world.database, placement).write_all().done == 1
    assert (placement.sizes, placement.generations) == ({volume_id: 5}, {volume_id: 4})
