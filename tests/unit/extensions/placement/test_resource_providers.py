# SPDX-License-Identifier: Apache-2.0
import logging
from typing import Any

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.extensions.placement import placement_allocations, resource_providers
from tonnage.extensions.placement.client import Inventory, PlacementClient, PlacementRefused
from tonnage.extensions.placement.placement_allocations import PoolFigures
from tonnage.extensions.placement.resource_providers import MAX_INTEGER, ResourceProviders


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
    ("figures", "growth_gb", "expected"),
    [
        (pool(), 0, Inventory(1000, 100, 2.0)),
        (pool(ratio=1.999), 0, Inventory(1000, 100, 1.99)),
        # The ratio does not apply to a thick pool.
        (pool(thin_provisioning_support=False), 0, Inventory(1000, 100, 1.0)),
        (pool(total_capacity_gb=1000.7, reserved_percentage=33), 0, Inventory(1000, 330, 2.0)),
        # The allocations exceed the reported capacity.
        (pool(allocated=1800), 0, Inventory(1000, 100, 2.0)),
        (pool(allocated=1801), 0, Inventory(1000, 100, 2.01)),
        (pool(told=1800), 100, Inventory(1000, 100, 2.12)),
        (pool(reserved_percentage=100), 0, Inventory(1000, 1000, 2.0)),
        (pool(reserved_percentage=100, allocated=3), 0, Inventory(1000, 999, 3.0)),
        (pool(total_capacity_gb=0, free_capacity_gb=0), 0, Inventory(1, 0, 2.0)),
        (pool(total_capacity_gb="infinite", free_capacity_gb="infinite"), 0, Inventory(MAX_INTEGER, 0, 2.0)),
        (pool(total_capacity_gb="unknown", free_capacity_gb="unknown"), 5, Inventory(MAX_INTEGER, 0, 2.0)),
        (pool(total_capacity_gb=1e12), 0, Inventory(MAX_INTEGER, MAX_INTEGER, 2.0)),
        # Figures that are valid in another release only.
        (pool(total_capacity_gb="many"), 7, Inventory(MAX_INTEGER, 0, 1.0)),
    ],
)
def test_the_inventory_follows_the_report(figures: PoolFigures, growth_gb: int, expected: Inventory) -> None:
    [found] = resource_providers.inventories([figures], {1: growth_gb})
    assert found == expected
    needed = max(figures.allocated_gb, figures.sent_gb + growth_gb)
    assert (found.total - found.reserved) * found.allocation_ratio >= needed


def test_a_provider_has_the_name_of_its_pool_shortened_if_necessary() -> None:
    assert resource_providers.provider_name("h@b#p") == "h@b#p"
    long, other = "h@b#" + "x" * 300, "h@b#" + "x" * 301
    assert len(resource_providers.provider_name(long)) == 200
    assert resource_providers.provider_name(long) != resource_providers.provider_name(other)


class ConflictingPlacement(PlacementClient):
    """A fake client of a Placement that refuses one provider's name as a duplicate."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.written: list[str] = []

    def providers(self) -> dict[str, str]:
        return {}

    def create_provider(self, name: str, uuid: str) -> None:
        if name == self._name:
            raise PlacementRefused(409, "Conflicting resource provider name")
        self.written.append(name)

    def inventory(self, provider: str) -> tuple[int, Inventory | None]:
        return 0, None

    def set_inventory(self, provider: str, generation: int, inventory: Inventory) -> None: ...


def test_a_refused_provider_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    """A refused provider must not prevent the update of other providers, which precedes the writing of allocations."""
    pools = {name: StoragePool(100, 1.0, thin=True, thick=False) for name in ("a", "b", "c")}
    world = World(pools).started()
    with world.database.reading() as session:
        a, b, c = (each.name for each in placement_allocations.pools(session))
    placement = ConflictingPlacement(b)
    ResourceProviders(world.database, placement).reconcile()
    assert {a, c} <= set(placement.written)
    assert b not in placement.written
    [message] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert message == f"Resource provider {b} cannot be written to Placement: Conflicting resource provider name"


def test_reconcile_stops_on_request() -> None:
    world = World({"p": StoragePool(100, 1.0, thin=True, thick=False)}).started()
    nobody: Any = None
    with pytest.raises(AttributeError):
        ResourceProviders(world.database, nobody).reconcile()
    ResourceProviders(world.database, nobody).reconcile(stopped=lambda: True)
