# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from tonnage.extensions.history.forecast.growth import daily_growth

NAN = float("nan")


def test_growth_is_the_difference_of_each_day_to_the_day_before() -> None:
    assert daily_growth([10, 13, 12]).tolist() == [3, -1]


def test_the_growth_over_a_hole_is_shared_out_and_a_long_hole_has_none() -> None:
    assert daily_growth([10, NAN, NAN, 16]).tolist() == [2, 2, 2]
    assert np.isnan(daily_growth([10, *[NAN] * 7, 26])).all()


def test_holes_at_both_ends_have_no_growth() -> None:
    assert daily_growth([NAN, 10, 11, NAN])[1] == 1
    assert np.isnan(daily_growth([NAN, 10, 11, NAN])[[0, 2]]).all()


@pytest.mark.parametrize("used", [[], [5.0], [NAN, NAN], [NAN, 5.0, NAN], [float("inf"), 5.0]])
def test_without_two_days_nothing_is_known(used: list[float]) -> None:
    assert np.isnan(daily_growth(used)).all()


def test_a_step_of_the_total_is_a_break() -> None:
    """A pool that is joined with another brings its volumes: no growth of this day."""
    growth = daily_growth([10, 11, 22, 23], [100, 100, 200, 200])
    assert growth[[0, 2]].tolist() == [1, 1]
    assert np.isnan(growth[1])


def test_a_total_that_creeps_or_is_unknown_is_no_break() -> None:
    assert daily_growth([10, 11, 12], [100, 100.5, NAN]).tolist() == [1, 1]


def test_moved_volumes_are_no_growth() -> None:
    assert daily_growth([10, 31, 12], moved=[0, 20, -20]).tolist() == [1, 1]
