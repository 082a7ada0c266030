# SPDX-License-Identifier: Apache-2.0
"""Pools of Cinder as columns: traits for filters, and functions of figures that are called for changed pools alone."""

from typing import Any

import numpy as np
import pytest

from tests.unit.extensions.cinder.pools.test_known_pools import reported
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.extensions.cinder.pools import look_alikes
from tonnage.extensions.cinder.pools.look_alike_columns import LookAlikeColumns
from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike
from tonnage.filters.base import Filter, Mask
from tonnage.filters.chain import FilterChain
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.ledger.locks.pool_counters import Counters

NAMES = ("h@b#p", "h@b#q", "h@c#r")
REQUEST = Request(request_id="req-1", size_gb=1)


class InNova(Filter):
    """Accepts pools of the zone ``nova``."""

    def __init__(self) -> None:
        super().__init__(None)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return pools.in_zone("nova")


class WithSolidState(Filter):
    """Accepts pools whose medium is ``ssd``."""

    def __init__(self) -> None:
        super().__init__(None)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        codes, values = pools.capability("media")
        return np.array([value == "ssd" for value in values], dtype=np.bool_)[codes]


def pool(name: str, free: Any = 10, **more: Any) -> PoolLookAlike:
    row = PoolRow(
        id=NAMES.index(name),
        backend_id=1,
        name=name,
        generation=1,
        counters=Counters(allocated=0, in_flight=0, in_flight_physical=0),
        ratio=1.0,
        thin_limit_gb=None,
        stats={"free_capacity_gb": free},
        figures_age=None,
    )
    return look_alikes.look_alike(reported(name, **more)[name], row)


@pytest.fixture
def columns() -> LookAlikeColumns:
    return LookAlikeColumns([pool(name, free) for name, free in zip(NAMES, (10, 20, 30), strict=True)])


def test_a_function_of_figures_is_called_for_changed_pools_alone(columns: LookAlikeColumns) -> None:
    calls: list[str] = []

    def free(state: Any) -> float:
        calls.append(state.backend_id)
        return float(state.free_capacity_gb)

    for _ in range(2):
        assert columns.computed(free).tolist() == [10, 20, 30]
    assert calls == [*NAMES]
    columns.show([pool(NAMES[1], 25)])
    assert columns.computed(free).tolist() == [10, 25, 30]
    assert calls == [*NAMES, NAMES[1]]


def test_two_functions_are_kept_apart(columns: LookAlikeColumns) -> None:
    assert columns.computed(lambda state: float(state.free_capacity_gb)).tolist() == [10, 20, 30]
    assert columns.computed(lambda state: -1.0).tolist() == [-1, -1, -1]


def test_figures_may_be_words_that_only_a_function_understands(columns: LookAlikeColumns) -> None:
    columns.show([pool(NAMES[0], "infinite")])
    assert columns.computed(lambda state: float(state.free_capacity_gb == "infinite")).tolist() == [1, 0, 0]


def test_filters_see_the_traits_of_the_last_report(columns: LookAlikeColumns) -> None:
    filters = FilterChain([InNova(), WithSolidState()])
    assert columns.accepted_by(filters, REQUEST).tolist() == [True, True, True]
    columns.show([pool(NAMES[0], service={"availability_zone": "far"}), pool(NAMES[2], capabilities={"media": "hdd"})])
    assert columns.accepted_by(filters, REQUEST).tolist() == [False, True, False]
    columns.show([pool(NAMES[0])])
    assert columns.accepted_by(filters, REQUEST).tolist() == [True, True, False]


def test_a_service_without_a_zone_is_in_none(columns: LookAlikeColumns) -> None:
    columns.show([pool(NAMES[0], service={"availability_zone": None}), pool(NAMES[1], service={})])
    assert columns.accepted_by(FilterChain([InNova()]), REQUEST).tolist() == [False, False, True]
