#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Back-test of the forecast on synthetic pools, beside least squares as Ceph, Harvest and kubernetes-mixin use it.

No packaged public series of the growth of pools is known, so a generator makes pools of seven shapes. Each method sees
the first days of a pool and forecasts the capacity in use on later days. Run it with the Python that Tonnage is
installed in::

    python bench/forecast.py
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from tonnage.extensions.history.forecast import growth, growth_paths

Floats = npt.NDArray[np.float64]

#: Size of a synthetic pool in GiB.
TOTAL = 10_000.0
KNOWN, AHEAD = 90, 30
HORIZONS = (7, 14, 30)
_HOURS = 24
#: Standard normal deviate of 90 %.
_NORMAL_90 = 1.2816


# --- The generator: hourly capacity in use, in GiB ---


def _noise(random: np.random.Generator, days: int, size: float) -> Floats:
    """Return temporary use of each hour: snapshots, caches, files that are soon deleted; a day has a rhythm."""
    hours = np.arange(days * _HOURS)
    rhythm = np.sin(2 * np.pi * (hours / _HOURS + random.random()))
    return size * (rhythm + random.standard_normal(hours.size))


def _per_hour(daily: Floats, random: np.random.Generator) -> Floats:
    """Spread the growth of each day over its hours at random."""
    return (random.dirichlet(np.full(_HOURS, 0.5), daily.size) * daily[:, None]).ravel()


def _steady(random: np.random.Generator, days: int) -> Floats:
    return random.normal(random.uniform(10, 40), random.uniform(3, 15), days)


def _weekly(random: np.random.Generator, days: int) -> Floats:
    weekday = (np.arange(days) + random.integers(7)) % 7 < 5
    return _steady(random, days) * np.where(weekday, 1.4, 0.05)


def _bursts(random: np.random.Generator, days: int) -> Floats:
    return random.normal(2, 2, days) + random.poisson(0.2, days) * random.exponential(random.uniform(50, 200), days)


def _purges(random: np.random.Generator, days: int) -> Floats:
    daily = _steady(random, days)
    period = random.integers(5, 15)
    ends = np.arange(random.integers(period), days, period)
    daily[ends] -= random.uniform(0.4, 0.9) * period * daily.mean()
    return daily


def _flat(random: np.random.Generator, days: int) -> Floats:
    level = np.zeros(days + 1)
    pull, step = random.uniform(0.05, 0.3), random.uniform(5, 30)
    for day in range(days):
        level[day + 1] = level[day] * (1 - pull) + random.normal(0, step)
    return np.diff(level)


