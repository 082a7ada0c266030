# SPDX-License-Identifier: Apache-2.0
"""AllocatedCapacityWeigher."""

from types import SimpleNamespace

import numpy as np

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.allocated_capacity import AllocatedCapacityWeigher
from tonnage.weighers.chain import WeigherChain

POOLS = PoolTable(Pool(name=f"h@b#{n}", total=100.0, free=100.0, allocated=float(n)) for n in (10, 0, 30))


def test_by_default_the_pool_with_the_least_allocated_capacity_is_best() -> None:
    (option,) = AllocatedCapacityWeigher.options
    assert (option.name, option.default) == ("allocated_capacity_weight_multiplier", -1.0)
    weigher = AllocatedCapacityWeigher(SimpleNamespace(allocated_capacity_weight_multiplier=option.default))
    rows = WeigherChain([weigher]).order(POOLS, Request("r", 1), np.ones(3, dtype=np.bool_))
    assert rows.tolist() == [1, 0, 2]


def test_the_weights_are_no_view_of_the_table() -> None:
    weigher = AllocatedCapacityWeigher(SimpleNamespace(allocated_capacity_weight_multiplier=1.0))
    weights = weigher.weigh(POOLS, Request("r", 1))
    weights[:] = -1
    assert POOLS.allocated.tolist() == [10, 0, 30]
