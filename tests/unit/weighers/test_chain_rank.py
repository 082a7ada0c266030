# SPDX-License-Identifier: Apache-2.0
"""The best candidate is the first of the order."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Weigher, Weights
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.selection import Selection, named


class Given(Weigher):
    """Returns the given weights."""

    def __init__(self, weights: list[float], multiplier: float) -> None:
        self._weights, self._multiplier = weights, multiplier

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return np.array(self._weights)


@st.composite
def close(draw: st.DrawFn) -> list[float]:
    """Return weights of which many are nearly equal."""
    base = draw(st.floats(-1e12, 1e12))
    steps = st.integers(-3, 3).map(lambda step: _moved(base, step))
    weights = draw(st.lists(steps | st.floats() | st.integers(0, 3).map(float), min_size=1, max_size=8))
    return weights + draw(st.lists(st.floats(-1e3, 1e3), max_size=2))


def _moved(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    return value


MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.0, 3.0, 0.1, -1e-3, 1e100, -1e-320, 5e-324, 1e-100, math.nan])


@settings(max_examples=300, deadline=None)
@given(close(), MULTIPLIERS, st.data(), st.sampled_from(["OrderedHostWeightHandler", "StochasticHostWeightHandler"]))
def test_the_best_candidate_is_the_first_of_the_order(
    weights: list[float], multiplier: float, data: st.DataObject, handler: str
) -> None:
    pools = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(len(weights)))
    selection: Selection = named(handler)
    chain = WeigherChain([Given(weights, multiplier)], selection)
    wanted: Any = data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights)))
    candidates = np.array(wanted, dtype=np.bool_)
    request = Request(data.draw(st.uuids().map(str)), 1)
    order = chain.order(pools, request, candidates).tolist()
    assert chain.rank(pools, request, candidates) == (order[0] if order else None)
    assert chain.rank(pools, request, candidates) == chain.rank(pools, request, candidates)
    drawn: Any = data.draw(st.lists(st.integers(0, 2), min_size=len(weights), max_size=len(weights)))
    ranks = np.array(drawn, dtype=np.int16)
    ranked = chain.order(pools, request, candidates, ranks).tolist()
    assert chain.rank(pools, request, candidates, ranks) == (ranked[0] if ranked else None)
    assert [ranks[row] for row in ranked] == sorted(ranks[candidates]), "better ranks come first"
    for rank in range(3):
        of_rank = [row for row in ranked if ranks[row] == rank]
        assert of_rank == [row for row in order if ranks[row] == rank], "the weights decide within a rank"
