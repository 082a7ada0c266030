# SPDX-License-Identifier: Apache-2.0
"""What plugins return and raise that they should not."""

import asyncio
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

#: Does what a plugin's method does: returns something, or raises.
Answer = Callable[[], Any]


class Speechless(Exception):
    """Fails to say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Hostile:
    """Fails at whatever is tried with it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError("do not touch")

    __array__ = __bool__ = __eq__ = __float__ = __hash__ = __iter__ = __len__ = __repr__ = __str__ = _refuse


class Odd(np.ndarray[Any, Any]):
    """An array whose own methods fail."""

    def any(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("any")

    def min(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("min")

    def tolist(self) -> Any:
        raise RuntimeError("tolist")


def unique_name() -> str:
    """Return a name for a plugin: what fails is logged once by name and message."""
    return f"Faulty{uuid.uuid4().hex}"


def _raises(error: BaseException) -> Answer:
    def fail() -> Any:
        raise error

    return fail


def _returns(value: Any) -> Answer:
    return lambda: value


#: Errors of every kind, with messages of every kind.
raising = st.one_of(
    st.builds(
        lambda kind, text: _raises(kind(text)),
        st.sampled_from(
            [
                ValueError,
                KeyError,
                OSError,
                StopIteration,
                RecursionError,
                MemoryError,
                SystemExit,
                GeneratorExit,
                asyncio.CancelledError,
            ]
        ),
        # Tracebacks are captured, and sent between the processes that run the tests.
        st.text(st.characters(codec="utf-8"), max_size=400),
    ),
    st.builds(lambda: _raises(Speechless())),
    st.builds(lambda: _raises(ZeroDivisionError())),
)

#: No array, no number, no truth value.
things = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.one_of(st.booleans(), st.floats()), max_size=5),
    st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
    st.complex_numbers(),
    st.builds(Decimal, st.integers()),
    st.builds(Hostile),
    st.sampled_from([..., NotImplemented, object, Hostile]),
    st.builds(lambda: iter([True, True, True])),
)

#: Numbers and truth values, where an array is expected.
scalars = st.one_of(st.booleans(), st.integers(), st.floats(), st.booleans().map(np.bool_), st.floats().map(np.float64))


def wrong_arrays(rows: int, kinds: str) -> st.SearchStrategy[Any]:
    """Return arrays that are no vector of so many rows of one of these kinds of types (none: all arrays are wrong)."""
    shapes = st.one_of(st.just((rows,)), arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=rows + 1))
    types = st.one_of(
        arrays.boolean_dtypes(), arrays.integer_dtypes(), arrays.floating_dtypes(), arrays.complex_number_dtypes(),
        arrays.unicode_string_dtypes(max_len=2), arrays.datetime64_dtypes(), st.just(np.dtype(object)),
        st.just(np.dtype([("a", "?"), ("b", "f8")])),
    )  # fmt: skip
    plain = (
        st.tuples(types, shapes)
        .filter(lambda made: made[1] != (rows,) or made[0].kind not in kinds)
        .map(lambda made: np.zeros(made[1], dtype=made[0]))
    )
    of_kind = st.sampled_from([np.dtype(kind) for kind in "?if" if np.dtype(kind).kind in (kinds or "bif")])
    own = of_kind.flatmap(
        lambda kind: st.sampled_from(
            [np.ma.masked_array(np.ones(rows, dtype=kind), mask=True), np.ones(rows, dtype=kind).view(Odd)]
        )
    )
    return st.one_of(plain, own)


def answers(*values: st.SearchStrategy[Any]) -> st.SearchStrategy[Answer]:
    """Return methods that raise, or return one of these values."""
    return st.one_of(raising, st.one_of(*values).map(_returns))
