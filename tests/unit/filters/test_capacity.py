# SPDX-License-Identifier: Apache-2.0
"""Tests of CapacityFilter."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.capacity import strategies
from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.filters.capacity import CapacityFilter

THIN, THICK = Provisioning.THIN, Provisioning.THICK
STANDARD, CINDER = Calculation.STANDARD, Calculation.CINDER
GOLD = Pool(
    name="ssd1@lvm#gold",
    total=1000.0,
    free=300.0,
    provisioned=1400.0,
    in_flight=20.0,
    in_flight_physical=5.0,
    reserved_percentage=10.0,
    ratio=2.0,
    thin=True,
    thick=True,
)


def changed(**figures: Any) -> Pool:
    return dataclasses.replace(GOLD, **figures)


def filter_by(calculation: Calculation | str) -> CapacityFilter:
    return CapacityFilter(SimpleNamespace(over_provisioning_calculation=calculation))


@pytest.mark.parametrize(
    ("pool", "calculation", "asked", "message"),
    [
        (
            GOLD,
            STANDARD,
            THIN,
            "has headroom 380.00 GiB (total 1000, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0, standard)",
        ),
        (
            GOLD,
            CINDER,
            THIN,
            "has headroom 390.00 GiB "
            "(total 1000, free 300, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0, cinder)",
        ),
        (
            GOLD,
            CINDER,
            THICK,
            "has headroom 195.00 GiB (total 1000, free 300, in flight 5, reserved 10 %, thick)",
        ),
        (
            changed(total=1000.5, free=math.nan, provisioned=math.nan, allocated=1900.25, ratio=1.25),
            CINDER,
            THIN,
            "has headroom 0.00 GiB (total 1000.5, free unknown, allocated 1900.25, in flight 20, reserved 10 %, "
            "ratio 1.25, cinder)",
        ),
        (
            changed(storage_room=12.5),
            STANDARD,
            THICK,
            "has headroom 12.00 GiB (total 1000, free 300, in flight 5, shared room 12.5, reserved 10 %, thick)",
        ),
        (changed(ratio=0.5), CINDER, THIN, "has an over-subscription ratio of 0.5, and below 1 takes no thin volume"),
        (changed(total=0.0, free=0.0), CINDER, THIN, "has a total capacity of 0 GiB"),
        (changed(total=0.0, free=0.0), CINDER, THICK, "has a total capacity of 0 GiB"),
        (
            changed(total=math.inf),
            CINDER,
            THIN,
            "has a total capacity that is infinite, so its reserve of 10 % cannot be kept",
        ),
        (
            changed(total=math.nan, reserved_percentage=2.5),
            CINDER,
            THICK,
            "has a total capacity that is unknown, so its reserve of 2.5 % cannot be kept",
        ),
    ],
)
def test_reason(pool: Pool, calculation: Calculation, asked: Provisioning, message: str) -> None:
    plugin, request = filter_by(calculation), Request("r", 500, provisioning=asked)
    assert plugin.accepts(PoolTable([pool]), request).tolist() == [False]
    assert plugin.reason(pool, request).message == message


def test_the_code_and_the_numbers_of_a_reason() -> None:
    rejection = filter_by("standard").reason(GOLD, Request("r", 500))
    assert rejection.code == "no_capacity"
    assert rejection.numbers == {
        "headroom": 380.0,
        "size": 500.0,
        "total": 1000.0,
        "provisioned": 1400.0,
        "in_flight": 20.0,
        "reserved_percentage": 10.0,
        "ratio": 2.0,
        "rule": "standard",
    }


def test_the_rule_depends_on_the_volumes_that_the_pool_supports() -> None:
    # There is no free space: only thin volumes fit, by the calculation that ignores the free capacity.
    full: dict[str, Any] = {"total": 100.0, "free": 0.0, "provisioned": 100.0, "ratio": 20.0}
    pools = PoolTable(
        Pool(name=f"h@b#{thin}{thick}", thin=thin, thick=thick, **full)
        for thin, thick in ((True, True), (True, False), (False, True), (False, False))
    )
    plugin = filter_by(STANDARD)
    assert plugin.accepts(pools, Request("r", 1)).tolist() == [True, True, False, False]
    assert plugin.accepts(pools, Request("r", 1, provisioning=THIN)).tolist() == [True, True, False, False]
    assert plugin.accepts(pools, Request("r", 1, provisioning=THICK)).tolist() == [False, True, False, False]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(strategies.pools(), max_size=5),
    strategies.SIZES,
    st.sampled_from(Calculation),
    st.sampled_from([None, THIN, THICK]),
)
def test_the_headroom_in_every_rejection_is_too_small(
    pools: list[Pool], size: int, calculation: Calculation, asked: Provisioning | None
) -> None:
    plugin, request = filter_by(calculation), Request("r", size, provisioning=asked)
    table = PoolTable(dataclasses.replace(pool, name=f"h@b#{i}") for i, pool in enumerate(pools))
    mask = plugin.accepts(table, request)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(pools),)
    for pool, accepted in zip(table, mask.tolist(), strict=True):
        headroom = plugin.reason(pool, request).numbers["headroom"]
        assert isinstance(headroom, float)
        assert accepted == (size <= headroom)


def test_the_filter_agrees_with_the_shared_function() -> None:
    assert bool(arithmetic.admits(GOLD, 380, True, STANDARD))
    assert filter_by(STANDARD).accepts(PoolTable([changed(claimed=20.0)]), Request("r", 380)).tolist() == [True]
    assert filter_by(STANDARD).accepts(PoolTable([changed(claimed=20.0)]), Request("r", 381)).tolist() == [False]
