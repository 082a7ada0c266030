# SPDX-License-Identifier: Apache-2.0
"""Pools as get_pools shows them."""

import datetime
import functools
import math
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity import units
from tonnage.capacity.factors import CapacityFactors
from tonnage.capacity.factors import factors_of_all
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.ratios import AUTO
from tonnage.capacity.request import Request
from tonnage.capacity.stats import PoolStats
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import PoolQuery
from tonnage.rpc.messages import PoolView
from tonnage.scheduler.host_manager import HostManager

#: What the spec's capability keys are where a driver reports none.
_DEFAULTS: Mapping[str, Any] = {
    "volume_backend_name": None,
    "vendor_name": None,
    "driver_version": None,
    "storage_protocol": None,
    "QoS_support": False,
}

_CAPABLE = FilterChain([CapabilitiesFilter(SimpleNamespace())])


@dataclass(frozen=True, slots=True)
class Shown:
    """One pool with what get_pools needs to show it. ``age`` is how old its figures are, in seconds."""

    pool: Pool
    stats: PoolStats
    reported_at: datetime.datetime | None
    age: float
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All pools at one moment. ``heard`` has for each backend when it reported and how many seconds ago that was.

    ``draining`` are the backends from which volumes are moved away, ``calculation`` is the active one.
    """

    pools: PoolTable
    calculation: arithmetic.Calculation
    stats: Mapping[str, PoolStats]
    heard: Mapping[str, tuple[datetime.datetime | None, float]]
    draining: Collection[str] = ()

    def shown(self, name: str) -> Shown | None:
        """Return what is to be shown of a pool, None if there is none of that name."""
        pool, stats = self.pools.get(name), self.stats.get(name)
        if pool is None or stats is None:
            return None
        reported_at, age = self.heard.get(pool.backend, (None, 0.0))
        return Shown(pool, stats, reported_at, age, pool.backend in self.draining)


def picture(hosts: HostManager, now: float) -> Picture:
    """Return what there is to be seen at this moment, as a copy."""
    return Picture(
        pools=hosts.table.snapshot(),
        calculation=hosts.calculation,
        stats={name: entry.stats for name, entry in hosts.entries.items()},
        heard={backend.name: (backend.reported_at, now - backend.heard) for backend in hosts.backends()},
        draining={backend.name for backend in hosts.backends() if backend.draining},
    )


def asked_for(picture: Picture, query: PoolQuery, wanted: Request | None) -> list[PoolView]:
    """Return the pools that a query asks for, by name: those that have what is ``wanted``, if anything is."""
    names: Sequence[str] = picture.pools.names if query.name is None else [query.name]
    if wanted is not None:
        capable = _CAPABLE.run(picture.pools, wanted).remaining.nonzero()[0].tolist()
        names = sorted({picture.pools.names[index] for index in capable}.intersection(names))
    found = [row for name in sorted(names) if (row := picture.pools.index(name)) is not None]
    factors = factors_of_all(picture.pools.take(np.array(found, dtype=np.intp)), picture.calculation)
    shown = (picture.shown(picture.pools.names[row]) for row in found)
    pools = (view(one, each) for one, each in zip(shown, factors, strict=True) if one is not None)
    return [pool for pool in pools if matches(pool, query)]


def view(shown: Shown, factors: Sequence[CapacityFactors]) -> PoolView:
    """Return a pool as get_pools shows it."""
    spelled = [
        {
            key: units.to_wire(value) if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in zip(CapacityFactors._fields, one, strict=True)
        }
        for one in factors
    ]
    return PoolView(name=shown.pool.name, capabilities=_capabilities(shown), capacity_factors=spelled)


def matches(shown: PoolView, query: PoolQuery) -> bool:
    """Tell whether a pool is among those asked for."""
    if query.name is not None and shown.name != query.name:
        return False
    return all(
        key in shown.capabilities and str(shown.capabilities[key]).lower() == value.lower()
        for key, value in query.capabilities.items()
    )


def _capabilities(shown: Shown) -> dict[str, Any]:
    pool, stats = shown.pool, shown.stats
    time = _spelled_time(shown.reported_at)
    capabilities: dict[str, Any] = {
        **_DEFAULTS,
        **stats.capabilities,
        "pool_name": stats.name,
        "total_capacity_gb": units.to_wire(pool.total),
        "free_capacity_gb": units.to_wire(pool.free),
        "allocated_capacity_gb": int(pool.allocated),
        "provisioned_capacity_gb": pool.allocated if math.isnan(pool.provisioned) else pool.provisioned,
        "in_flight_capacity_gb": pool.in_flight,
        "reserved_percentage": pool.reserved_percentage,
        "max_over_subscription_ratio": round(pool.ratio, 4),
        "max_over_subscription_ratio_source": _ratio_source(stats),
        "thin_provisioning_support": pool.thin,
        "thick_provisioning_support": pool.thick,
        "availability_zone": pool.availability_zone,
        "backend_state": "up" if pool.up else "down",
        "updated": time,
        "timestamp": time,
        "figures_age_seconds": round(shown.age, 1),
    }
    if not pool.enabled:
        capabilities["disabled"] = True
    if shown.draining:
        capabilities["draining"] = True
    if pool.storage_id is not None:
        capabilities["storage_id"] = pool.storage_id
    if stats.remarks:
        capabilities["remarks"] = [remark.text for remark in stats.remarks]
    return capabilities


@functools.lru_cache(maxsize=1000)
def _spelled_time(time: datetime.datetime | None) -> str | None:
    """Return a time as it is shown; all pools of a backend have the same."""
    return None if time is None else time.replace(tzinfo=None).isoformat(timespec="seconds")


def _ratio_source(stats: PoolStats) -> str:
    """Tell where the ratio comes from: what the driver reported, the scheduler's option, or worked out (``auto``)."""
    if stats.ratio is None:
        return "default"
    return AUTO if stats.ratio == AUTO else "reported"
