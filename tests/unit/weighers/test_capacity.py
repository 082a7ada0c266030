# SPDX-License-Identifier: Apache-2.0
"""CapacityWeigher."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

FIGURES: dict[str, Any] = {
    "total": 1000.0,
    "free": 700.0,
    "provisioned": 1400.0,
    "claimed": 20.0,
    "claimed_physical": 5.0,
    "reserved_percentage": 10.0,
    "ratio": 2.0,
}
POOLS = PoolTable(
    [
        Pool(name="h@b#thin", thin=True, **FIGURES),
        Pool(name="h@b#both", thin=True, thick=True, **FIGURES),
        Pool(name="h@b#thick", thick=True, **FIGURES),
        Pool(name="h@b#open", thin=True, **FIGURES | {"total": math.inf}),
    ]
)


def weigher(calculation: Calculation = Calculation.CINDER, multiplier: float = 1.0) -> CapacityWeigher:
    conf = SimpleNamespace(over_provisioning_calculation=calculation, capacity_weight_multiplier=multiplier)
    return CapacityWeigher(conf)


@pytest.mark.parametrize(("calculation", "virtual"), [(Calculation.CINDER, 480.0), (Calculation.STANDARD, 380.0)])
@pytest.mark.parametrize("asked", [None, Provisioning.THIN, Provisioning.THICK])
def test_thin_is_ranked_by_virtual_free_and_thick_by_physical_free(
    calculation: Calculation, virtual: float, asked: Provisioning | None
) -> None:
    weights = weigher(calculation).weigh(POOLS, Request("r", 1, provisioning=asked))
    both = 595.0 if asked is Provisioning.THICK else virtual
    np.testing.assert_array_equal(weights, [virtual, both, 595.0, math.nan])


@pytest.mark.parametrize("multiplier", [1.0, -1.0])
def test_pools_with_an_unknown_or_infinite_capacity_come_last(multiplier: float) -> None:
    chain = WeigherChain([weigher(multiplier=multiplier)])
    everything = np.ones(len(POOLS), dtype=np.bool_)
    assert POOLS.names[chain.order(POOLS, Request("r", 1), everything)[-1]] == "h@b#open"


@pytest.mark.parametrize("calculation", list(Calculation))
def test_rounding_errors_do_not_affect_the_order(calculation: Calculation) -> None:
    """Scaled to 0..1 they would count as much as all that another weigher says."""
    same = PoolTable(
        Pool(name=f"h@b#{total}", total=total, free=total, provisioned=provisioned, thin=True)
        for total, provisioned in ((50.0, 0.0), (100.1, 50.1), (1000.3, 950.3))
    )
    assert weigher(calculation).weigh(same, Request("r", 1)).tolist() == [50.0] * 3


def test_the_default_multiplier_spreads_volumes() -> None:
    (option,) = CapacityWeigher.options
    assert (option.name, option.default) == ("capacity_weight_multiplier", 1.0)
    pools = PoolTable(Pool(name=f"h@b#{free}", total=100.0, free=float(free), thick=True) for free in (10, 90, 50))
    chain = WeigherChain([weigher()])
    assert chain.order(pools, Request("r", 1), np.ones(3, dtype=np.bool_)).tolist() == [1, 2, 0]
