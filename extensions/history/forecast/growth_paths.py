# SPDX-License-Identifier: Apache-2.0
"""Possible growth of the next days: weeks of the past in random order, recent ones more often.

The spread of the paths is widened so far that the 80 % interval would have contained the past outcomes.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

#: Days of a forecast.
HORIZON = 90

#: Fewest days of known growth for a forecast.
LEAST_HISTORY = 21

#: Most days of history that count.
LONGEST_HISTORY = 120

#: Share of the outcomes that the interval between the quantiles 0.1 and 0.9 shall contain.
COVERAGE = 0.8

_BLOCK = 7
_HALF_LIFE = 14.0
_PATHS = 500

# A trial forecasts a part of the known history from the days before it.
_TRIAL_STEP = 2
_TRIAL_HISTORY = 14
_TRIAL_DAYS = (7, 14, 30)
_TRIAL_PATHS = 100
_TRIAL_RANKS = [_TRIAL_PATHS // 10, _TRIAL_PATHS // 2, -_TRIAL_PATHS // 10]
_MOST_TRIALS = 24

# The factor that is assumed without trials, and the number of trials that this counts as.
_USUAL_WIDENING = 2.0
_USUAL_WEIGHT = 4
_MOST_WIDENING = 6.0


@dataclass(frozen=True, slots=True)
class GrowthPaths:
    """Equally probable growth from now on: ``growth[path, day]`` in GiB. Day 0 is now; its growth is 0."""

    growth: Floats

    def quantiles(self, day: int, shares: tuple[float, ...]) -> list[float]:
        """Return for each share the growth until a day, in GiB, that this share of the paths does not exceed."""
        growth_by_share: list[float] = np.quantile(self.growth[:, day], shares, method="inverted_cdf").tolist()
        return growth_by_share

    def days_to_full(self, room_gb: float, shares: tuple[float, ...]) -> list[float]:
        """Return for each share the days until this share of the paths has used up the room.

        They are ``inf`` if that takes longer than :data:`HORIZON`, and 0 if there is no room.
        """
        days_by_share: list[float] = np.quantile(self._days(room_gb), shares, method="inverted_cdf").tolist()
        return days_by_share

    def probability(self, room_gb: float, days: float) -> float:
        """Return the share of the paths that use up the room within some days."""
        return float((self._days(room_gb) <= days).mean())

    def _days(self, room_gb: float) -> Floats:
        """Return the days until each path has used up the room."""
        if room_gb <= 0:
            return np.zeros(len(self.growth))
        full = self.growth >= room_gb
        paths = np.flatnonzero(full.any(axis=1))
        days = full[paths].argmax(axis=1)
        before, after = self.growth[paths, days - 1], self.growth[paths, days]
        path_days = np.full(len(self.growth), np.inf)
        path_days[paths] = days - 1 + (room_gb - before) / (after - before)
        return path_days


def known_days(growth: Floats) -> int:
    """Return the number of days of known growth that count."""
    return int(np.isfinite(growth[-LONGEST_HISTORY:]).sum())


def extrapolate(growth: Floats) -> GrowthPaths | None:
    """Return possible growth of the next :data:`HORIZON` days; None after too short a history.

    ``growth`` is that of each past day in GiB, as :func:`~tonnage.extensions.history.forecast.growth.daily_growth`
    returns it. The same history always has the same paths.
    """
    # Days of unknown growth are left out.
    history = growth[-LONGEST_HISTORY:]
    history = history[np.isfinite(history)]
    if history.size < LEAST_HISTORY:
        return None
    sums = np.concatenate(([0.0], np.cumsum(history)))
    starts = history.size - _ages(history.size)[:, :, None]
    blocks = sums[starts + np.arange(1, _BLOCK + 1)] - sums[starts]
    before = np.cumsum(blocks[:, :, -1], axis=1) - blocks[:, :, -1]
    paths = np.zeros((_PATHS, HORIZON + 1))
    paths[:, 1:] = (before[:, :, None] + blocks).reshape(_PATHS, -1)[:, :HORIZON]
    middle = np.median(paths, axis=0)
    return GrowthPaths(middle + (paths - middle) * _widening(sums))


def repeated_days(history: int, runs: int, length: int) -> Integers:
    """Return for some runs which days of a history they repeat: numbers from 0, the oldest, by run and day.

    They are whole weeks in random order, recent ones more often. The same arguments have the same result.
    """
    starts = history - _ages(history)[:runs, : -(-length // _BLOCK), None]
    days: Integers = (starts + np.arange(_BLOCK)).reshape(runs, -1)[:, :length]
    return days


def _widening(sums: Floats) -> Floats:
    """Return for each day the factor by which the spread has to grow for the interval to contain the past outcomes.

    ``sums`` has the growth from the first known day to the end of each day.
    """
    origins, starts = _trials(sums.size - 1)
    weeks = np.cumsum(sums[starts + _BLOCK] - sums[starts], axis=2)
    factors = []
    for day in _TRIAL_DAYS:
        tried = origins + day < sums.size
        if not tried.any():
            factors.append(_USUAL_WIDENING)
            continue
        full, extra_days = divmod(day, _BLOCK)
        last = starts[tried, :, full]
        grown = weeks[tried, :, full - 1] + sums[last + extra_days] - sums[last]
        low, middle, high = np.sort(grown, axis=1)[:, _TRIAL_RANKS].T
        error = sums[origins[tried] + day] - sums[origins[tried]] - middle
        spread = np.where(error > 0, high - middle, middle - low)
        most = np.quantile(np.abs(error) / np.maximum(spread, np.abs(error) / _MOST_WIDENING + 1e-9), COVERAGE)
        weight = error.size / (error.size + _USUAL_WEIGHT)
        factors.append(max(1.0, weight * float(most) + (1 - weight) * _USUAL_WIDENING))
    return np.interp(np.arange(HORIZON + 1), _TRIAL_DAYS, factors)


@functools.lru_cache(maxsize=32)
def _trials(days: int) -> tuple[Integers, Integers]:
    """Return the days of a history at which trials begin, and the starts of the blocks of their paths."""
    origins = np.arange(days - _BLOCK, _TRIAL_HISTORY - 1, -_TRIAL_STEP)[:_MOST_TRIALS]
    blocks = _TRIAL_DAYS[-1] // _BLOCK + 1
    starts = [origin - _ages(int(origin))[:_TRIAL_PATHS, :blocks] for origin in origins]
    return origins, np.array(starts, dtype=np.intp)


@functools.lru_cache(maxsize=LONGEST_HISTORY)
def _ages(days: int) -> Integers:
    """Return the age in days of the start of each block of each path, for a history of some days."""
    draws = np.random.default_rng(1).random((_PATHS, -(-HORIZON // _BLOCK)))
    starts = days - _BLOCK + 1
    decay = 0.5 ** (1 / _HALF_LIFE)
    ages: Integers = np.floor(np.log1p(-draws * (1 - decay**starts)) / np.log(decay)).astype(np.intp)
    return _BLOCK + np.minimum(ages, starts - 1)
