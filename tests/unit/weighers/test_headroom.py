# SPDX-License-Identifier: Apache-2.0
"""HeadroomWeigher."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.capacity import CapacityFilter
from tonnage.weighers.base import Weigher
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.headroom import HeadroomWeigher

#: The pools of the worked example in the documentation: a nearly full one, and an empty one of half its size.
FULL = Pool(name="h@b#full", total=1000.0, free=10.0, provisioned=100.0, ratio=2.0, thin=True)
EMPTY = Pool(name="h@b#empty", total=500.0, free=500.0, provisioned=0.0, ratio=2.0, thin=True)
EXAMPLE = PoolTable([FULL, EMPTY])


def conf(calculation: Calculation = Calculation.CINDER, multiplier: float = 1.0) -> SimpleNamespace:
    return SimpleNamespace(
        over_provisioning_calculation=calculation,
        headroom_weight_multiplier=multiplier,
        capacity_weight_multiplier=multiplier,
    )


def first(weigher: Weigher, pools: PoolTable) -> str:
    order = WeigherChain([weigher]).order(pools, Request("r", 15), np.ones(len(pools), dtype=np.bool_))
    return pools.names[order[0]]


def test_the_empty_pool_comes_before_the_nearly_full_one_with_more_virtual_capacity() -> None:
    weigher = HeadroomWeigher(conf())
    assert weigher.weigh(EXAMPLE, Request("r", 15)).tolist() == [20.0, 1000.0]
    assert first(weigher, EXAMPLE) == "h@b#empty"
    assert CapacityWeigher(conf()).weigh(EXAMPLE, Request("r", 15)).tolist() == [1900.0, 1000.0]
    assert first(CapacityWeigher(conf()), EXAMPLE) == "h@b#full"


def test_a_pool_over_its_limit_comes_after_a_small_empty_one() -> None:
    """The capacity and the reserve of a public example: 156,871 GiB, 20 % reserved, more promised than the limit."""
    large = Pool(
        name="h@b#large", total=156871.0, free=43693.0, provisioned=144553.0, reserved_percentage=20.0, thick=True
    )
    small = Pool(name="h@b#small", total=500.0, free=500.0, provisioned=0.0, thick=True)
    weights = HeadroomWeigher(conf()).weigh(PoolTable([large, small]), Request("r", 1))
    assert weights.tolist() == [43693.0 - 31374.0, 500.0]


@pytest.mark.parametrize("multiplier", [1.0, -1.0])
@pytest.mark.parametrize(
    "figures", [{"total": math.nan, "free": math.nan}, {"total": math.inf, "free": math.inf}, {"ratio": 0.5}]
)
def test_a_pool_without_limit_or_that_accepts_nothing_comes_last(figures: dict[str, Any], multiplier: float) -> None:
    pools = PoolTable([EMPTY, dataclasses.replace(FULL, **figures)])
    assert math.isnan(HeadroomWeigher(conf()).weigh(pools, Request("r", 1))[1])
    assert first(HeadroomWeigher(conf(multiplier=multiplier)), pools) == "h@b#empty"


def test_a_negative_multiplier_fills_the_fullest_pool() -> None:
    assert first(HeadroomWeigher(conf(multiplier=-1.0)), EXAMPLE) == "h@b#full"


amounts = st.floats(0, 10**6).map(lambda amount: round(amount, 2))


@given(
    total=amounts,
    free=amounts,
    provisioned=amounts,
    claimed=amounts,
    reserved=st.integers(0, 100),
    ratio=st.sampled_from([1.0, 1.5, 2.0, 20.0]),
    thin=st.booleans(),
    calculation=st.sampled_from(list(Calculation)),
)
def test_the_weight_is_the_limit_of_the_capacity_filter(
    total: float,
    free: float,
    provisioned: float,
    claimed: float,
    reserved: int,
    ratio: float,
    thin: bool,
    calculation: Calculation,
) -> None:
    pool = Pool(
        name="h@b#p",
        total=total,
        free=free,
        provisioned=provisioned,
        claimed=claimed,
        claimed_physical=claimed,
        reserved_percentage=float(reserved),
        ratio=ratio,
        thin=thin,
        thick=not thin,
    )
    pools = PoolTable([pool])
    [weight] = HeadroomWeigher(conf(calculation)).weigh(pools, Request("r", 1)).tolist()
    headroom = float(arithmetic.headroom(pools.row(0), thin, calculation))
    assert headroom == 0 or abs(weight - headroom) <= 1.01
    capacity_filter = CapacityFilter(conf(calculation))
    assert headroom == 0 or capacity_filter.accepts(pools, Request("r", int(headroom)))[0]
    assert not capacity_filter.accepts(pools, Request("r", int(headroom) + 1))[0]
