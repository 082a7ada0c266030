# SPDX-License-Identifier: Apache-2.0
"""The figures of a pool, converted from a driver's report to the columns of the pool table and of the ledger."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from tonnage.capacity import arithmetic, units
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pool_stats import PoolStats, StatsColumns
from tonnage.capacity.pools.pool_table import Pool
from tonnage.ledger.inventory import reports
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.ledger.models.free_text import storable_text
from tonnage.scheduler.cache.backend_state import BackendEntry, PoolEntry

#: The figures in a row of the pool table that are counters, each with the name of the counter.
COUNTED = {
    "allocated": "allocated",
    "claimed": "in_flight",
    "claimed_physical": "in_flight_physical",
    "shared_allocated": "shared_allocated",
    "shared_in_flight": "shared_in_flight",
    "shared_in_flight_physical": "shared_in_flight_physical",
    "external": "external",
}
#: The fields of a row of the pool table that are attributes of its backend.
_STATE = ("up", "enabled", "responsive", "availability_zone")
#: Returns the counters of a pool, in the order of :data:`COUNTED`.
counted = operator.attrgetter(*COUNTED.values())
_state = operator.attrgetter(*_STATE)


def ratio(stats: PoolStats, counters: Counters, default: float | str) -> float:
    """Return the effective over-subscription ratio: the reported one, else ``default``; ``auto`` is computed."""
    setting = default if stats.ratio is None else stats.ratio
    if setting == AUTO:
        allocated = counters.allocated + counters.shared_allocated + counters.external
        return float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, allocated))
    return float(setting)


def columns(entries: Sequence[PoolEntry], backends: Sequence[BackendEntry]) -> dict[str, Any]:
    """Return pools as columns of the pool table; there is at least one pool."""
    reported = StatsColumns.of([entry.stats for entry in entries]).by_field()
    counters = zip(*(counted(entry.counters) for entry in entries), strict=True)
    state = zip(*map(_state, backends), strict=True)
    return {
        **reported,
        **dict(zip(COUNTED, counters, strict=True)),
        **dict(zip(_STATE, state, strict=True)),
        "ratio": [entry.ratio for entry in entries],
    }


def counters_of(pool: Pool) -> dict[str, float]:
    """Return the counters in a row of the pool table, with tentative placements, by the names of the counters."""
    return {counter: getattr(pool, figure) for figure, counter in COUNTED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Pools of a backend that have changed; a pool has the same index in all of these lists.

    ``raw`` are the reports of the pools and ``stats`` the same reports validated. ``entries`` are the entries in the
    cache, None for a new pool. ``ratios`` are the effective over-subscription ratios.
    """

    names: Sequence[str]
    stats: Sequence[PoolStats]
    raw: Sequence[Mapping[str, Any]]
    entries: Sequence[PoolEntry | None]
    ratios: Sequence[float]


def for_ledger(changes: Changes, calculation: arithmetic.Calculation) -> list[reports.PoolFigures]:
    """Return the columns that the ledger keeps of pools."""
    if not changes.names:
        return []
    columns = StatsColumns.of(changes.stats)
    figures: Any = SimpleNamespace(
        total=columns.total, reserved_percentage=columns.reserved_percentage, ratio=np.array(changes.ratios)
    )
    limits = arithmetic.thin_limit(figures, calculation)
    rows = zip(
        (None if entry is None else entry.id for entry in changes.entries),
        changes.names,
        _finite(columns.total),
        _finite(columns.free),
        _finite(columns.provisioned),
        changes.ratios,
        _finite(limits),
        _finite(columns.free - arithmetic.reserve(figures)),
        columns.storage_id,
        _finite(columns.storage_free),
        (
            entry is None or _differ(entry.stats, stats)
            for entry, stats in zip(changes.entries, changes.stats, strict=True)
        ),
        map(_storable, changes.raw),
        strict=True,
    )
    return list(map(reports.PoolFigures._make, rows))


def _finite(column: Any) -> list[float | None]:
    values: list[float | None] = column.tolist()
    if not np.isfinite(column).all():
        return [value if value is not None and math.isfinite(value) else None for value in values]
    return values


def _storable(raw: Mapping[str, Any]) -> Any:
    """Return a report as JSON that every database accepts: without nan, infinity and broken text."""
    try:
        encoded = msgspec.json.encode(raw)
        if b"null" in encoded:  # a field that is null is a field that is missing
            encoded = msgspec.json.encode({key: value for key, value in raw.items() if value is not None})
    except (OverflowError, TypeError, ValueError):  # large numbers, or text that UTF-8 cannot express
        return mended(raw)
    # A value that JSON cannot express has become null.
    return mended(raw) if b"null" in encoded or b"\\u0000" in encoded else msgspec.Raw(encoded)


def mended(value: Any) -> Any:
    """Return a report without values that JSON cannot express: nan, infinity, broken text, NUL."""
    if isinstance(value, float):
        return units.to_wire(value)
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, Mapping):
        return {mended(str(key)): mended(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [mended(element) for element in value]
    return value


def _differ(cached_stats: PoolStats, stats: PoolStats) -> bool:
    """Return whether figures that decisions depend on differ, apart from those that the limits in the row express."""
    return (
        cached_stats.thin != stats.thin
        or cached_stats.thick != stats.thick
        or cached_stats.storage_id != stats.storage_id
        or math.isfinite(cached_stats.storage_free) != math.isfinite(stats.storage_free)
        or cached_stats.capabilities != stats.capabilities
        # They tell whether the pool takes thin volumes, and whether its figures permit a decision: arithmetic.sound().
        or cached_stats.ratio != stats.ratio
        or cached_stats.reserved_percentage != stats.reserved_percentage
        or math.isfinite(cached_stats.total) != math.isfinite(stats.total)
        or math.isfinite(cached_stats.free) != math.isfinite(stats.free)
        or (cached_stats.total > 0) != (stats.total > 0)
    )