def _regime(random: np.random.Generator, days: int) -> Floats:
    change = random.integers(KNOWN // 3, days)
    daily = _steady(random, days)
    daily[change:] = random.normal(random.uniform(0, 60), 8, days - change)
    return daily


def _exponential(random: np.random.Generator, days: int) -> Floats:
    rate = random.uniform(0.005, 0.015)
    return random.uniform(5, 15) * np.exp(rate * np.arange(days)) * random.normal(1, 0.3, days)


SHAPES: Mapping[str, Callable[[np.random.Generator, int], Floats]] = {
    "steady": _steady,
    "weekly": _weekly,
    "bursts": _bursts,
    "purges": _purges,
    "flat": _flat,
    "regime change": _regime,
    "exponential": _exponential,
}


def hourly_use(shape: str, random: np.random.Generator, days: int = KNOWN + AHEAD) -> Floats:
    """Return the capacity in use of a pool of a shape at the end of each hour, in GiB."""
    daily = SHAPES[shape](random, days)
    used = random.uniform(2000, 5000) + np.cumsum(_per_hour(daily, random))
    return used + _noise(random, days, random.uniform(1, 15))


# --- The methods ---


@dataclass(frozen=True, slots=True)
class Forecast:
    """The use on later days: ``low``, ``middle`` and ``high`` of the 80 % interval, by the day, in GiB."""

    low: Floats
    middle: Floats
    high: Floats


def least_squares(hours: int) -> Callable[[Floats], Forecast]:
    """Return the method that extends a straight line through the last hours, as ``predict_linear`` does."""

    def method(known: Floats) -> Forecast:
        values = known[-hours:]
        x = np.arange(1 - values.size, 1) / _HOURS
        middle_x = x.mean()
        spread_x = ((x - middle_x) ** 2).sum()
        slope = ((x - middle_x) * (values - values.mean())).sum() / spread_x
        rest = values - values.mean() - slope * (x - middle_x)
        days = np.arange(AHEAD + 1)
        line = values.mean() + slope * (days - middle_x)
        error = np.sqrt((rest**2).sum() / max(1, values.size - 2))
        half = _NORMAL_90 * error * np.sqrt(1 + 1 / values.size + (days - middle_x) ** 2 / spread_x)
        return Forecast(line - half, line, line + half)

    return method


def _paths(known: Floats) -> growth_paths.GrowthPaths:
    found = growth_paths.extrapolate(growth.daily_growth(known[_HOURS - 1 :: _HOURS]))
    assert found is not None
    return found


def blocks(known: Floats) -> Forecast:
    """Forecast as Tonnage does."""
    ordered = np.sort(_paths(known).growth[:, : AHEAD + 1], axis=0) + known[-1]
    size = len(ordered)
    return Forecast(ordered[size // 10], ordered[size // 2], ordered[-size // 10])


METHODS: Mapping[str, Callable[[Floats], Forecast]] = {
    "kubernetes-mixin (line, 6 h)": least_squares(6),
    "Ceph (line, 2 days)": least_squares(2 * _HOURS),
    "Harvest (line, 7 days)": least_squares(7 * _HOURS),
    "line, 60 days": least_squares(60 * _HOURS),
    "Tonnage": blocks,
}


# --- The back-test ---


@dataclass(frozen=True, slots=True)
class Score:
    """Figures of a method: errors in percent of the capacity in use, ``inside`` in percent of the outcomes."""

    method: str
    shape: str
    error: float
    pinball: float
    width: float
    inside: Mapping[int, float]
    milliseconds: float


def pinball(actual: float, quantile: float, share: float) -> float:
    """Return the loss of a quantile: its mean is least for the true quantile."""
    return max(share * (actual - quantile), (share - 1) * (actual - quantile))


def back_test(pools: int, seed: int = 1) -> list[Score]:
    """Return the figures of each method, for each shape and for all together; ``pools`` is the number per shape."""
    raw: dict[tuple[str, str], list[tuple[float, float, float, list[bool], float]]] = {}
    for shape in SHAPES:
        random = np.random.default_rng([seed, list(SHAPES).index(shape)])
        for _ in range(pools):
            use = hourly_use(shape, random)
            known = use[: KNOWN * _HOURS]
            later = {day: float(use[(KNOWN + day) * _HOURS - 1]) for day in HORIZONS}
            for name, method in METHODS.items():
                began = time.process_time()
                found = method(known)
                spent = (time.process_time() - began) * 1000
                day, actual = HORIZONS[-1], later[HORIZONS[-1]]
                losses = [
                    pinball(actual, quantile[day], share)
                    for quantile, share in ((found.low, 0.1), (found.middle, 0.5), (found.high, 0.9))
                ]
                row = (
                    100 * abs(found.middle[day] - actual) / actual,
                    100 * sum(losses) / 3 / actual,
                    100 * (found.high[day] - found.low[day]) / actual,
                    [bool(found.low[each] <= value <= found.high[each]) for each, value in later.items()],
                    spent,
                )
                for of in (shape, "all"):
                    raw.setdefault((name, of), []).append(row)
    return [_score(name, shape, rows) for (name, shape), rows in raw.items()]


def _score(method: str, shape: str, rows: Sequence[tuple[float, float, float, list[bool], float]]) -> Score:
    errors, losses, widths, inside, spent = zip(*rows, strict=True)
    shares = 100 * np.array(inside).mean(axis=0)
    return Score(
        method,
        shape,
        float(np.mean(errors)),
        float(np.mean(losses)),
        float(np.mean(widths)),
        dict(zip(HORIZONS, shares.tolist(), strict=True)),
        float(np.mean(spent)),
    )


@dataclass(frozen=True, slots=True)
class Alarms:
    """False alarms for 100 quiet pools, and the share of the pools with an alarm of those that became full."""

    rule: str
    false_alarms: float
    recall: float


_Rule = Callable[[Floats, float], bool]


def _line_reaches(hours: int, days: float, share: float, least_taken: float = 0.0) -> _Rule:
    """Return the rule that a line through the last hours reaches a share of the limit, if enough of it is taken."""
    method = least_squares(hours)

    def rule(known: Floats, limit: float) -> bool:
        line = method(known).middle
        return bool(known[-1] >= least_taken * limit and line[int(days)] >= share * limit)

    return rule


def _probable(share: float) -> _Rule:
    def rule(known: Floats, limit: float) -> bool:
        return _paths(known).probability(limit - float(known[-1]), _SOON) >= share

    return rule


#: Days of the alarm.
_SOON = 5

RULES: Mapping[str, _Rule] = {
    "kubernetes-mixin (6 h, 4 days, < 15 % left)": _line_reaches(6, 4, 1.0, 0.85),
    "Ceph (2 days, 5 days, 95 %)": _line_reaches(2 * _HOURS, _SOON, 0.95),
    "Harvest (7 days)": _line_reaches(7 * _HOURS, _SOON, 1.0),
    "line, 60 days": _line_reaches(60 * _HOURS, _SOON, 1.0),
    "Tonnage, P >= 0.3": _probable(0.3),
    "Tonnage, P >= 0.5": _probable(0.5),
}


def alarms(pools: int, seed: int = 2) -> list[Alarms]:
    """Return the alarms "full in 5 days" of each rule; ``pools`` is the number per shape.

    Each pool gets two limits: one that it does not reach in three times that time, at most 10 % above its use, and one
    that it reaches in the five days, if it grows at all. Both are above its use of the last 14 days.
    """
    raised: dict[str, tuple[list[bool], list[bool]]] = {name: ([], []) for name in RULES}
    for shape in SHAPES:
        random = np.random.default_rng([seed, list(SHAPES).index(shape)])
        for _ in range(pools):
            use = hourly_use(shape, random)
            known, later = use[: KNOWN * _HOURS], use[KNOWN * _HOURS :]
            now = float(known[-1])
            soon = float(later[: _SOON * _HOURS].max())
            late = float(later[: 3 * _SOON * _HOURS].max())
            recent = float(known[-14 * _HOURS :].max())
            quiet = max(late, recent) + random.uniform(0.0, 0.1) * now
            for name, rule in RULES.items():
                raised[name][0].append(rule(known, quiet))
            filling = recent + random.random() * (soon - recent)
            if soon > recent:
                for name, rule in RULES.items():
                    raised[name][1].append(rule(known, filling))
    return [Alarms(name, 100 * float(np.mean(false)), float(np.mean(true))) for name, (false, true) in raised.items()]


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pools", type=int, default=100, help="pools of each shape")
    arguments.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    chosen = arguments.parse_args()
    scores, found = back_test(chosen.pools), alarms(chosen.pools)
    if chosen.json:
        print(json.dumps({"scores": [asdict(one) for one in scores], "alarms": [asdict(one) for one in found]}))
        return 0
    print(f"{len(SHAPES)} shapes x {chosen.pools} pools, {KNOWN} days known; after {AHEAD} days, in % of the use\n")
    print(f"{'method':<32}{'error':>7}{'pinball':>9}{'width':>7}   in the 80 % interval {HORIZONS} d{'ms':>7}")
    for one in scores:
        if one.shape == "all":
            inside = "".join(f"{one.inside[day]:>8.0f} %" for day in HORIZONS)
            print(
                f"{one.method:<32}{one.error:>7.1f}{one.pinball:>9.2f}{one.width:>7.0f}{inside}{one.milliseconds:>11.2f}"
            )
    print("\nTonnage, by shape")
    for one in scores:
        if one.method == "Tonnage" and one.shape != "all":
            inside = "".join(f"{one.inside[day]:>8.0f} %" for day in HORIZONS)
            print(f"{one.shape:<32}{one.error:>7.1f}{one.pinball:>9.2f}{one.width:>7.0f}{inside}")
    print(f"\n{'alarm: full in 5 days':<46}{'false per 100 quiet':>20}{'recall':>9}")
    for each in found:
        print(f"{each.rule:<46}{each.false_alarms:>20.1f}{each.recall:>9.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
