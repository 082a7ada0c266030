# SPDX-License-Identifier: Apache-2.0
"""The views of pools that administrators see."""

import bisect
import datetime
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from tonnage.capacity import arithmetic, over_subscription, units
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pool_stats import BACKEND_STATE, PoolStats, is_reported_down
from tonnage.capacity.pools.capacity_factors import wire_factors
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import PoolQuery, PoolView
from tonnage.scheduler.cache.backend_state import BackendEntry
from tonnage.scheduler.cache.host_manager import HostManager

#: The values of the spec's capability keys that a driver does not report.
_DEFAULTS: Mapping[str, Any] = {
    "volume_backend_name": None,
    "vendor_name": None,
    "driver_version": None,
    "storage_protocol": None,
    "QoS_support": False,
}

#: Capabilities that Cinder does not have.
_OWN_CAPABILITIES = frozenset(
    {
        "availability_zone",
        "disabled",
        "draining",
        "expired",
        "figures_age_seconds",
        "findings",
        "in_flight_capacity_gb",
        "max_over_subscription_ratio_inputs",
        "max_over_subscription_ratio_source",
        "remarks",
        "state_reason",
        "storage_id",
    }
)

_CAPABLE = FilterChain([AvailabilityZoneFilter(SimpleNamespace()), CapabilitiesFilter(SimpleNamespace())])


@dataclass(frozen=True, slots=True)
class PoolsSnapshot:
    """All pools at one moment.

    ``heard`` maps each backend to the time of its last report and the age of that report in seconds. A pool whose
    figures are from an earlier report has an entry of its own. ``draining`` are the backends that volumes leave,
    ``calculation`` is the active one. ``findings`` maps each pool to the definitions that its reports break, with the
    figures that show it. ``default_ratio`` applies to pools that report no ratio. ``notices`` has the notices of agents
    by backend.
    """

    pools: PoolTable
    calculation: arithmetic.Calculation
    stats: Mapping[str, PoolStats]
    heard: Mapping[str, tuple[datetime.datetime | None, float]]
    draining: Collection[str] = ()
    findings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    default_ratio: float | str = arithmetic.DEFAULT_RATIO
    notices: Mapping[str, str] = field(default_factory=dict)


def take_snapshot(hosts: HostManager, now: float, findings: Mapping[str, Mapping[str, str]]) -> PoolsSnapshot:
    """Return a copy of everything that views show at this moment."""
    return PoolsSnapshot(
        pools=hosts.table.snapshot(),
        calculation=hosts.calculation,
        stats={name: entry.stats for name, entry in hosts.entries.items()},
        heard={name: last_report for backend in hosts.backends() for name, last_report in _heard(backend, now)},
        draining={backend.name for backend in hosts.backends() if backend.draining},
        findings=findings,
        default_ratio=hosts.default_ratio,
        notices={backend.name: backend.notice.sentence for backend in hosts.backends() if backend.notice is not None},
    )


def take_part(
    hosts: HostManager, now: float, findings: Mapping[str, Mapping[str, str]], names: Iterable[str]
) -> PoolsSnapshot:
    """Return a copy of the figures of these pools for views; pools that have gone are left out."""
    kept = [(name, row) for name in names if (row := hosts.table.index(name)) is not None]
    backends = [
        backend for name in dict.fromkeys(backend_of(name) for name, _ in kept) if (backend := hosts.backend(name))
    ]
    return PoolsSnapshot(
        pools=hosts.table.take(np.array([row for _, row in kept], dtype=np.intp)),
        calculation=hosts.calculation,
        stats={name: hosts.entries[name].stats for name, _ in kept},
        heard={name: last_report for backend in backends for name, last_report in _heard(backend, now)},
        draining={backend.name for backend in backends if backend.draining},
        findings=findings,
        default_ratio=hosts.default_ratio,
        notices={backend.name: backend.notice.sentence for backend in backends if backend.notice is not None},
    )


class SortedNames:
    """The names of all pools in their order, kept until pools are added or removed. Thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[Sequence[str], list[str]] = ((), [])

    def after(self, names: Sequence[str], marker: str, limit: int) -> list[str]:
        """Return at most ``limit`` of the names, those after ``marker``.

        ``names`` is the same object as in the call before if these are the same names.
        """
        kept_names, in_order = self._kept
        if kept_names is not names:
            in_order = sorted(names)
            self._kept = (names, in_order)
        first = bisect.bisect_right(in_order, marker)
        return in_order[first : first + limit]


def selected(snapshot: PoolsSnapshot, query: PoolQuery, probe: Request | None) -> list[PoolView]:
    """Return the pools that a query selects, by name, and that meet the requirements of ``probe``, if given."""
    names: Sequence[str] = snapshot.pools.names if query.name is None else [query.name]
    if probe is not None:
        capable = _CAPABLE.run(snapshot.pools, probe).remaining.nonzero()[0].tolist()
        names = sorted({snapshot.pools.names[index] for index in capable}.intersection(names))
    views = shown(snapshot, names)
    for pool in views:
        pool.capabilities.update(last_heard(snapshot, source(snapshot, pool.name)))
    return [pool for pool in views if not query.capabilities or matches(pool, query.capabilities)]


def shown(snapshot: PoolsSnapshot, names: Iterable[str]) -> list[PoolView]:
    """Return the views of these pools, by name, without the times of their reports."""
    indexes = [
        row for name in sorted(names) if name in snapshot.stats and (row := snapshot.pools.index(name)) is not None
    ]
    pools = snapshot.pools.take(np.array(indexes, dtype=np.intp))
    rows = zip(pools.names, _capabilities(pools, snapshot), wire_factors(pools, snapshot.calculation), strict=True)
    return [
        PoolView(name=name, capabilities=capabilities, capacity_factors=factors) for name, capabilities, factors in rows
    ]


def source(snapshot: PoolsSnapshot, pool: str) -> str:
    """Return the name that has the time of a pool's report: its backend's, or its own if it has kept figures."""
    return pool if pool in snapshot.heard else backend_of(pool)


def last_heard(snapshot: PoolsSnapshot, name: str) -> dict[str, Any]:
    """Return the time fields of the pools of one :func:`source`."""
    moment, age = snapshot.heard.get(name, (None, 0.0))
    time = _spelled_time(moment)
    return {"updated": time, "timestamp": time, "figures_age_seconds": round(age, 1)}


def last_heard_as_in_cinder(snapshot: PoolsSnapshot, name: str) -> dict[str, Any]:
    """Return the time fields of the pools of one :func:`source` that Cinder has too."""
    return as_in_cinder(last_heard(snapshot, name))


def as_in_cinder(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return capabilities without those that Tonnage adds to the ones in Cinder."""
    return {key: value for key, value in capabilities.items() if key not in _OWN_CAPABILITIES}


