# SPDX-License-Identifier: Apache-2.0
"""ChanceWeigher."""

from collections import Counter
from types import SimpleNamespace

import numpy as np

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.chance import ChanceWeigher

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(4))
PLUGIN = ChanceWeigher(SimpleNamespace())


def test_random_weights_differ_for_each_request() -> None:
    drawn = PLUGIN.weigh(POOLS, Request("r", 1)).tolist()
    assert drawn == PLUGIN.weigh(POOLS, Request("r", 1)).tolist()
    assert drawn != PLUGIN.weigh(POOLS, Request("s", 1)).tolist()
    assert len(set(drawn)) == 4
    assert all(0 < weight < 1 for weight in drawn)


def test_every_pool_is_chosen_with_the_same_probability() -> None:
    chain = WeigherChain([PLUGIN])
    everything = np.ones(4, dtype=np.bool_)
    chosen = Counter(chain.rank(POOLS, Request(f"r{i}", 1), everything) for i in range(2000))
    assert all(400 < chosen[row] < 600 for row in range(4))
