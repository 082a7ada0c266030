# SPDX-License-Identifier: Apache-2.0
"""The base classes of weighers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import PoolWeigher

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=10.0 * i, free=0.0) for i in range(3))
REQUEST = Request("r", 1)


class Largest(PoolWeigher):
    def weigh_pool(self, pool: Pool, request: Request) -> float:
        return pool.total / request.size_gb


def test_a_pool_weigher_is_asked_pool_by_pool() -> None:
    plugin = Largest(SimpleNamespace())
    assert plugin.weigh(POOLS, REQUEST).tolist() == [0, 10, 20]
    assert plugin.weigh_candidates(POOLS, REQUEST, np.array([False, True, False])).tolist() == [0, 10, 0]
    assert (plugin.name, plugin.multiplier) == ("Largest", 1.0)


@pytest.mark.parametrize("weight", ["5", None, [1.0]])
def test_a_weight_is_a_number(weight: Any) -> None:
    class Rubbish(PoolWeigher):
        def weigh_pool(self, pool: Pool, request: Request) -> float:
            return weight  # type: ignore[no-any-return]

    with pytest.raises(TypeError, match="expected a number"):
        Rubbish(SimpleNamespace()).weigh(POOLS, REQUEST)
