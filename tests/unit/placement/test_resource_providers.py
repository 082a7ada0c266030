# SPDX-License-Identifier: Apache-2.0
import logging
from typing import Any

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.catalog.placement_allocations import PoolFigures
from tonnage.placement import resource_providers
from tonnage.placement.client import Inventory, Placement, Refused
from tonnage.placement.resource_providers import MOST, Providers


def pool(allocated: int = 0, told: int = 0, ratio: float = 2.0, **stats: Any) -> PoolFigures:
    figures = {
        "pool_name": "p",
        "total_capacity_gb": 1000,
        "free_capacity_gb": 500,
        "provisioned_capacity_gb": 0,
        "reserved_percentage": 10,
        "thin_provisioning_support": True,
        **stats,
    }
    return PoolFigures(1, "h@b#p", ratio, figures, allocated, told)


@pytest.mark.parametrize(
    ("figures", "more", "expected"),
    [
        (pool(), 0, Inventory(1000, 100, 2.0)),
        (pool(ratio=1.999), 0, Inventory(1000, 100, 1.99)),
        # A thick pool gives out no more than it has, whatever its ratio.
        (pool(thin_provisioning_support=False), 0, Inventory(1000, 100, 1.0)),
        (pool(total_capacity_gb=1000.7, reserved_percentage=33), 0, Inventory(1000, 330, 2.0)),
        # What is there is more than the figures admit.
        (pool(allocated=1800), 0, Inventory(1000, 100, 2.0)),
        (pool(allocated=1801), 0, Inventory(1000, 100, 2.01)),
        (pool(told=1800), 100, Inventory(1000, 100, 2.12)),
        (pool(reserved_percentage=100), 0, Inventory(1000, 1000, 2.0)),
        (pool(reserved_percentage=100, allocated=3), 0, Inventory(1000, 999, 3.0)),
        (pool(total_capacity_gb=0, free_capacity_gb=0), 0, Inventory(1, 0, 2.0)),
        (pool(total_capacity_gb="infinite", free_capacity_gb="infinite"), 0, Inventory(MOST, 0, 2.0)),
        (pool(total_capacity_gb="unknown", free_capacity_gb="unknown"), 5, Inventory(MOST, 0, 2.0)),
        (pool(total_capacity_gb=1e12), 0, Inventory(MOST, MOST, 2.0)),
        # Figures that another release has taken, and this one would not.
        (pool(total_capacity_gb="many"), 7, Inventory(MOST, 0, 1.0)),
    ],
)
def test_a_pool_has_in_placement_what_it_reports(figures: PoolFigures, more: int, expected: Inventory) -> None:
    [found] = resource_providers.inventories([figures], {1: more})
    assert found == expected
    needed = max(figures.allocated_gb, figures.told_gb + more)
    assert (found.total - found.reserved) * found.allocation_ratio >= needed


def test_a_provider_is_called_as_its_pool_is_if_placement_takes_that() -> None:
    assert resource_providers.name_of("h@b#p") == "h@b#p"
    long, other = "h@b#" + "x" * 300, "h@b#" + "x" * 301
    assert len(resource_providers.name_of(long)) == 200
    assert resource_providers.name_of(long) != resource_providers.name_of(other)


class Picky(Placement):
    """Stands for a Placement that has a provider of another name which it does not tell apart from this one's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.written: list[str] = []

    def providers(self) -> dict[str, str]:
        return {}

    def create_provider(self, name: str, uuid: str) -> None:
        if name == self._name:
            raise Refused(409, "Conflicting resource provider name")
        self.written.append(name)

    def inventory(self, provider: str) -> tuple[int, Inventory | None]:
        return 0, None

    def set_inventory(self, provider: str, generation: int, inventory: Inventory) -> None: ...


def test_a_pool_that_placement_does_not_take_keeps_no_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    """Nor from being told what they hold: the keeper looks at the pools first."""
    pools = {name: StoragePool(100, 1.0, thin=True, thick=False) for name in ("a", "b", "c")}
    world = World(pools).started()
    with world.database.reading() as session:
        a, b, c = (each.name for each in placement_allocations.pools(session))
    placement = Picky(b)
    Providers(world.database, placement).sweep()
    assert {a, c} <= set(placement.written)
    assert b not in placement.written
    [said] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == f"Resource provider {b} cannot be written to Placement: Conflicting resource provider name"


def test_who_is_told_to_end_asks_about_no_more_pools() -> None:
    world = World({"p": StoragePool(100, 1.0, thin=True, thick=False)}).started()
    nobody: Any = None
    with pytest.raises(AttributeError):
        Providers(world.database, nobody).sweep()
    Providers(world.database, nobody).sweep(stopped=lambda: True)
