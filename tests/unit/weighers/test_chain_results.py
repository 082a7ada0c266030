# SPDX-License-Identifier: Apache-2.0
"""Weighers with invalid results: they count 0, the others decide, and the explanation has the reason."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import rubbish
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.rpc import serialization
from tonnage.weighers.base import PoolWeigher, Weigher, Weights
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.selection import Ordered, Selection, Stochastic

ROWS = 3
REQUEST = Request("r", 1)

WEIGHTS = rubbish.answers(rubbish.things, rubbish.scalars, rubbish.wrong_arrays(ROWS, "iuf"))
WEIGHT = rubbish.answers(rubbish.things, st.integers(min_value=2**1024), rubbish.wrong_arrays(ROWS, ""))
MULTIPLIER = rubbish.answers(
    rubbish.things,
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e200, np.float64(math.nan), 10**400]),
    rubbish.wrong_arrays(ROWS, ""),
)


class Sizes(Weigher):
    """Ranks pools by their numbers, so that the last is the best."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return np.arange(len(pools), dtype=np.float64)


class Vector(Weigher):
    """Answers for all pools at once."""

    def __init__(self, answer: rubbish.Answer) -> None:
        super().__init__(SimpleNamespace())
        self.name = rubbish.unique_name()
        self._answer = answer

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return self._answer()  # type: ignore[no-any-return]


class Narrowing(Vector):
    """Answers for the candidates."""

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Any) -> Weights:
        return self._answer()  # type: ignore[no-any-return]


class Multiplied(Vector):
    """Would turn the order round, if its multiplier were one."""

    @property
    def multiplier(self) -> float:
        return self._answer()  # type: ignore[no-any-return]

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return -np.arange(len(pools), dtype=np.float64)


class Each(PoolWeigher):
    """Answers for one pool at a time."""

    def __init__(self, answer: rubbish.Answer) -> None:
        super().__init__(SimpleNamespace())
        self.name = rubbish.unique_name()
        self._answer = answer

    def weigh_pool(self, pool: Pool, request: Request) -> float:
        return self._answer()  # type: ignore[no-any-return]


def assert_counts_nothing(plugin: Weigher, selection: Selection) -> None:
    pools = PoolTable(Pool(name=f"h@b#{i}", total=100.0, free=10.0) for i in range(ROWS))
    sizes = Sizes(SimpleNamespace())
    chain, alone = WeigherChain([plugin, sizes], selection), WeigherChain([sizes], selection)
    assert chain.rank(pools, REQUEST, pools.up) == alone.rank(pools, REQUEST, pools.up)
    assert chain.order(pools, REQUEST, pools.up).tolist() == alone.order(pools, REQUEST, pools.up).tolist()
    expected = alone.weights(pools, REQUEST, pools.up)
    for name, ((failed, sound), total) in chain.weights(pools, REQUEST, pools.up).items():
        assert (failed.weigher, failed.raw, failed.scaled, failed.multiplier) == (plugin.name, 0.0, 0.0, 0.0)
        assert failed.failure
        assert failed.failure.isprintable()
        assert ((sound,), total) == expected[name]
        assert sound.failure is None
        assert serialization.pack(failed)["failure"] == failed.failure


@pytest.mark.parametrize("selection", [Ordered(), Stochastic()], ids=["ordered", "stochastic"])
@pytest.mark.parametrize("kind", [Vector, Narrowing])
@settings(max_examples=200, deadline=None)
@given(answer=WEIGHTS)
def test_a_weigher_with_invalid_weights_counts_zero(
    kind: type[Vector], selection: Selection, answer: rubbish.Answer
) -> None:
    assert_counts_nothing(kind(answer), selection)


@settings(max_examples=200, deadline=None)
@given(WEIGHT)
def test_a_pool_weigher_with_an_invalid_weight_counts_zero(answer: rubbish.Answer) -> None:
    assert_counts_nothing(Each(answer), Ordered())


@pytest.mark.parametrize("selection", [Ordered(), Stochastic()], ids=["ordered", "stochastic"])
@settings(max_examples=200, deadline=None)
@given(answer=MULTIPLIER)
def test_a_weigher_with_an_invalid_multiplier_counts_zero(selection: Selection, answer: rubbish.Answer) -> None:
    """One is read for each decision: it was sound when the weigher was loaded, say."""
    assert_counts_nothing(Multiplied(answer), selection)
