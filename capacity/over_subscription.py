# SPDX-License-Identifier: Apache-2.0
"""Over-subscription ratios: their text in configuration and reports, and the inputs of ``auto`` ratios."""

import math
from dataclasses import dataclass

from tonnage.capacity import arithmetic, units
from tonnage.capacity.pool_stats import PoolStats

#: The value of ``max_over_subscription_ratio`` for a ratio that is computed from the figures.
AUTO = "auto"

#: The largest over-subscription ratio, so that no limit leaves the range of floats.
MAX_RATIO = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRatio:
    """An ``auto`` ratio with its formula and the capacities, in GiB, that it was computed from.

    Either the provisioned or the allocated capacity is set, depending on the formula.
    """

    ratio: float
    formula: str
    total_capacity_gb: float | str
    free_capacity_gb: float | str
    provisioned_capacity_gb: float | None = None
    allocated_capacity_gb: float | None = None


def describe_auto_ratio(stats: PoolStats, ratio: float, default: float | str) -> AutoRatio | None:
    """Return the inputs of a pool's ``auto`` ratio at its last report, None if the ratio is a number.

    ``default`` is the ratio of pools that report none.
    """
    if AUTO not in (stats.ratio, default if stats.ratio is None else None):
        return None
    used = stats.total - stats.free
    missing = math.isnan(stats.provisioned)
    # The allocated capacity may have changed since, so it is computed back from the ratio.
    promised = round((ratio - 1) * (used + 1), 2) if missing else stats.provisioned
    if not math.isfinite(used):
        formula, promised = f"{ratio:g} where total or free is unknown or infinite", math.nan
    elif ratio == arithmetic.DEFAULT_RATIO and (missing or not promised):
        formula, promised = f"{ratio:g} while nothing is provisioned", 0.0
    else:
        formula = f"1 + {promised:.12g} / ({stats.total:.12g} - {stats.free:.12g} + 1)"
    capacity_gb = None if math.isnan(promised) else promised
    return AutoRatio(
        ratio=round(ratio, 4),
        formula=formula,
        total_capacity_gb=units.to_wire(stats.total),
        free_capacity_gb=units.to_wire(stats.free),
        provisioned_capacity_gb=None if missing else capacity_gb,
        allocated_capacity_gb=capacity_gb if missing else None,
    )


def parse_ratio(value: object) -> float | str:
    """Return a configured over-subscription ratio: a number of 1 to a million, or ``auto``; else raise ValueError."""
    text = str(value).strip().lower()
    if text == AUTO:
        return AUTO
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 1 <= ratio <= MAX_RATIO:
        raise ValueError(f"{value!r} is neither a number of at least 1 (and at most {MAX_RATIO:.0f}) nor '{AUTO}'")
    return ratio
