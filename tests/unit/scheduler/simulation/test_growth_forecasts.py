# SPDX-License-Identifier: Apache-2.0
"""The forecasts of several extensions, read as one."""

import pytest

from tonnage.capacity import errors
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecasts, PoolGrowth


def growth(gb: float) -> PoolGrowth:
    return PoolGrowth(physical_gb=gb, promised_gb=None)


def test_without_an_extension_that_makes_forecasts_there_are_none() -> None:
    assert GrowthForecasts().read() is None


def test_the_pools_of_all_extensions_have_their_growth_and_a_later_reading_is_a_new_one() -> None:
    forecasts = GrowthForecasts()
    pools = {"h@a#one": growth(1.5)}
    forecasts.sources += [lambda: pools, lambda: {"h@b#two": growth(2.0)}]
    assert forecasts.read() == {"h@a#one": growth(1.5), "h@b#two": growth(2.0)}
    pools["h@a#three"] = growth(3.0)
    assert forecasts.read() == {"h@a#one": growth(1.5), "h@a#three": growth(3.0), "h@b#two": growth(2.0)}


def test_an_extension_without_pools_makes_forecasts_all_the_same() -> None:
    forecasts = GrowthForecasts()
    forecasts.sources.append(dict)
    assert forecasts.read() == {}


def test_a_ledger_that_is_away_is_no_empty_forecast() -> None:
    forecasts = GrowthForecasts()

    def read() -> dict[str, PoolGrowth]:
        raise errors.Unavailable("the database is away")

    forecasts.sources += [dict, read]
    with pytest.raises(errors.Unavailable, match="the database is away"):
        forecasts.read()
