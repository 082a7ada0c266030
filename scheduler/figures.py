# SPDX-License-Identifier: Apache-2.0
"""The figures of a pool: from what a driver reports to what decisions read and what the ledger keeps."""

import math
import operator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tonnage.capacity import arithmetic
from tonnage.capacity import units
from tonnage.capacity.pools import Pool
from tonnage.capacity.ratios import AUTO
from tonnage.capacity.stats import PoolStats
from tonnage.ledger import reports
from tonnage.ledger.counters import Counters
from tonnage.ledger.database import storable_text
from tonnage.scheduler.memory import Backend
from tonnage.scheduler.memory import PoolEntry

#: Fields of a row, and where they are found in what is remembered of a pool and of its backend.
_REPORTED = (
    "total",
    "free",
    "provisioned",
    "storage_free",
    "reserved_percentage",
    "thin",
    "thick",
    "storage_id",
    "capabilities",
)
_COUNTED = {
    "allocated": "allocated",
    "claimed": "in_flight",
    "claimed_physical": "in_flight_physical",
    "shared_allocated": "shared_allocated",
    "shared_in_flight": "shared_in_flight",
    "shared_in_flight_physical": "shared_in_flight_physical",
    "external": "external",
}
_STATE = ("up", "enabled", "availability_zone")
_reported = operator.attrgetter(*(f"stats.{name}" for name in _REPORTED))
_counted = operator.attrgetter(*(f"counters.{name}" for name in _COUNTED.values()))
_state = operator.attrgetter(*_STATE)


def ratio(stats: PoolStats, counters: Counters, default: float | str) -> float:
    """Return the over-subscription ratio that counts: what is reported, else ``default``; ``auto`` is worked out."""
    wanted = default if stats.ratio is None else stats.ratio
    if wanted == AUTO:
        allocated = counters.allocated + counters.shared_allocated + counters.external
        return float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, allocated))
    return float(wanted)


def row(name: str, stats: PoolStats, counters: Counters, ratio: float, backend: Backend) -> Pool:
    """Return a pool as decisions read it."""
    return Pool(
        name=name,
        total=stats.total,
        free=stats.free,
        provisioned=stats.provisioned,
        allocated=counters.allocated,
        claimed=counters.in_flight,
        claimed_physical=counters.in_flight_physical,
        shared_allocated=counters.shared_allocated,
        shared_in_flight=counters.shared_in_flight,
        shared_in_flight_physical=counters.shared_in_flight_physical,
        external=counters.external,
        storage_free=stats.storage_free,
        reserved_percentage=stats.reserved_percentage,
        ratio=ratio,
        thin=stats.thin,
        thick=stats.thick,
        up=backend.up,
        enabled=backend.enabled,
        storage_id=stats.storage_id,
        availability_zone=backend.availability_zone,
        capabilities=stats.capabilities,
    )


def columns(entries: Sequence[PoolEntry], backends: Sequence[Backend]) -> dict[str, Sequence[Any]]:
    """Return the same for many pools, as columns of the pool table; there is at least one."""
    stats = dict(zip(_REPORTED, zip(*map(_reported, entries), strict=True), strict=True))
    counters = dict(zip(_COUNTED, zip(*map(_counted, entries), strict=True), strict=True))
    state = dict(zip(_STATE, zip(*map(_state, backends), strict=True), strict=True))
    return {**stats, **counters, **state, "ratio": [entry.ratio for entry in entries]}


def for_ledger(
    pool: Pool,
    stats: PoolStats,
    raw: Mapping[str, Any],
    known: PoolEntry | None,
    calculation: arithmetic.Calculation,
) -> reports.PoolFigures:
    """Return what the ledger keeps of a pool that was reported as ``raw``; ``known`` is what is remembered of it."""
    physical = pool.free - float(arithmetic.reserve(pool))
    return reports.PoolFigures(
        id=None if known is None else known.id,
        name=pool.name,
        total_gb=_finite(stats.total),
        free_gb=_finite(stats.free),
        provisioned_gb=_finite(stats.provisioned),
        ratio=pool.ratio,
        thin_limit_gb=_finite(float(arithmetic.provisioning_limit(pool, calculation))),
        physical_limit_gb=_finite(physical),
        storage_id=stats.storage_id,
        storage_free_gb=_finite(stats.storage_free),
        changes_decisions=known is None or _kind(known.stats) != _kind(stats),
        stats=_storable(raw),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _storable(value: Any) -> Any:
    """Return a reported value as every database takes it in JSON: no nan, no infinity, no broken text."""
    if isinstance(value, float):
        return units.to_wire(value)
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, Mapping):
        return {_storable(str(key)): _storable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(each) for each in value]
    return value


def _kind(stats: PoolStats) -> tuple[object, ...]:
    """Return what of a pool's stats decisions depend on beside the limits that its row has."""
    return (
        stats.thin,
        stats.thick,
        stats.storage_id,
        math.isfinite(stats.storage_free),
        stats.capabilities,
        # Whether thin volumes are taken at all, and whether the figures permit a decision; see arithmetic.sound().
        stats.ratio,
        stats.reserved_percentage,
        math.isfinite(stats.total),
        stats.total > 0,
    )
