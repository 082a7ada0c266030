# SPDX-License-Identifier: Apache-2.0
"""The figures of a report as Cinder's scheduler understands it, for the ledger, with limits of Cinder's arithmetic."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.ledger.inventory.reports import PoolFigures
from tonnage.scheduler.cache import pool_figures

#: Capacities without a number: Cinder compares the words, and its CapacityFilter refuses a pool without any figure.
_WITHOUT_NUMBER = ("infinite", "unknown", None)

#: The figures that tell whether two reports differ.
FIGURES = (
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "reserved_percentage",
    "max_over_subscription_ratio",
    "thin_provisioning_support",
    "thick_provisioning_support",
)


def of_states(states: Mapping[str, Any], *, bounded: bool) -> tuple[Sequence[PoolFigures], Sequence[str]]:
    """Return the figures of pools, and the names of the pools with unusable figures.

    Without ``bounded`` there are no limits: no filter of the configuration compares capacities. Figures are unusable
    if Cinder's arithmetic fails for them, or if they are no finite numbers.
    """
    usable, unusable = [], []
    for name, state in states.items():
        try:
            usable.append(_figures(name, state, bounded))
        except (ArithmeticError, TypeError, ValueError):
            unusable.append(name)
    return usable, unusable


def differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two reports of a backend have other pools or other figures."""
    return bool(_compared(first) != _compared(second))


def thin_limit(state: Any) -> float:
    """Return the largest provisioned capacity of a pool in GiB, as Cinder's CapacityFilter computes it."""
    total = float(state.total_capacity_gb)
    reserve = math.floor(total * float(state.reserved_percentage) / 100)
    ratio = float(state.max_over_subscription_ratio) if state.thin_provisioning_support else 1.0
    return (total - reserve) * ratio


def has_numbers(state: Any) -> bool:
    """Return whether the capacities of a pool are numbers, so that they limit it.

    If not, the ledger has no limit: Cinder's CapacityFilter judges such a pool by its words, whatever is in flight.
    """
    return state.total_capacity_gb not in _WITHOUT_NUMBER and state.free_capacity_gb not in _WITHOUT_NUMBER


def _figures(name: str, state: Any, bounded: bool) -> PoolFigures:
    limited = bounded and has_numbers(state)
    return PoolFigures(
        id=None,
        name=name,
        total_gb=_number(state.total_capacity_gb),
        free_gb=_number(state.free_capacity_gb),
        provisioned_gb=_number(state.capabilities.get("provisioned_capacity_gb")),
        ratio=_finite(state.max_over_subscription_ratio),
        thin_limit_gb=_finite(thin_limit(state)) if limited else None,
        physical_limit_gb=_finite(state.free_capacity_gb) if limited else None,
        storage_id=None,
        storage_free_gb=None,
        changes_decisions=False,
        stats=pool_figures.mended({key: value for key, value in state.capabilities.items() if key != "timestamp"}),
    )


def _number(value: Any) -> float | None:
    return None if value in _WITHOUT_NUMBER else _finite(value)


def _finite(value: Any) -> float:
    """Return a figure as a number. A limit that is no finite number would be none in a database."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _compared(capabilities: Mapping[str, Any]) -> Any:
    pools = capabilities.get("pools")
    if not isinstance(pools, list):
        return [capabilities.get(key) for key in FIGURES]
    return sorted((str(pool.get("pool_name")), [str(pool.get(key)) for key in FIGURES]) for pool in pools)
