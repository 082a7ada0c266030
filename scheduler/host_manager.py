# SPDX-License-Identifier: Apache-2.0
"""The host manager: what this scheduler knows of backends and their pools.

It keeps the pool table, a cache of what the ledger says, and belongs to the decision thread.
"""

import datetime
import logging
import math
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

from tonnage.capacity import arithmetic
from tonnage.capacity import report
from tonnage.capacity import units
from tonnage.capacity.pools import AUTO
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import backend_of
from tonnage.capacity.pools import pool_name
from tonnage.ledger import reports
from tonnage.ledger.backends import BackendRow
from tonnage.ledger.backends import PoolRow
from tonnage.ledger.counters import Counters
from tonnage.ledger.database import storable_text
from tonnage.rpc.messages import BackendReport

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Backend:
    """One backend. ``heard`` is when it last reported, by this process's monotonic clock.

    ``seq`` and ``covers`` are those of the report that the pools' figures here are from, or of an older one.

    ``reported_here`` is true once this scheduler has applied one of its reports.
    """

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    rpc_version: str
    epoch: int
    seq: int
    covers: int
    heard: float
    up: bool = True
    draining: bool = False
    reported_here: bool = False
    reported_at: datetime.datetime | None = None
    pools: set[str] = field(default_factory=set)
    warned: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """What lies behind a row of the table: the ledger's id and counters, and the figures as they were reported.

    ``ratio`` is the over-subscription ratio that counts, worked out when the report was applied.
    """

    id: int
    generation: int
    stats: report.PoolStats
    raw: Mapping[str, Any]
    counters: Counters
    ratio: float


@dataclass(frozen=True, slots=True)
class Examined:
    """A report, looked at: what has to be written, and what each pool will look like."""

    stats: Mapping[str, report.PoolStats]
    raw: Mapping[str, Mapping[str, Any]]
    vanished: Collection[str]
    report: reports.Report


