# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions: columns have the same results as Python floats."""

import math
from typing import Any

import numpy as np
import pytest
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


@pytest.mark.parametrize("values", [(1e308, 10.0), (1.0, 5e-324), (1.0, 0.0), (math.inf, math.inf), (math.nan, 1.0)])
def test_results_that_are_not_finite_cause_no_warnings(values: tuple[float, float]) -> None:
    @elementwise.quiet
    def combined(first: Any, second: Any) -> Any:
        return first * second, first / second, first - second

    product, quotient, difference = combined(*(np.array([value]) for value in values))
    assert not all(np.isfinite([product[0], quotient[0], difference[0]]))
