# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.extensions.history.forecast import time_to_full
from tonnage.extensions.history.forecast.growth import daily_growth
from tonnage.extensions.history.forecast.time_to_full import BoundForecast, TimeToFull

INF = float("inf")


def text(p10: float, p50: float, p90: float) -> str:
    return BoundForecast(time_to_full.PHYSICAL, 40, TimeToFull(p10, p50, p90, 0.0, 0.0)).text()


def test_a_forecast_is_a_range_in_words() -> None:
    assert text(9.7, 14.0, 20.2) == "full in 9 to 21 days (80 %)"
    assert text(9.0, 9.0, 9.0) == "full in 9 to 10 days (80 %)"
    assert text(40.0, INF, INF) == "full in 40 to more than 90 days (80 %)"
    assert text(0.2, 0.4, 0.9) == "full within a day (80 %)"
    assert text(0.0, 0.0, 0.0) == "full"
    assert text(INF, INF, INF) == "not within 90 days"


def test_a_short_history_is_named_instead_of_a_forecast() -> None:
    found = time_to_full.forecast(time_to_full.PROMISED, np.full(6, 3.0), 100.0)
    assert found.time_to_full is None
    assert found.text() == "no forecast: 6 of 21 days of history"


def test_a_bound_without_an_estimate_is_beyond_the_horizon() -> None:
    assert BoundForecast(time_to_full.PHYSICAL, 30, TimeToFull(3, 14, INF, 0, 0)).days == (3, 14, INF)
    assert BoundForecast(time_to_full.PHYSICAL, 6, None).days == (INF, INF, INF)


@pytest.mark.parametrize("estimate", [None, TimeToFull(5, 5.5, 6, 0, 0), TimeToFull(INF, INF, INF, 0, 0)])
def test_a_bound_without_room_is_full_whatever_the_history_says(estimate: TimeToFull | None) -> None:
    full = BoundForecast(time_to_full.PHYSICAL, 6, estimate, is_full=True)
    assert (full.text(), full.days) == ("full", (0, 0, 0))


def test_no_limit_is_never_reached() -> None:
    found = time_to_full.forecast(time_to_full.PROMISED, np.full(40, 3.0), INF)
    assert found.text() == "not within 90 days"


@pytest.mark.parametrize("factor", [1, 2])
def test_a_doubled_total_is_no_growth(factor: int) -> None:
    """``factor`` 2: another pool was joined, with its volumes. The forecast is that of the pool without the step."""
    use = 500 + np.random.default_rng(4).normal(0, 0.5, 60)
    total = np.where(np.arange(60) < 40, 1000.0, 2000.0)
    stepped = np.where(np.arange(60) < 40, use, factor * use)
    found = time_to_full.forecast(time_to_full.PHYSICAL, daily_growth(stepped, total), 100.0)
    assert found.text() == "not within 90 days"


@settings(max_examples=30, deadline=None)
@given(st.integers(5, 55), st.floats(0.1, 50), st.floats(1, 3000))
def test_the_day_of_a_doubled_total_does_not_change_the_forecast(day: int, rate: float, room: float) -> None:
    use = 1000 + rate * np.arange(60.0)
    total = np.where(np.arange(60) < day, 5000.0, 10_000.0)
    growth, plain = daily_growth(use + np.where(np.arange(60) < day, 0, 800), total), daily_growth(use)
    found, expected = (time_to_full.forecast(time_to_full.PHYSICAL, each, room) for each in (growth, plain))
    assert found.time_to_full is not None
    assert expected.time_to_full is not None
    assert found.time_to_full.p50 == pytest.approx(expected.time_to_full.p50, rel=1e-6)
