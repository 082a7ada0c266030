# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.capacity.units import MAX_CAPACITY_GB
from tonnage.extensions.history.forecast import growth_paths

SHARES = (0.1, 0.5, 0.9)

#: Daily growth: any figures that reports can contain, with holes.
growths = st.lists(
    st.none() | st.integers(-1000, 1000) | st.floats(-MAX_CAPACITY_GB, MAX_CAPACITY_GB), min_size=21, max_size=140
).map(lambda days: np.array([np.nan if day is None else day for day in days], dtype=np.float64))
rooms = st.floats(-MAX_CAPACITY_GB, MAX_CAPACITY_GB) | st.just(float("inf"))


@settings(max_examples=60, deadline=None)
@given(growths, rooms, rooms)
def test_days_are_ordered_never_nan_and_monotone_in_the_room(growth: np.ndarray, one: float, other: float) -> None:
    paths = growth_paths.extrapolate(growth)
    if growth_paths.known_days(growth) < growth_paths.LEAST_HISTORY:
        assert paths is None
        return
    assert paths is not None
    assert np.isfinite(paths.growth).all()
    assert (paths.growth[:, 0] == 0).all()
    less, more = (paths.days_to_full(room, SHARES) for room in sorted((one, other)))
    assert less == sorted(less)
    assert all(0 <= first <= second for first, second in zip(less, more, strict=True))
    assert all(day <= growth_paths.HORIZON or day == float("inf") for day in more)


def test_a_constant_growth_has_an_exact_end() -> None:
    paths = growth_paths.extrapolate(np.full(40, 10.0))
    assert paths is not None
    assert paths.days_to_full(125.0, SHARES) == pytest.approx([12.5] * 3)
    assert paths.quantiles(14, SHARES) == pytest.approx([140.0] * 3)


def test_no_growth_never_fills_the_pool_and_no_room_is_full_now() -> None:
    paths = growth_paths.extrapolate(np.zeros(40))
    assert paths is not None
    assert paths.days_to_full(0.01, SHARES) == [float("inf")] * 3
    assert paths.days_to_full(0.0, SHARES) == paths.days_to_full(-5.0, SHARES) == [0, 0, 0]
    assert paths.probability(0.01, 90) == 0


@pytest.mark.parametrize("known", [0, 1, 20])
def test_too_short_a_history_has_no_paths(known: int) -> None:
    growth = np.concatenate((np.full(known, 5.0), np.full(50, np.nan)))
    assert growth_paths.extrapolate(growth) is None
    assert growth_paths.known_days(growth) == known


def test_21_days_with_holes_among_them_are_enough() -> None:
    growth = np.full(42, np.nan)
    growth[::2] = 5.0
    assert growth_paths.extrapolate(growth) is not None


def test_recent_weeks_count_more() -> None:
    paths = growth_paths.extrapolate(np.concatenate((np.full(60, 1.0), np.full(30, 20.0))))
    assert paths is not None
    assert paths.quantiles(30, (0.5,))[0] > 15 * 30


def test_repeated_days_are_weeks_of_the_history() -> None:
    days = growth_paths.repeated_days(21, 20, 14)
    assert days.shape == (20, 14)
    assert days.min() >= 0
    assert days.max() <= 20
    assert (np.diff(days[:, :7], axis=1) == 1).all()


def test_the_same_history_has_the_same_forecast_in_any_unit() -> None:
    growth = np.random.default_rng(7).normal(5, 20, 60)
    paths, scaled = growth_paths.extrapolate(growth), growth_paths.extrapolate(1024 * growth)
    assert paths is not None
    assert scaled is not None
    assert np.allclose(1024 * paths.growth, scaled.growth)


def test_the_interval_is_wider_after_wrong_forecasts_of_the_past() -> None:
    """The growth of each week is the same, but it changes after ten weeks: earlier forecasts were wrong."""
    week = np.array([0.0, 8.0, 10.0, 12.0, 10.0, 10.0, 1.0])
    calm, changed = np.tile(week, 13), np.concatenate((np.tile(week, 10), np.tile(4 * week, 3)))
    widths = []
    for growth in (calm, changed):
        paths = growth_paths.extrapolate(growth)
        assert paths is not None
        low, high = paths.quantiles(14, (0.1, 0.9))
        widths.append((high - low) / growth[-7:].sum())
    assert widths[1] > 2 * widths[0]
