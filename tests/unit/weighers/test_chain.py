# SPDX-License-Identifier: Apache-2.0
"""The weigher chain: scaling, sums, ties, pools that cannot be ranked, and plugins that fail."""

import logging
import math
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.capacity.explanation import Weight
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Mask, Weigher, Weights
from tonnage.weighers.chain import WeigherChain

NAN, INF = math.nan, math.inf
REQUEST = Request("request-1", 1)


def table(count: int) -> PoolTable:
    return PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(count))


def everything(pools: PoolTable) -> Mask:
    return np.ones(len(pools), dtype=np.bool_)


class Gives(Weigher):
    """Gives the pools the listed weights, in order of their numbers."""

    def __init__(self, weights: Sequence[float], multiplier: float = 1.0, name: str = "Gives") -> None:
        super().__init__(SimpleNamespace(multiplier=multiplier))
        self.name = name
        self._weights = weights

    @property
    def multiplier(self) -> float:
        return float(self.conf.multiplier)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return np.array([self._weights[int(name.rpartition("#")[2])] for name in pools.names], dtype=np.float64)


class Faulty(Weigher):
    """Does what it is told, whatever that is. Each has a name of its own, as a failure is logged once."""

    def __init__(self, answer: Callable[[PoolTable], Any]) -> None:
        super().__init__(SimpleNamespace())
        self.name = f"Faulty{uuid.uuid4().hex}"
        self._answer = answer

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return self._answer(pools)  # type: ignore[no-any-return]


def order(chain: WeigherChain, pools: PoolTable, candidates: Mask | None = None) -> list[int]:
    """Return the order, having checked that the best is its first."""
    mask = everything(pools) if candidates is None else candidates
    rows = chain.order(pools, REQUEST, mask).tolist()
    assert chain.rank(pools, REQUEST, mask) == (rows[0] if rows else None)
    return rows  # type: ignore[no-any-return]


def test_more_is_better() -> None:
    assert order(WeigherChain([Gives([5, 7, 6])]), table(3)) == [1, 2, 0]


def test_a_negative_multiplier_reverses_the_order() -> None:
    assert order(WeigherChain([Gives([5, 7, 6], -1.0)]), table(3)) == [0, 2, 1]


def test_only_candidates_are_ranked_and_scaled() -> None:
    chain = WeigherChain([Gives([1000, 1, 3, 2])])
    candidates = np.array([False, True, True, True])
    assert order(chain, table(4), candidates) == [2, 3, 1]
    weights = chain.weights(table(4), REQUEST, candidates)
    assert {name: total for name, (_, total) in weights.items()} == {"h@b#1": 0.0, "h@b#2": 1.0, "h@b#3": 0.5}


def test_weighers_are_scaled_before_they_are_summed() -> None:
    # Without scaling the first would outweigh the second whatever it said.
    chain = WeigherChain([Gives([0, 1000, 500], 1.0, "large"), Gives([1.0, 0.0, 0.5], 3.0, "small")])
    assert order(chain, table(3)) == [0, 2, 1]
    assert chain.weights(table(3), REQUEST, everything(table(3)))["h@b#2"] == (
        (Weight("large", 500.0, 0.5, 1.0), Weight("small", 0.5, 0.5, 3.0)),
        2.0,
    )


@pytest.mark.parametrize("multiplier", [1.0, -1.0])
@pytest.mark.parametrize("unranked", [NAN, INF, -INF])
def test_pools_that_cannot_be_ranked_come_after_all_others(unranked: float, multiplier: float) -> None:
    chain = WeigherChain([Gives([unranked, 2, unranked, 1], multiplier), Gives([10, 0, 5, 0], 100.0, "other")])
    # Among themselves the others that can rank them decide.
    assert order(chain, table(4)) == ([1, 3, 0, 2] if multiplier > 0 else [3, 1, 0, 2])


def test_all_candidates_are_ordered_if_none_can_be_ranked() -> None:
    assert sorted(order(WeigherChain([Gives([NAN, INF, NAN])]), table(3))) == [0, 1, 2]


def test_without_candidates_there_is_no_best_row() -> None:
    chain = WeigherChain([Gives([1, 2])])
    assert order(chain, table(2), np.zeros(2, dtype=np.bool_)) == []
    assert chain.weights(table(2), REQUEST, np.zeros(2, dtype=np.bool_)) == {}
    assert order(chain, PoolTable()) == []


def test_extreme_weights_keep_their_order() -> None:
    assert order(WeigherChain([Gives([-1e308, 1e308, 0.0, INF])]), table(4)) == [1, 2, 0, 3]
    assert order(WeigherChain([Gives([5e-324, 0.0])]), table(2)) == [0, 1]


def test_ties_are_broken_the_same_way_for_any_order_of_the_rows() -> None:
    forward = [Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(20)]
    chain = WeigherChain([])
    orders = []
    for pools in (PoolTable(forward), PoolTable(reversed(forward))):
        orders.append([pools.names[row] for row in order(chain, pools)])
    assert orders[0] == orders[1]
    assert orders[0] != sorted(orders[0])


