# SPDX-License-Identifier: Apache-2.0
"""Units and wire forms."""

import math

import pytest

from tonnage.capacity import units


@pytest.mark.parametrize(
    ("capacity", "wire"), [(math.nan, "unknown"), (math.inf, "infinite"), (0.0, 0.0), (12.5, 12.5)]
)
def test_wire_form(capacity: float, wire: float | str) -> None:
    assert units.to_wire(capacity) == wire


def test_floats_distinguish_hundredths_up_to_the_largest_capacity() -> None:
    assert units.MAX_CAPACITY_GB - 0.01 != units.MAX_CAPACITY_GB