class HostManager:
    """Backends, pools and the table that decisions read.

    ``default_ratio`` counts where a pool reports no ratio of its own. ``down_time`` is how many seconds a backend may
    be silent.
    """

    def __init__(self, default_ratio: float | str, calculation: arithmetic.Calculation, down_time: float) -> None:
        self.table = PoolTable()
        self.calculation = calculation
        self.down_time = down_time
        self._default_ratio = default_ratio
        self._backends: dict[str, Backend] = {}
        self._names: dict[int, str] = {}
        self.entries: dict[str, PoolEntry] = {}

    def backend(self, name: str) -> Backend | None:
        """Return the backend of that name, or None if this scheduler has not met it."""
        return self._backends.get(name)

    def backends(self) -> Iterable[Backend]:
        """Return all backends."""
        return self._backends.values()

    def put_backend(self, row: BackendRow, now: float, absence: float = 0.0) -> Backend:
        """Take over a backend from the ledger.

        Its silence counts only while some scheduler was there to hear: ``absence`` is how long there was none.
        """
        known = self._backends.get(row.name)
        if known is not None and known.id != row.id:
            # It was removed, and has introduced itself anew.
            self.forget_backend(row.name)
            known = None
        if known is None:
            silence = max(0.0, (row.silence or 0.0) - absence)
            known = self._backends[row.name] = Backend(
                id=row.id,
                name=row.name,
                availability_zone=row.availability_zone,
                enabled=row.enabled,
                disabled_reason=row.disabled_reason,
                rpc_version=row.rpc_version,
                epoch=row.epoch,
                seq=row.report_seq,
                covers=row.report_covers,
                heard=now - silence,
                draining=row.draining,
                reported_at=row.last_report_at,
            )
            return known
        if known.epoch != row.epoch:
            known.epoch, known.seq, known.covers = row.epoch, row.report_seq, row.report_covers
        self.refresh_backend(row)
        return known

    def refresh_backend(self, row: BackendRow) -> None:
        """Take over what an operator or an agent's hello has changed of a backend."""
        known = self._backends.get(row.name)
        if known is None:
            return
        changed = known.availability_zone != row.availability_zone or known.enabled != row.enabled
        known.availability_zone, known.enabled = row.availability_zone, row.enabled
        known.disabled_reason, known.rpc_version = row.disabled_reason, row.rpc_version
        known.draining = row.draining
        if changed:
            self.reset(known.pools)

    def forget_backend(self, name: str) -> None:
        """Forget a backend that an operator has removed."""
        self.forget_pools(sorted(self._backends[name].pools))
        del self._backends[name]

    def put_pool(self, row: PoolRow) -> None:
        """Take over a pool from the ledger, with the figures of its last report."""
        self.load([row])

    def load(self, rows: Iterable[PoolRow]) -> None:
        """Take over pools from the ledger; those of backends that have not been met come when these report."""
        loaded = []
        for row in rows:
            backend = self._backends.get(backend_of(row.name))
            if backend is None:
                continue
            checked = report.validate([row.stats])
            if checked.errors:
                LOG.warning("Pool %s is left out until it reports: %s", row.name, checked.errors[0])
                continue
            self._names[row.id] = row.name
            backend.pools.add(row.name)
            self.entries[row.name] = PoolEntry(
                row.id, row.generation, checked.pools[0], row.stats, row.counters, row.ratio
            )
            loaded.append(row.name)
        self.reset(loaded)

    def put_pools(self, backend: Backend, rows: Iterable[PoolRow]) -> None:
        """Take over all pools of a backend from the ledger; one that is not among them is no longer reported."""
        present = {row.name: row for row in rows}
        self.forget_pools(name for name in sorted(backend.pools) if name not in present)
        self.load(present.values())

    def take_over(self, row: BackendRow, pools: Iterable[PoolRow], now: float) -> Backend:
        """Take over a backend with all its pools from the ledger; ``row`` was read before the pools."""
        backend = self.put_backend(row, now)
        self.put_pools(backend, pools)
        # Another scheduler has heard its last report, which is as good.
        backend.seq, backend.covers = row.report_seq, row.report_covers
        backend.heard = max(backend.heard, now - (row.silence or 0.0))
        self.welcome(backend, now)
        return backend

    def forget_pools(self, names: Iterable[str]) -> None:
        """Place nothing more in these pools, which are no longer reported. What the ledger counts there stays."""
        for name in names:
            LOG.warning("Pool %s is no longer reported; nothing is placed there", name)
            self._backends[backend_of(name)].pools.discard(name)
            self._names.pop(self.entries.pop(name).id, None)
            self.table.remove(name)

    def names(self, pool_ids: Iterable[int]) -> list[str]:
        """Return the names of the pools with these ids in the ledger, of those that this scheduler knows."""
        return [self._names[pool_id] for pool_id in pool_ids if pool_id in self._names]

    def set_counters(self, counters: Mapping[int, Counters]) -> None:
        """Take over counters that the ledger has committed."""
        changed = []
        for pool_id, value in counters.items():
            name = self._names.get(pool_id)
            if name is not None and name in self.entries and self.entries[name].counters != value:
                self.entries[name] = replace(self.entries[name], counters=value)
                changed.append(name)
        self.reset(changed)

    def reset(self, names: Iterable[str]) -> None:
        """Bring rows of the table back to what the ledger says, dropping claims that were not booked."""
        self.table.put_all(
            self._pool(name, entry.stats, entry.counters, entry.ratio, self._backends[backend_of(name)])
            for name, entry in ((name, self.entries[name]) for name in names)
        )

    def excuse(self, seconds: float, now: float) -> None:
        """Leave out of every backend's silence a time in which this scheduler could not hear."""
        for backend in self._backends.values():
            backend.heard = min(now, backend.heard + seconds)

    def overdue(self, now: float) -> list[Backend]:
        """Return backends that count as up and have been silent for too long."""
        return [each for each in self._backends.values() if each.up and now - each.heard > self.down_time]

    def watch(self, now: float) -> None:
        """Mark backends that have been silent for too long as down, and those heard again as up."""
        for backend in self.overdue(now):
            backend.up = False
            LOG.warning(
                "Backend %s is down: no report for %.0f s (service_down_time is %g)",
                backend.name,
                now - backend.heard,
                self.down_time,
            )
            self.reset(backend.pools)
        for backend in self._backends.values():
            self.welcome(backend, now)

    def welcome(self, backend: Backend, now: float) -> None:
        """Mark a backend that was down as up if it has been heard again."""
        if not backend.up and now - backend.heard <= self.down_time:
            backend.up = True
            LOG.info("Backend %s is up again", backend.name)
            self.reset(backend.pools)

    def examine(self, backend: Backend, message: BackendReport) -> Examined:
        """Validate a report and find what is new in it. Nothing is changed but the record of what was warned about."""
        fresh: list[Mapping[str, Any]] = []
        stats: dict[str, report.PoolStats] = {}
        raw: dict[str, Mapping[str, Any]] = {}
        named: dict[str, Mapping[str, Any]] = {}
        for pool in message.pools:
            name = pool_name(backend.name, str(pool.get("pool_name")))
            entry = self.entries.get(name)
            if isinstance(pool.get("pool_name"), str) and named.setdefault(name, pool) is not pool:
                self._warn_once(backend, name, "pool_name", f"pool {name} is reported twice; the first one counts")
            elif entry is not None and entry.raw == pool:
                stats[name], raw[name] = entry.stats, entry.raw
            else:
                fresh.append(pool)
        checked = report.validate(fresh)
        for remark in checked.remarks:
            # A driver that reports allocated does so for every pool.
            self._warn_once(backend, "" if remark.code == "allocated_reported" else remark.pool, remark.code, remark)
        for error in checked.errors:
            self._warn_once(backend, error.pool, error.field, error)
        for valid in checked.pools:
            name = pool_name(backend.name, valid.name)
            stats[name], raw[name] = valid, named[name]
        for name in [name for name in stats if self._is_unordered(name, stats[name], message)]:
            self._warn_once(
                backend,
                name,
                "storage_id",
                f"pool {name} shares storage {stats[name].storage_id} with another backend, and its report carries no "
                "stamp of it; its figures are left out until one does",
            )
            del stats[name], raw[name]
        bad = {pool_name(backend.name, str(pool.get("pool_name"))) for pool in message.pools} - set(stats)
        gone = backend.pools - set(stats) - bad
        return Examined(
            stats=stats,
            raw=raw,
            vanished=gone,
            report=reports.Report(
                backend_id=backend.id,
                epoch=message.epoch,
                seq=message.seq,
                base=backend.seq,
                covers=message.covers,
                figures=[
                    self._figures(name, stats[name], raw[name], backend)
                    for name in stats
                    if self._is_new(name, stats[name], raw[name])
                ],
                unheard=[self.entries[name].id for name in bad if name in self.entries],
                vanished=[self.entries[name].id for name in gone],
                stamps=message.stamps,
                storages={one.storage_id for one in stats.values() if one.storage_id is not None},
            ),
        )

    def absorb(
        self, backend: Backend, message: BackendReport, examined: Examined, applied: reports.Applied, now: float
    ) -> None:
        """Take over a report that the ledger has accepted, from this scheduler or from another."""
        backend.seq, backend.covers, backend.heard = message.seq, message.covers, now
        backend.reported_here = True
        backend.reported_at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=message.age)
        changed = []
        for name, stats in examined.stats.items():
            entry = self.entries.get(name)
            pool_id = applied.ids[name] if entry is None else entry.id
            known = Counters() if entry is None else entry.counters
            counters = applied.counters.get(pool_id, known)
            generation = applied.generations.get(pool_id, 0 if entry is None else entry.generation)
            ratio = self._ratio(stats, known)
            same = entry is not None and entry.raw is examined.raw[name]
            if same and entry is not None and (counters, ratio, generation) == (known, entry.ratio, entry.generation):
                continue
            self._names[pool_id] = name
            backend.pools.add(name)
            self.entries[name] = PoolEntry(pool_id, generation, stats, examined.raw[name], counters, ratio)
            changed.append(name)
        self.reset(changed)
        self.forget_pools(examined.vanished)

    def _is_unordered(self, name: str, stats: report.PoolStats, message: BackendReport) -> bool:
        """Tell whether nobody can say what of other backends a pool's figures contain."""
        if stats.storage_id is None or stats.storage_id in message.stamps:
            return False
        return any(backend != message.backend for backend in self.table.backends_on(stats.storage_id))

    @staticmethod
    def _warn_once(backend: Backend, pool: str, what: str, message: object) -> None:
        """Log what is wrong with a pool once; with other figures the next time it is no news."""
        if (pool, what) not in backend.warned:
            backend.warned.add((pool, what))
            LOG.warning("Backend %s: %s", backend.name, message)

    def _is_new(self, name: str, stats: report.PoolStats, raw: Mapping[str, Any]) -> bool:
        entry = self.entries.get(name)
        if entry is None or entry.raw is not raw:
            return True
        # The same figures give another ratio where allocated stands in for provisioned.
        return self._ratio(stats, entry.counters) != entry.ratio

    def _figures(
        self, name: str, stats: report.PoolStats, raw: Mapping[str, Any], backend: Backend
    ) -> reports.PoolFigures:
        entry = self.entries.get(name)
        counters = Counters() if entry is None else entry.counters
        pool = self._pool(name, stats, counters, self._ratio(stats, counters), backend)
        physical = pool.free - float(arithmetic.reserve(pool))
        return reports.PoolFigures(
            id=None if entry is None else entry.id,
            name=name,
            total_gb=_finite(stats.total),
            free_gb=_finite(stats.free),
            provisioned_gb=_finite(stats.provisioned),
            ratio=pool.ratio,
            thin_limit_gb=_finite(float(arithmetic.provisioning_limit(pool, self.calculation))),
            physical_limit_gb=_finite(physical),
            storage_id=stats.storage_id,
            storage_free_gb=_finite(stats.storage_free),
            changes_decisions=entry is None or _kind(entry.stats) != _kind(stats),
            stats=_storable(raw),
        )

    def _pool(self, name: str, stats: report.PoolStats, counters: Counters, ratio: float, backend: Backend) -> Pool:
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

    def _ratio(self, stats: report.PoolStats, counters: Counters) -> float:
        ratio = self._default_ratio if stats.ratio is None else stats.ratio
        if ratio == AUTO:
            allocated = counters.allocated + counters.shared_allocated + counters.external
            return float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, allocated))
        return float(ratio)


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


def _kind(stats: report.PoolStats) -> tuple[object, ...]:
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
