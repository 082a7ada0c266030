# SPDX-License-Identifier: Apache-2.0
"""Tests of the base classes of filters."""

from importlib import metadata
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.affinity import SameBackendFilter
from tonnage.filters.base import Filter, Mask, PoolFilter

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=10.0 * i, free=0.0) for i in range(4))
REQUEST = Request("r", 20)


class LargeEnough(PoolFilter):
    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.asked: list[str] = []

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        self.asked.append(pool.name)
        return pool.total >= request.size_gb


def test_a_pool_filter_is_called_for_each_pool() -> None:
    assert LargeEnough(SimpleNamespace()).accepts(POOLS, REQUEST).tolist() == [False, False, True, True]


def test_a_pool_filter_is_called_only_for_remaining_pools() -> None:
    plugin = LargeEnough(SimpleNamespace())
    assert plugin.narrow(POOLS, REQUEST, np.array([True, False, False, True])).tolist() == [False, False, False, True]
    assert plugin.asked == ["h@b#0", "h@b#3"]


@pytest.mark.parametrize("verdict", [None, 1, "yes"])
def test_a_verdict_is_true_or_false(verdict: Any) -> None:
    class Rubbish(PoolFilter):
        def accepts_pool(self, pool: Pool, request: Request) -> bool:
            return verdict  # type: ignore[no-any-return]

    with pytest.raises(TypeError, match="expected True or False"):
        Rubbish(SimpleNamespace()).accepts(POOLS, REQUEST)


def test_a_subclass_that_overrides_accepts_does_not_inherit_reads_figures() -> None:
    class Other(SameBackendFilter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return pools.free > 0

    assert not SameBackendFilter.reads_figures
    assert Other.reads_figures


def test_the_built_in_filters_that_read_figures() -> None:
    shipped = {point.name: point.load() for point in metadata.entry_points(group="tonnage.filters")}
    # AvailabilityZoneFilter keeps the default value, which has no effect: its verdicts are always cached.
    expected = {"AvailabilityZoneFilter", "CapabilitiesFilter", "CapacityFilter"}
    expected |= {"DriverFilter", "FreeSpaceFilter", "JsonFilter"}
    assert {name for name, plugin in shipped.items() if plugin.reads_figures} == expected


def test_the_default_name_is_the_class_name() -> None:
    class Named(LargeEnough):
        name = "by another name"

    class Unnamed(Named):
        pass

    assert LargeEnough(SimpleNamespace()).name == "LargeEnough"
    assert (Named.name, Unnamed.name) == ("by another name", "Unnamed")


def test_the_default_reason() -> None:
    class Never(Filter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return np.zeros(len(pools), dtype=np.bool_)

    plugin = Never(SimpleNamespace())
    assert plugin.reason(POOLS.row(0), REQUEST).message == "is not accepted"
