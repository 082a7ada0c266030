# SPDX-License-Identifier: Apache-2.0
"""Rounds that get into each other's way, with a Placement that keeps generations as the real one does."""

from collections.abc import Callable, Iterable, Mapping

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.catalog.placement_allocations import Telling
from tonnage.placement.allocation_writer import Writer
from tonnage.placement.client import Inventory, Placement, Refused


class Holds(Placement):
    """Stands for Placement: sizes and generations by consumer. Before it is told something it does what is given."""

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

    def tell(self, tellings: Iterable[Telling], providers: Mapping[int, str]) -> None:
        before, self.before = self.before, lambda: None
        before()
        tellings = list(tellings)
        if any(self.generation(each.consumer_id) != each.generation for each in tellings):
            raise Refused(409, "consumer generation conflict")
        for each in tellings:
            self.sizes[each.consumer_id] = each.size_gb
            self.generations[each.consumer_id] = self.generations.get(each.consumer_id, 0) + 1

    def generation(self, consumer_id: str) -> int | None:
        return self.generations.get(consumer_id)


def test_a_round_that_another_has_overtaken_does_not_tell_what_was_before() -> None:
    world = World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()
    volume_id = world.made(5)
    placement = Holds()
    slow, fast = Writer(world.database, placement), Writer(world.database, placement)

    def overtake() -> None:
        world.extend(volume_id, 7)
        world.settle()
        assert fast.tell().done == 1

    placement.before = overtake
    slow.tell()
    assert placement.sizes == {volume_id: 7}
    with world.database.reading() as session:
        assert placement_allocations.told_of(session, "demo") == placement_allocations.Told(
            {world.create_message(1).user_id: 7}, False
        )


def test_what_somebody_else_has_told_meanwhile_is_told_again() -> None:
    world = World({"p": StoragePool(1000, 2.0, thin=True, thick=False)}).started()
    volume_id = world.made(5)
    placement = Holds()
    placement.before = lambda: placement.generations.update({volume_id: 3})
    assert Writer(world.database, placement).tell().done == 1
    assert (placement.sizes, placement.generations) == ({volume_id: 5}, {volume_id: 4})
