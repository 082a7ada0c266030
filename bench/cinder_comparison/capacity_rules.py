# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the capacity rules for one pool, with each step as in Tonnage or as in Cinder.

A *departure* is one step that the two compute differently. Without departures the rules are Tonnage's, with all of them
Cinder's. The explanation of a difference is the smallest set of departures that turns one answer into the other.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cinder_comparison.cases import CINDER, STANDARD, Case, PoolCase

FIGURES_ROUNDED = "Figures of two decimals"
FREE_OVER_TOTAL = "More free than total"
FLOOR = "Floor of the reserve"
NEGATIVE_RESERVE = "Negative reserve"
FREE_UNKNOWN = "Free unknown"
TOTAL_UNKNOWN = "Total unknown"
ASKED_THICK = "Thick asked of a thin pool"
SPELLING = "Spelling of thin and thick"
IN_FLIGHT = "In flight thin"
LEFT_ROUNDED = "What is left rounded"
NO_TOLERANCE = "Exactly at the limit"
THICK_RESERVE = "Thick reserve"

_BOTH = (
    *(FIGURES_ROUNDED, FREE_OVER_TOTAL, FLOOR, NEGATIVE_RESERVE, FREE_UNKNOWN, TOTAL_UNKNOWN),
    *(ASKED_THICK, SPELLING, IN_FLIGHT, LEFT_ROUNDED),
)
DEPARTURES = {STANDARD: (*_BOTH, THICK_RESERVE), CINDER: (*_BOTH, NO_TOLERANCE)}

_Departures = frozenset[str]
_TOLERANCE = 1e-6

#: Largest number of departures that explain one difference.
_MOST = 4


@dataclass(frozen=True, slots=True)
class _Figures:
    total: float
    free: float
    provisioned: float
    percentage: float
    ratio: float
    reserve: float
    thin: bool


def explained_by(judge: Callable[[_Departures], float], case: Case, here: float, there: float) -> _Departures:
    """Return the smallest set of departures between the two answers; empty if these rules give other answers.

    An answer is a verdict or a weight, whose last digit may be rounded up or down.
    """
    departures = DEPARTURES[case.calculation]
    if not (_equal(judge(frozenset()), here) and _equal(judge(frozenset(departures)), there)):
        return frozenset()
    if _equal(here, there):
        return frozenset({LEFT_ROUNDED})
    for count in range(1, _MOST + 1):
        for chosen in itertools.combinations(departures, count):
            if _equal(judge(frozenset(chosen)), there):
                return frozenset(chosen)
    return frozenset()


def _equal(one: float, two: float) -> bool:
    return abs(one - two) < 0.0101


def admits(case: Case, pool: PoolCase, departures: _Departures) -> bool:
    """Return whether a pool accepts the volume."""
    figures, size = _read(case, pool, departures), case.request.takes
    if not math.isfinite(figures.free) and FREE_UNKNOWN in departures:
        return True
    if not math.isfinite(figures.total):
        if figures.percentage > 0 or TOTAL_UNKNOWN in departures:
            return figures.percentage == 0
    elif figures.total <= 0:
        return False
    if figures.thin and figures.ratio < 1:
        return False
    return (_standard if case.calculation == STANDARD else _cinder)(figures, size, departures)


def rank(case: Case, pool: PoolCase, departures: _Departures) -> float:
    """Return the capacity weigher's weight of a pool whose figures are known."""
    figures = _read(case, pool, departures)
    if case.calculation == STANDARD:
        free = _left(figures, departures)
    elif figures.thin:
        free = figures.total * figures.ratio - figures.provisioned - figures.reserve
    else:
        free = figures.free - figures.reserve
    exact = case.calculation == CINDER and LEFT_ROUNDED in departures
    return free if exact else round(free, 2)


def _standard(figures: _Figures, size: int, departures: _Departures) -> bool:
    left = _left(figures, departures)
    if LEFT_ROUNDED not in departures or not math.isfinite(left):
        return size <= left + _TOLERANCE
    if figures.thin:
        limit = (figures.total - figures.reserve) * figures.ratio
        return (figures.provisioned + size) / round(limit, 2) <= figures.ratio and round(left, 2) >= size
    return round(left, 2) >= size


def _left(figures: _Figures, departures: _Departures) -> float:
    available = figures.total - figures.reserve
    if figures.thin:
        return available * figures.ratio - figures.provisioned
    if THICK_RESERVE in departures:
        return min(figures.free, available - figures.provisioned)
    return figures.free - figures.reserve


def _cinder(figures: _Figures, size: int, departures: _Departures) -> bool:
    room, tolerance = figures.free - figures.reserve, 0 if NO_TOLERANCE in departures else _TOLERANCE
    if not math.isfinite(figures.free):
        room = math.inf
    if not figures.thin:
        return size <= room + tolerance
    if not math.isfinite(figures.total):
        return size <= room * figures.ratio + tolerance
    if NO_TOLERANCE in departures:
        return (figures.provisioned + size) / figures.total <= figures.ratio and room * figures.ratio >= size
    limit = figures.total * figures.ratio - figures.provisioned
    return size <= min(limit, room * figures.ratio) + tolerance


def _read(case: Case, pool: PoolCase, departures: _Departures) -> _Figures:
    number = functools.partial(_number, pool.report, rounded=FIGURES_ROUNDED not in departures)
    total, free = number("total_capacity_gb"), number("free_capacity_gb")
    if math.isfinite(free) and free > total and FREE_OVER_TOTAL not in departures:
        free = total
    provisioned = number("provisioned_capacity_gb", pool.allocated)
    percentage = float(pool.report.get("reserved_percentage") or 0)
    if NEGATIVE_RESERVE not in departures:
        percentage = max(percentage, 0.0)
    ratio = pool.report.get("max_over_subscription_ratio")
    if ratio is None or ratio == 0:
        ratio = case.ratio
    if ratio == "auto":
        used = total - free + 1
        ratio = 1 + provisioned / used if math.isfinite(used) and used and provisioned > 0 else 20.0
    thin, judged_here = _thin(case, pool, departures), _thin(case, pool, frozenset())
    if IN_FLIGHT in departures or not judged_here:
        free -= sum(pool.placed)
    return _Figures(
        total=total,
        free=free,
        provisioned=provisioned + sum(pool.placed),
        percentage=percentage,
        ratio=float(ratio),
        reserve=_reserve(total, percentage, departures),
        thin=thin,
    )


def _number(report: dict[str, Any], key: str, missing: float = 0, *, rounded: bool) -> float:
    value = report.get(key)
    if value is None:
        return missing
    if isinstance(value, str):
        value = {"unknown": math.nan, "infinite": math.inf}.get(value) or float(value)
    return round(value, 2) if rounded else value


def _reserve(total: float, percentage: float, departures: _Departures) -> float:
    if not math.isfinite(total):
        return 0
    if FLOOR in departures:
        return math.floor(total * (percentage / 100))
    return math.floor(total * percentage / 100 + _TOLERANCE)


def _thin(case: Case, pool: PoolCase, departures: _Departures) -> bool:
    asked = case.request.extra_specs.get("provisioning:type", "")
    if SPELLING not in departures:
        asked = asked.strip().lower()
    thin, thick = (pool.report.get(f"{kind}_provisioning_support") or False for kind in ("thin", "thick"))
    return thin and not (asked == "thick" and (thick or ASKED_THICK in departures))
