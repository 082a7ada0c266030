# SPDX-License-Identifier: Apache-2.0
"""The severity of the fullness of bounds and pools."""

import numpy as np
import pytest

from tonnage.extensions.page import severity
from tonnage.extensions.page.severity import Severity


@pytest.mark.parametrize(
    ("percent", "excess_gb", "room_gb", "expected"),
    [
        (400.0, 108.0, 0.0, Severity.OVER),
        (100.0001, 0.01, 0.0, Severity.OVER),
        # Binary fractions of a pool that is exactly full.
        (100.0, 1e-9, 0.0, Severity.FULL),
        (99.6, 0.0, 0.4, Severity.FULL),
        (99.6, 0.0, 1.0, Severity.NEAR),
        (90.1, 0.0, 10.0, Severity.NEAR),
        (90.0, 0.0, 10.0, Severity.REST),
        (0.0, 0.0, 10.0, Severity.REST),
        # The storage that other pools share has no room.
        (10.0, 0.0, 0.0, Severity.FULL),
        (np.nan, np.nan, np.nan, None),
    ],
)
def test_a_bound_has_the_worst_severity_that_holds(
    percent: float, excess_gb: float, room_gb: float, expected: Severity | None
) -> None:
    columns = (np.array([value]) for value in (percent, excess_gb, room_gb))
    assert severity.of_bound(*columns, severity.NEAR_PROMISED) == [expected]


def test_the_worst_severity_is_that_of_the_pool() -> None:
    assert severity.worst([Severity.REST, None, Severity.OVER, Severity.FULL]) == Severity.OVER
    assert severity.worst([Severity.REST, Severity.NEAR]) == Severity.NEAR
    assert severity.worst([None, None]) is None
