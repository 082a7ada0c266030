# SPDX-License-Identifier: Apache-2.0
"""The best pool is the same whether it is looked up in what is kept or found by asking all plugins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.weighers.test_rank import MULTIPLIERS, close
from tonnage.capacity.pools.candidate_index import Formula
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.decisions import ranking
from tonnage.weighers.base import Weigher, Weights
from tonnage.weighers.chain import WeigherChain


class Total(Filter):
    """Accepts what is no larger than the total capacity; notes how many pools its formula is worked out for."""

    def __init__(self) -> None:
        self.worked_out: list[int] = []
        self.formula: Callable[[Any], Any] = self._formula

    def _formula(self, pools: Any) -> Any:
        self.worked_out.append(np.size(pools.total))
        return pools.total

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return pools.total >= request.size_gb

    def room(self, request: Request) -> Formula | None:
        return self.formula


class Free(Weigher):
    """Ranks by what is reported as free."""

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return pools.free.copy()

    def formula(self, request: Request) -> Formula | None:
        return _free


def _free(pools: Any) -> Any:
    return pools.free


def pool(number: int, free: float, total: float = 100.0) -> Pool:
    return Pool(name=f"h@b#{number}", total=total, free=free)


@settings(max_examples=200, deadline=None)
@given(close(), MULTIPLIERS, st.data())
def test_what_is_kept_gives_the_first_of_the_order_after_any_change(
    weights: list[float], multiplier: float, data: st.DataObject
) -> None:
    pools = PoolTable(pool(number, free) for number, free in enumerate(weights))
    filters, weighers = FilterChain([Total()]), WeigherChain([Free(multiplier)])
    for size in data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6)):
        request = Request(data.draw(st.uuids().map(str)), size)
        order = weighers.order(pools, request, filters.candidates(pools, request))
        assert ranking.best(pools, request, filters, weighers) == (order[0] if len(order) else None)
        total = st.sampled_from([0.0, 1.0, 2.0, np.nan])
        pools.put(pool(data.draw(st.integers(0, len(weights))), data.draw(st.sampled_from(weights)), data.draw(total)))


def test_a_claim_costs_the_work_for_its_pool() -> None:
    pools = PoolTable(pool(number, 100.0 - number) for number in range(100))
    total = Total()
    filters, weighers = FilterChain([total]), WeigherChain([Free()])
    for number in range(3):
        row = ranking.best(pools, Request(f"r{number}", 1), filters, weighers)
        assert row == 0
        pools.claim(row, 1, 1)
    assert total.worked_out == [100, 1, 1]
    pools.put(pool(7, 500.0))
    assert ranking.best(pools, Request("r", 1), filters, weighers) == 7
    assert ranking.best(pools, Request("r", 101), filters, weighers) is None
    pools.remove("h@b#7")
    assert ranking.best(pools, Request("r", 1), filters, weighers) == 0


@pytest.mark.parametrize("rubbish", [lambda pools: 1 / 0, lambda pools: "much", lambda pools: np.zeros(3)])
def test_a_formula_that_fails_leaves_it_to_the_plugins(rubbish: Callable[[Any], Any]) -> None:
    pools = PoolTable(pool(number, float(number)) for number in range(20))
    total = Total()
    filters, weighers = FilterChain([total]), WeigherChain([Free()])
    assert ranking.best(pools, Request("r", 1), filters, weighers) == 19
    pools.claim(19, 1, 1)
    total.formula = rubbish
    assert ranking.best(pools, Request("r", 1), filters, weighers) == 19
    pools.put(pool(19, 0.0))
    assert ranking.best(pools, Request("r", 1), filters, weighers) == 18


def test_one_plugin_that_keeps_nothing_is_asked_for_every_decision() -> None:
    class Even(Filter):
        asked = 0

        def __init__(self) -> None:
            pass

        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            self.asked += 1
            return pools.free % 2 == 0

    even = Even()
    pools = PoolTable(pool(number, float(number)) for number in range(20))
    for _ in range(2):
        assert ranking.best(pools, Request("r", 1), FilterChain([Total(), even]), WeigherChain([Free()])) == 18
    assert even.asked == 2


def test_a_plugin_that_extends_another_and_judges_otherwise_is_asked() -> None:
    class Even(Total):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return super().accepts(pools, request) & (pools.free % 2 == 0)

    class Least(Free):
        def weigh(self, pools: PoolTable, request: Request) -> Weights:
            return -super().weigh(pools, request)

    class AsBefore(Even):
        """Overrides none of it."""

    class Kept(Total):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return super().accepts(pools, request)

        def room(self, request: Request) -> Formula | None:
            return super().room(request)

    pools = PoolTable(pool(number, float(number)) for number in range(1, 20))
    request = Request("r", 1)

    def best(plugin: Filter, weigher: Weigher) -> str:
        row = ranking.best(pools, request, FilterChain([plugin]), WeigherChain([weigher]))
        assert row is not None
        return pools.names[row]

    assert best(Even(), Free()) == best(AsBefore(), Free()) == "h@b#18"
    assert best(Total(), Least()) == "h@b#1"
    assert best(Even(), Least()) == "h@b#2"
    assert Kept().room(request) is not None
