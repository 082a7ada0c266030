# SPDX-License-Identifier: Apache-2.0
"""VolumeNumberWeigher."""

from types import SimpleNamespace

import numpy as np
import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.volume_number import VolumeNumberWeigher

POOLS = PoolTable(
    Pool(name=f"h@b#{i}", total=1.0, free=1.0, volumes=number) for i, number in enumerate((7.0, 2.0, 9.0))
)


@pytest.mark.parametrize(("multiplier", "order"), [(-1.0, [1, 0, 2]), (1.0, [2, 0, 1])])
def test_the_multiplier_prefers_fewest_or_most_volumes(multiplier: float, order: list[int]) -> None:
    weigher = VolumeNumberWeigher(SimpleNamespace(volume_number_multiplier=multiplier))
    assert weigher.weigh(POOLS, Request("r", 1)).tolist() == [7, 2, 9]
    assert WeigherChain([weigher]).order(POOLS, Request("r", 1), np.ones(3, dtype=np.bool_)).tolist() == order


def test_the_weigher_declares_that_it_needs_volume_counts() -> None:
    assert VolumeNumberWeigher.needs_volumes
    [option] = VolumeNumberWeigher.options
    assert (option.name, option.default) == ("volume_number_multiplier", -1.0)
