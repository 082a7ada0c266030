# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from tonnage.capacity import number_bounds


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**31, math.inf, -math.inf, math.nan, 1e300])
def test_a_number_out_of_bounds_is_refused(value: float) -> None:
    with pytest.raises(number_bounds.OutOfBounds, match="it takes a finite number of at most 2147483647"):
        number_bounds.check(value)


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, 1.5, True, "1e999", None, [10**400]])
def test_other_values_pass(value: object) -> None:
    number_bounds.check(value)