def test_ties_are_shuffled_evenly_for_each_request() -> None:
    pools = table(8)
    chain = WeigherChain([Gives([1] * 8)])
    wins = Counter(chain.rank(pools, Request(f"request-{i}", 1), everything(pools)) for i in range(4000))
    # 500 each are expected; a fair draw strays by more than 100 less than once in a hundred thousand times.
    assert len(wins) == 8
    assert all(400 <= count <= 600 for count in wins.values())


def test_a_tie_among_the_best_excludes_the_others() -> None:
    ranks = {
        WeigherChain([Gives([1, 9, 9, 0])]).rank(table(4), Request(f"r{i}", 1), everything(table(4))) for i in range(50)
    }
    assert ranks == {1, 2}


def explode(pools: PoolTable) -> Any:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (explode, "ValueError: boom"),
        (lambda pools: None, "TypeError: returned a NoneType, expected an array of 3 floats"),
        (lambda pools: [1.0] * 3, "TypeError: returned a list, expected an array of 3 floats"),
        (lambda pools: np.ones(2), "returned an array of float64 of shape (2,)"),
        (lambda pools: np.array(["a", "b", "c"]), "returned an array of <U1 of shape (3,)"),
        (lambda pools: np.ones(3, dtype=bool), "returned an array of bool of shape (3,)"),
    ],
)
def test_a_failed_weigher_counts_zero(
    answer: Callable[[PoolTable], Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = Faulty(answer)
    chain = WeigherChain([faulty, Gives([1, 3, 2])])
    for _ in range(3):
        assert order(chain, table(3)) == [1, 2, 0]
    weights, total = chain.weights(table(3), REQUEST, everything(table(3)))["h@b#1"]
    assert (weights[0].weigher, weights[0].raw, weights[0].scaled, weights[0].multiplier) == (faulty.name, 0, 0, 0)
    assert problem in (weights[0].failure or "")
    assert total == 1.0
    (record,) = (record for record in caplog.records if faulty.name in record.getMessage())
    assert record.levelno == logging.ERROR
    assert problem in record.getMessage()


def test_integer_weights_are_accepted() -> None:
    assert order(WeigherChain([Faulty(lambda pools: np.array([1, 3, 2]))]), table(3)) == [1, 2, 0]


def test_a_weigher_cannot_change_the_candidates() -> None:
    class Meddling(Faulty):
        def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
            candidates[:] = True
            return np.ones(len(pools))

    candidates = np.array([True, False])
    assert order(WeigherChain([Meddling(explode)]), table(2), candidates) == [0]
    assert candidates.tolist() == [True, False]
    candidates[0] = False  # still writable for its owner


WEIGHTS = st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats()), min_size=6, max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(WEIGHTS, st.sampled_from([-2.0, 0.0, 1.0, 1e6])), max_size=3),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.text(max_size=5),
)
def test_any_weights_give_one_order_of_all_candidates(
    given_weights: list[tuple[list[float], float]], candidates: list[bool], request_id: str
) -> None:
    pools, mask, request = table(6), np.array(candidates), Request(request_id, 1)
    chain = WeigherChain([Gives(weights, multiplier) for weights, multiplier in given_weights])
    rows = chain.order(pools, request, mask).tolist()
    assert sorted(rows) == np.flatnonzero(mask).tolist()
    assert chain.rank(pools, request, mask) == (rows[0] if rows else None)
    explained = chain.weights(pools, request, mask)
    keys = []
    for row in rows:
        weights, total = explained[pools.names[row]]
        assert all(0 <= weight.scaled <= 1 for weight in weights)
        assert total == pytest.approx(sum(weight.scaled * weight.multiplier for weight in weights))
        keys.append((not all(math.isfinite(weight.raw) for weight in weights), -total))
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("responsive", "ranks", "weights", "order"),
    [
        ([False, True], None, [9.0, 1.0], [1, 0]),
        ([False, True], [0, 7], [9.0, 1.0], [1, 0]),
        ([False, True], [1, 1], [9.0, NAN], [1, 0]),
        ([False, False], [1, 0], [9.0, 1.0], [1, 0]),
        ([False, False, True], [2, 1, 3], [9.0, 1.0, NAN], [2, 1, 0]),
        ([False, False], None, [NAN, 1.0], [1, 0]),
        ([True, True], None, [9.0, 1.0], [0, 1]),
    ],
)
def test_pools_of_backends_that_are_not_responsive_are_the_last(
    responsive: list[bool], ranks: list[int] | None, weights: list[float], order: list[int]
) -> None:
    pools = PoolTable(
        Pool(name=f"h{number}@b#{number}", total=1.0, free=1.0, responsive=value)
        for number, value in enumerate(responsive)
    )
    chain = WeigherChain([Gives(weights)])
    numbers = None if ranks is None else np.array(ranks, dtype=np.int_)
    assert chain.order(pools, REQUEST, everything(pools), numbers).tolist() == order
    assert chain.rank(pools, REQUEST, everything(pools), numbers) == order[0]