def matches(view: PoolView, capabilities: Mapping[str, str]) -> bool:
    """Return whether a pool has these capabilities."""
    return all(
        key in view.capabilities and str(view.capabilities[key]).lower() == value.lower()
        for key, value in capabilities.items()
    )


def _capabilities(pools: PoolTable, snapshot: PoolsSnapshot) -> list[dict[str, Any]]:
    """Return the capabilities and figures of each row, without its capacity factors."""
    stats = [snapshot.stats[name] for name in pools.names]
    backends = list(map(backend_of, pools.names))
    columns: dict[str, Sequence[Any]] = {
        "pool_name": [pool_stats.name for pool_stats in stats],
        "total_capacity_gb": units.column_to_wire(pools.total),
        "free_capacity_gb": units.column_to_wire(pools.free),
        "allocated_capacity_gb": list(map(int, pools.allocated.tolist())),
        "provisioned_capacity_gb": np.where(np.isnan(pools.provisioned), pools.allocated, pools.provisioned).tolist(),
        "in_flight_capacity_gb": pools.in_flight.tolist(),
        # Cinder's clients expect a whole number; the capacity factors have the exact reserve.
        "reserved_percentage": [round(percentage) for percentage in pools.reserved_percentage.tolist()],
        "max_over_subscription_ratio": [round(ratio, 4) for ratio in pools.ratio.tolist()],
        "max_over_subscription_ratio_source": list(map(_ratio_source, stats)),
        "thin_provisioning_support": pools.thin.tolist(),
        "thick_provisioning_support": pools.thick.tolist(),
        "availability_zone": pools.zones,
        BACKEND_STATE: [
            "up" if up and not is_reported_down(pool_stats.capabilities.get(BACKEND_STATE)) else "down"
            for up, pool_stats in zip(pools.up.tolist(), stats, strict=True)
        ],
    }
    rows = zip(*columns.values(), strict=True)
    capabilities = [
        {**_DEFAULTS, **pool_stats.capabilities, **dict(zip(columns, row, strict=True))}
        for pool_stats, row in zip(stats, rows, strict=True)
    ]
    flags = pools.enabled.tolist(), pools.expired.tolist()
    rows = zip(pools.names, capabilities, stats, *flags, pools.ratio.tolist(), backends, strict=True)
    for name, pool_capabilities, pool_stats, enabled, expired, ratio, backend in rows:
        if not enabled:
            pool_capabilities["disabled"] = True
        if expired:
            pool_capabilities["expired"] = True
        if backend in snapshot.draining:
            pool_capabilities["draining"] = True
        if backend in snapshot.notices:
            pool_capabilities["state_reason"] = snapshot.notices[backend]
        if pool_stats.storage_id is not None:
            pool_capabilities["storage_id"] = pool_stats.storage_id
        if pool_stats.remarks:
            pool_capabilities["remarks"] = [remark.text for remark in pool_stats.remarks]
        if (auto_ratio := over_subscription.describe_auto_ratio(pool_stats, ratio, snapshot.default_ratio)) is not None:
            pool_capabilities["max_over_subscription_ratio_inputs"] = _plain(auto_ratio)
        if broken := snapshot.findings.get(name):
            pool_capabilities["findings"] = [{"breach": breach, "text": text} for breach, text in broken.items()]
    return capabilities


def _heard(backend: BackendEntry, now: float) -> Iterator[tuple[str, tuple[datetime.datetime | None, float]]]:
    """Yield the time of a backend's report, and of earlier reports for pools with older figures, by name."""
    at = backend.reported_at
    yield backend.name, (at, now - backend.last_seen)
    for pool, collected in backend.stale_since.items():
        earlier = datetime.timedelta(seconds=backend.last_collected - collected)
        yield pool, (None if at is None else at - earlier, now - collected)


def _plain(auto_ratio: over_subscription.AutoRatio) -> dict[str, Any]:
    """Return the inputs of an ``auto`` ratio as they are shown; the ratio itself is another field."""
    return {key: value for key, value in asdict(auto_ratio).items() if key != "ratio" and value is not None}


@functools.lru_cache(maxsize=1000)
def _spelled_time(time: datetime.datetime | None) -> str | None:
    """Return a time as it is shown."""
    return None if time is None else time.replace(tzinfo=None).isoformat(timespec="seconds")


def _ratio_source(stats: PoolStats) -> str:
    """Return the source of the ratio: the driver's report, the scheduler's option, or ``auto``."""
    if stats.ratio is None:
        return "default"
    return AUTO if stats.ratio == AUTO else "reported"
