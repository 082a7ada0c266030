# SPDX-License-Identifier: Apache-2.0
"""Cinder's arithmetic of capacity for one pool, by Cinder's own functions: the largest volume, and the weight."""

import math
from typing import Any

from tonnage.extensions.cinder import releases

_ARITHMETIC = releases.import_arithmetic()

#: Capacities that are words: Cinder has no number for them.
_WORDS = _ARITHMETIC.INFINITE_UNKNOWN_VALUES


def largest_thin(state: Any) -> float:
    """Return the largest size in GiB that Cinder's CapacityFilter accepts, unless thick is asked for.

    Infinite if it accepts all, and negative if it accepts none or fails for these figures.
    """
    return _largest(state, thin=True)


def largest_thick(state: Any) -> float:
    """Return the same where the volume type asks for thick."""
    return _largest(state, thin=False)


def virtual_free_thin(state: Any) -> float:
    """Return the weight in GiB by Cinder's CapacityWeigher, unless thick is asked for; nan without numbers."""
    return _virtual_free(state, thin=True)


def virtual_free_thick(state: Any) -> float:
    """Return the same where the volume type asks for thick."""
    return _virtual_free(state, thin=False)


def _largest(state: Any, *, thin: bool) -> float:
    if state.free_capacity_gb is None:
        return -1.0  # Cinder refuses such a pool, even where its arithmetic does not use the figure
    try:
        return _of_numbers(state, thin) if _has_bound(state) else math.inf
    except (ArithmeticError, TypeError, ValueError):
        return -1.0


def _has_bound(state: Any) -> bool:
    is_whole = float(state.reserved_percentage) == 0
    return not (state.free_capacity_gb in _WORDS or (state.total_capacity_gb in _WORDS and is_whole))


def _of_numbers(state: Any, thin: bool) -> float:
    if float(state.total_capacity_gb) <= 0:
        return -1.0
    factors = _factors(state, thin)
    largest = math.floor(factors["virtual_free_capacity"])
    if not (thin and state.thin_provisioning_support):
        return float(largest)
    if state.max_over_subscription_ratio < 1:
        return -1.0
    available = factors["total_available_capacity"]
    # Its figures are rounded, so that the last GiB may be one too many.
    over = (state.provisioned_capacity_gb + largest) / available > state.max_over_subscription_ratio
    return float(largest - over)


def _virtual_free(state: Any, *, thin: bool) -> float:
    if state.free_capacity_gb in _WORDS or state.total_capacity_gb in _WORDS:
        return math.nan
    try:
        return float(_factors(state, thin)["virtual_free_capacity"])
    except (ArithmeticError, TypeError, ValueError):
        return math.nan


def _factors(state: Any, thin: bool) -> dict[str, Any]:
    factors: dict[str, Any] = _ARITHMETIC.calculate_capacity_factors(
        state.total_capacity_gb,
        state.free_capacity_gb,
        state.provisioned_capacity_gb,
        state.thin_provisioning_support,
        state.max_over_subscription_ratio if state.thin_provisioning_support else 1,
        state.reserved_percentage,
        thin,
    )
    return factors
