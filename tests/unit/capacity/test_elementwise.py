# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions: columns have the same results as Python floats."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity import elementwise

#: Anything, and what lies next to the middle between two hundredths.
NUMBERS = st.floats() | st.builds(
    lambda thousandths, steps: float(thousandths / 1000 + steps * np.spacing(thousandths / 1000)),
    st.integers(-(10**15), 10**15),
    st.integers(-3, 3),
)


@PROPERTY
@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_columns_are_rounded_like_python_floats(numbers: list[float]) -> None:
    expected = [round(number, 2) for number in numbers]
    assert repr(elementwise.two_decimals(np.array(numbers)).tolist()) == repr(expected)


@PROPERTY
@given(st.lists(NUMBERS.filter(lambda number: not abs(number) > 1e300), min_size=1, max_size=50))
def test_a_single_figure_is_rounded_like_a_column(numbers: list[float]) -> None:
    one_by_one = [elementwise.hundredths(number) for number in numbers]
    np.testing.assert_array_equal(one_by_one, elementwise.hundredths(np.array(numbers)))
    assert elementwise.hundredths(np.inf) == np.inf
