# SPDX-License-Identifier: Apache-2.0
"""The pools of a cloud as the table of a plan.

Cinder's schedulers show the figures of the last report of each backend. A volume that has changed since may be missing
there, so it counts as in flight with all of its size, also physically: a copy is written in full. A report may be sent
again with old figures, so a volume counts until the second report after its change. Tonnage in the place of Cinder's
scheduler shows the capacity in flight itself, which the claims in its ledger have exactly.
"""

import datetime
import functools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.capacity.pool_stats import ALLOCATED, PoolStats
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import validation
from tonnage.extensions.relocation.cinder_client import ReportedPool, Service, Volume, read_time
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.scheduler.cache import pool_figures

#: Statuses of volumes whose storage may not have them yet.
_UNFINISHED = frozenset({"creating", "downloading", "extending", "restoring-backup", "managing", "retyping"})

#: The capacity in flight that Tonnage as Cinder's scheduler shows.
_IN_FLIGHT = "in_flight_capacity_gb"

#: Most backends that an error names.
_MOST_BACKENDS = 5

#: Most seconds before now from which on changes of volumes are looked at.
_LONGEST_AGE = 3600.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The pools and services of a cloud at a moment, by the clock of this machine in UTC."""

    pools: tuple[ReportedPool, ...]
    services: tuple[Service, ...]
    read_at: datetime.datetime

    @functools.cached_property
    def backends(self) -> Mapping[str, Service]:
        """The service of each backend by its name; one of a cluster that is up stands for it."""
        backends: dict[str, Service] = {}
        for service in self.services:
            name = service.cluster or service.host
            before = backends.get(name)
            if before is None or (service.state == "up" and before.state != "up"):
                backends[name] = service
        return backends

    def is_cluster(self, pool: str) -> bool:
        """Return whether a pool belongs to a cluster of volume services."""
        return any(service.cluster == backend_of(pool) for service in self.services)

    def require_reports(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.Unavailable` if pools are missing that take volumes.

        Cinder's scheduler shows the pools of a backend that is up, enabled and not frozen once it has reported to it.
        After a restart of the scheduler that may take as long as the interval of reports.
        """
        shown = {backend_of(row.name) for row in self.pools}
        silent = sorted(
            {
                name
                for row in self.services
                if row.state == "up" and row.status == "enabled" and not row.frozen
                if (name := row.cluster or row.host) not in shown
            }
        )
        if not silent:
            return
        rest = len(silent) - _MOST_BACKENDS
        names = ", ".join(silent[:_MOST_BACKENDS]) + (f" and {rest} more" if rest > 0 else "")
        raise errors.Unavailable(
            f"Cinder's scheduler shows no pool of {names} yet, up and enabled: a plan would be one for a part of the "
            "cloud; wait for a report (backend_stats_polling_interval in cinder.conf), or disable a backend that sends "
            f"none: openstack volume service set --disable {silent[0]} cinder-volume"
        )

    def hidden(self, names: Iterable[str], pools: Iterable[str]) -> list[str]:
        """Return the pools among ``names`` that Cinder's scheduler does not show, although their services are there.

        A name of such a backend stands for its pool, as Cinder names the single pool of one, unless one of the
        ``pools`` is known to be its.
        """
        shown = {backend_of(row.name) for row in self.pools}
        known = {backend_of(pool) for pool in pools}
        hidden = []
        for name in names:
            backend = backend_of(name) or name
            if backend not in self.backends or backend in shown:
                continue
            if name != backend:
                hidden.append(name)
            elif backend not in known:
                hidden.append(f"{backend}#{backend.rpartition('@')[2]}")
        return hidden

    def reported_at(self, pool: str) -> datetime.datetime | None:
        """Return the time of the last report of a pool."""
        return self._report_times.get(pool)

    @functools.cached_property
    def _report_times(self) -> Mapping[str, datetime.datetime | None]:
        return {row.name: _reported_at(row) for row in self.pools}

    def contained_before(self, report_interval: float) -> datetime.datetime:
        """Return the time before which each pool's figures have all changes of its volumes."""
        ages = [
            self._contained_before(row, report_interval) for row in self.pools if _IN_FLIGHT not in row.capabilities
        ]
        oldest = self.read_at - datetime.timedelta(seconds=_LONGEST_AGE)
        return max(oldest, min(ages, default=self.read_at))

    def _contained_before(self, row: ReportedPool, report_interval: float) -> datetime.datetime:
        return (_reported_at(row) or self.read_at - datetime.timedelta(seconds=report_interval)) - datetime.timedelta(
            seconds=report_interval
        )

    def table(
        self,
        volumes: Iterable[Volume],
        default_ratio: float | str,
        report_interval: float,
        *,
        moving: Mapping[str, int] | None = None,
        sums: Mapping[str, int] | None = None,
        hidden: Collection[str] = (),
    ) -> PoolTable:
        """Return the table of pools.

        ``volumes`` are those that have changed lately, or all. ``moving`` are the GiB that moves under way bring into
        pools, by the names of the pools. ``sums`` are the sizes of all volumes of each pool, if they are known.
        Cinder's scheduler does not show the pools of disabled backends: they are there by their sums, or if they are
        among the names in ``hidden``.
        """
        contained_before = {row.name: self._contained_before(row, report_interval) for row in self.pools}
        in_flight: dict[str, int] = defaultdict(int, moving or {})
        for volume in volumes:
            if volume.pool is None or (limit := contained_before.get(volume.pool)) is None:
                continue
            if volume.status in _UNFINISHED or (volume.changed_at or self.read_at) >= limit:
                in_flight[volume.pool] += volume.size
        # The sums have all volumes, so only the volumes that move into a pool are missing there.
        missing = in_flight if sums is None else (moving or {})
        pools = [
            self._pool(row, stats, in_flight[row.name], missing.get(row.name, 0), default_ratio, sums)
            for row, stats in self._stats()
        ]
        shown = {row.name for row in self.pools}
        sizes = {**dict.fromkeys(hidden, 0), **(sums or {})}
        return PoolTable([*pools, *(self._hidden(name, size) for name, size in sizes.items() if name not in shown)])

    def _stats(self) -> Iterable[tuple[ReportedPool, PoolStats]]:
        """Yield the pools whose figures are usable."""
        for row in self.pools:
            name = row.name.partition("#")[2] or row.name
            report = validation.validate([{**row.capabilities, "pool_name": name}])
            for stats in report.pools:
                yield row, stats

    def _pool(
        self,
        row: ReportedPool,
        stats: PoolStats,
        in_flight: int,
        missing: int,
        default_ratio: float | str,
        sums: Mapping[str, int] | None,
    ) -> Pool:
        allocated = int((sums or {}).get(row.name, 0)) or int(_number(row.capabilities.get(ALLOCATED)))
        provisioned = stats.provisioned
        if _IN_FLIGHT in row.capabilities:
            in_flight = int(_number(row.capabilities[_IN_FLIGHT]))
            provisioned -= in_flight
        service = self.backends.get(backend_of(row.name))
        return Pool(
            name=row.name,
            total=stats.total,
            free=stats.free,
            provisioned=provisioned,
            allocated=allocated + (missing if math.isnan(provisioned) else 0),
            claimed=in_flight,
            claimed_physical=in_flight,
            reserved_percentage=stats.reserved_percentage,
            ratio=pool_figures.ratio(stats, Counters(allocated=allocated), default_ratio),
            thin=stats.thin,
            thick=stats.thick,
            up=service is None or service.state == "up",
            enabled=service is None or (service.status == "enabled" and not service.frozen),
            availability_zone="" if service is None else service.zone,
            capabilities=stats.capabilities,
        )

    def _hidden(self, name: str, size: int) -> Pool:
        """Return a pool without figures, into which nothing moves."""
        service = self.backends.get(backend_of(name))
        return Pool(
            name=name,
            total=math.nan,
            free=math.nan,
            provisioned=size,
            allocated=size,
            ratio=1.0,
            thick=True,
            up=service is not None and service.state == "up",
            enabled=False,
            availability_zone="" if service is None else service.zone,
        )


def _reported_at(row: ReportedPool) -> datetime.datetime | None:
    time = row.capabilities.get("timestamp")
    return read_time(time) if isinstance(time, str) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
