# SPDX-License-Identifier: Apache-2.0
"""Tests of filters with invalid results: each refuses under its own name, and the next decision is not affected."""

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import rubbish
from tonnage.capacity import type_conversion
from tonnage.capacity.decision import Refusal, Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask, PoolFilter
from tonnage.filters.chain import FilterChain

ROWS = 3
REQUEST = Request("r", 1)

MASKS = rubbish.answers(rubbish.things, rubbish.scalars, rubbish.wrong_arrays(ROWS, "b"))
VERDICTS = rubbish.answers(rubbish.things, st.integers(), st.floats(), rubbish.wrong_arrays(ROWS, ""))

NUMBERS = st.one_of(
    rubbish.things.filter(lambda value: not isinstance(value, (dict, type(None)))),
    rubbish.scalars,
    st.dictionaries(
        st.one_of(st.text(max_size=3), st.integers()),
        st.one_of(rubbish.things, rubbish.scalars, st.integers(min_value=2**64), rubbish.wrong_arrays(ROWS, "")),
        max_size=3,
    ),
)
WORDS = st.one_of(st.text(st.characters(), max_size=2000), rubbish.things)
REASONS = st.one_of(
    rubbish.answers(rubbish.things, rubbish.scalars),
    st.builds(lambda *parts: lambda: Rejection(*parts), WORDS, WORDS, NUMBERS),
)


class Vector(Filter):
    """A filter that evaluates all pools at once."""

    def __init__(self, answer: rubbish.Answer) -> None:
        super().__init__(SimpleNamespace())
        self.name = rubbish.unique_name()
        self._answer = answer

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return self._answer()  # type: ignore[no-any-return]


class CachedVector(Vector):
    """A filter with cached verdicts."""

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        return ()


class NarrowVector(Vector):
    """A filter that evaluates the remaining pools."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return np.ones(len(pools), dtype=np.bool_)

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        return self._answer()  # type: ignore[no-any-return]


class SinglePool(PoolFilter):
    """A filter that evaluates one pool at a time."""

    def __init__(self, answer: rubbish.Answer) -> None:
        super().__init__(SimpleNamespace())
        self.name = rubbish.unique_name()
        self._answer = answer

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        return self._answer()  # type: ignore[no-any-return]


class BrokenReason(Filter):
    """A filter that refuses every pool and returns the given reason."""

    def __init__(self, answer: rubbish.Answer) -> None:
        super().__init__(SimpleNamespace())
        self.name = rubbish.unique_name()
        self._answer = answer

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return np.zeros(len(pools), dtype=np.bool_)

    def reason(self, pool: Pool, request: Request) -> Rejection:
        return self._answer()  # type: ignore[no-any-return]


def table() -> PoolTable:
    return PoolTable(Pool(name=f"h@b#{i}", total=100.0, free=10.0) for i in range(ROWS))


def assert_refused_by(plugin: Filter) -> Refusal:
    """Assert that the filter refuses every pool with a message that can be sent and stored; return the refusal."""
    chain, pools = FilterChain([plugin]), table()
    assert not chain.candidates(pools, REQUEST).any()
    result = chain.run(pools, REQUEST)
    assert not result.remaining.any()
    refusal = chain.refusal(pools, REQUEST, result)
    assert refusal.message.startswith(f"No pool for 1 GiB: 3 pools; {plugin.name} refused 3, nearest h@b#")
    assert refusal.message.isprintable()
    assert len(refusal.message) < 2500
    assert type_conversion.convert(msgspec.to_builtins(refusal), Refusal).message == refusal.message
    assert msgspec.json.encode(refusal)
    verdicts = chain.explain(pools, REQUEST, result)
    assert [verdict.filter for verdict in verdicts] == [plugin.name] * ROWS
    assert msgspec.json.encode(msgspec.to_builtins(verdicts))
    return refusal


@pytest.mark.parametrize("kind", [Vector, CachedVector, NarrowVector])
@settings(max_examples=300, deadline=None)
@given(answer=MASKS)
def test_verdicts_of_all_pools(kind: type[Vector], answer: rubbish.Answer) -> None:
    plugin = kind(answer)
    refusal = assert_refused_by(plugin)
    assert f"could not be judged, {plugin.name} failed (" in refusal.message
    assert refusal.nearest is not None
    assert refusal.nearest.rejection.code == "filter_failed"


@settings(max_examples=300, deadline=None)
@given(VERDICTS)
def test_verdicts_of_one_pool(answer: rubbish.Answer) -> None:
    plugin = SinglePool(answer)
    assert f"could not be judged, {plugin.name} failed (" in assert_refused_by(plugin).message


@settings(max_examples=300, deadline=None)
@given(REASONS)
def test_reasons(answer: rubbish.Answer) -> None:
    assert_refused_by(BrokenReason(answer))


@settings(max_examples=100, deadline=None)
@given(rubbish.answers(rubbish.things, rubbish.scalars))
def test_an_invalid_cache_key_does_not_refuse_pools(answer: rubbish.Answer) -> None:
    """The verdicts are valid even if they cannot be cached."""

    class Sound(Vector):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return np.array([True, False, True])

        def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
            return self._answer()  # type: ignore[no-any-return]

    chain = FilterChain([Sound(answer)])
    for _ in range(2):
        assert chain.candidates(table(), REQUEST).tolist() == [True, False, True]


def test_numpy_values_in_a_rejection_are_converted() -> None:
    """The values in a table row are numpy numbers, which messages cannot contain."""
    numbers: dict[str, Any] = {"free": np.float64(1.5), "count": np.int64(2), "thin": np.True_, "name": np.str_("x")}
    numbers |= {"none": None, "yes": True, "size": 3}
    refusal = assert_refused_by(BrokenReason(lambda: Rejection("few", "has 1.5 GiB", numbers)))
    assert refusal.nearest is not None
    rejection = refusal.nearest.rejection
    assert (rejection.code, rejection.message) == ("few", "has 1.5 GiB")
    assert rejection.numbers == {
        "free": 1.5,
        "count": 2,
        "thin": "True",
        "name": "x",
        "none": None,
        "yes": "True",
        "size": 3,
    }
    assert {type(value) for value in rejection.numbers.values()} == {float, int, str, type(None)}


def test_a_filter_recovers_after_an_error() -> None:
    """A cached error does not persist."""

    def answer() -> Any:
        if len(asked := [*asked_for, None]) <= 2:
            asked_for[:] = asked
            raise OSError("not yet")
        return np.ones(ROWS, dtype=np.bool_)

    asked_for: list[None] = []
    chain, pools = FilterChain([CachedVector(answer)]), table()
    assert not chain.candidates(pools, REQUEST).any()
    assert chain.candidates(pools, REQUEST).all()
