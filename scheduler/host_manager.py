# SPDX-License-Identifier: Apache-2.0
"""The host manager: what this scheduler knows of backends and their pools.

It keeps the pool table, a cache of what the ledger says, and belongs to the decision thread.
"""

import datetime
import logging
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.names import backend_of, short_name
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import validation
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.inventory import reports
from tonnage.ledger.inventory.backends import BackendRow, PoolRow
from tonnage.ledger.inventory.pool_limits import Limit
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.reports import pool_figures
from tonnage.scheduler.reports.backend_state import BackendEntry, PoolEntry
from tonnage.scheduler.reports.report_diff import ReportDiff, ReportDiffer

LOG = logging.getLogger(__name__)


class HostManager:
    """Backends, pools and the table that decisions read.

    ``default_ratio`` counts where a pool reports no ratio of its own. ``down_time`` is how many seconds a backend may
    be silent, ``rules_generation`` that of the rules that all of this follows.
    """

    def __init__(self, default_ratio: float | str, calculation: arithmetic.Calculation, down_time: float) -> None:
        self.table = PoolTable()
        self.calculation = calculation
        self.down_time = down_time
        self.default_ratio = default_ratio
        self.rules_generation = 0
        self._backends: dict[str, BackendEntry] = {}
        self._names: dict[int, str] = {}
        self.entries: dict[str, PoolEntry] = {}
        self._differ = ReportDiffer(self.table, self.entries, default_ratio, calculation, self.rules_generation)

    def apply_rules(self, default_ratio: float | str, calculation: arithmetic.Calculation, generation: int) -> None:
        """Judge everything by another default ratio and another calculation from now on, rules of that generation."""
        self.calculation, self.default_ratio, self.rules_generation = calculation, default_ratio, generation
        self._differ = ReportDiffer(self.table, self.entries, default_ratio, calculation, generation)
        self.apply_default_ratio()

    def apply_default_ratio(self) -> None:
        """Work out the ratio anew of pools that report none, whatever the ledger has."""
        changed = []
        for name, entry in self.entries.items():
            if entry.stats.ratio is not None:
                continue
            ratio = pool_figures.ratio(entry.stats, entry.counters, self.default_ratio)
            if ratio != entry.ratio:
                self.entries[name] = entry._replace(ratio=ratio)
                changed.append(name)
        self.reset(changed)

    def find_wrong_limits(self, rows: Iterable[PoolRow]) -> list[Limit]:
        """Return what ratios and limits the ledger's rows should have, of those that have others."""
        limits = np.atleast_1d(arithmetic.provisioning_limit(self.table, self.calculation))
        found = []
        for row in rows:
            index = self.table.index(row.name)
            if index is None:
                continue
            ratio = self.entries[row.name].ratio
            limit = float(limits[index]) if math.isfinite(limits[index]) else None
            if ratio != row.ratio or not _same(limit, row.thin_limit_gb):
                found.append(Limit(row.id, ratio, limit))
        return found

    def backend(self, name: str) -> BackendEntry | None:
        """Return the backend of that name, or None if this scheduler has not met it."""
        return self._backends.get(name)

    def backends(self) -> Iterable[BackendEntry]:
        """Return all backends."""
        return self._backends.values()

    def put_backend(self, row: BackendRow, now: float, absence: float = 0.0) -> BackendEntry:
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
            begun = _begun(row, now)
            known = self._backends[row.name] = BackendEntry(
                id=row.id,
                name=row.name,
                availability_zone=row.availability_zone,
                enabled=row.enabled,
                disabled_reason=row.disabled_reason,
                epoch=row.epoch,
                seq=row.report_seq,
                covers=row.report_covers,
                last_seen=now - silence,
                last_collected=begun,
                figures_collected=begun,
                draining=row.draining,
                reported_at=row.last_report_at,
            )
            return known
        if known.epoch != row.epoch:
            known.epoch, known.seq, known.covers = row.epoch, row.report_seq, row.report_covers
            known.figures_collected = _begun(row, now)
        self.refresh_backend(row)
        return known

    def refresh_backend(self, row: BackendRow) -> None:
        """Take over what an operator or an agent's hello has changed of a backend."""
        known = self._backends.get(row.name)
        if known is None:
            return
        changed = known.availability_zone != row.availability_zone or known.enabled != row.enabled
        known.availability_zone, known.enabled = row.availability_zone, row.enabled
        known.disabled_reason = row.disabled_reason
        known.draining = row.draining
        if changed:
            self.reset(known.pools)

    def meet(self, rows: Sequence[BackendRow], now: float) -> None:
        """Take over what operators have changed of backends, and when other schedulers have heard them."""
        for row in rows:
            self.refresh_backend(row)
            known = self._backends.get(row.name)
            if known is not None and row.silence is not None:
                known.update_last_seen(row, now)
                self.update_status(known, now)
        there = {(row.name, row.id) for row in rows}
        for name in [known.name for known in self._backends.values() if (known.name, known.id) not in there]:
            LOG.warning("Backend %s has been removed", name)
            self.forget_backend(name)

    def forget_backend(self, name: str) -> None:
        """Forget a backend that an operator has removed."""
        self.forget_pools(sorted(self._backends[name].pools))
        del self._backends[name]

    def put_pool(self, row: PoolRow) -> None:
        """Take over a pool from the ledger, with the figures of its last report."""
        self.load([row])

    def load(self, rows: Iterable[PoolRow]) -> None:
        """Take over pools from the ledger; those of backends that have not been met come when these report."""
        of_backend: dict[str, list[PoolRow]] = {}
        for row in rows:
            of_backend.setdefault(backend_of(row.name), []).append(row)
        met = [(self._backends[name], of_backend[name]) for name in of_backend if name in self._backends]
        self.reset([name for backend, listed in met for name in self._remember(backend, listed)])

    def _remember(self, backend: BackendEntry, rows: Sequence[PoolRow]) -> list[str]:
        """Note what lies behind pools of a backend; return the names of those whose figures are usable."""
        valid = {stats.name: stats for stats in validation.validate([row.stats for row in rows]).pools}
        loaded = []
        for row in rows:
            stats = valid.get(short_name(row.name))
            if stats is None:
                problem = next(iter(validation.validate([row.stats]).errors), "it is there under another name")
                LOG.warning("Pool %s is left out until it reports: %s", row.name, problem)
                continue
            self._names[row.id] = row.name
            backend.add_pool(row.name, stats.capabilities)
            self.entries[row.name] = PoolEntry(row.id, row.generation, stats, row.stats, row.counters, row.ratio)
            loaded.append(row.name)
        return loaded

    def put_pools(self, backend: BackendEntry, rows: Iterable[PoolRow], now: float) -> None:
        """Take over all pools of a backend from the ledger; one that is not among them is no longer reported."""
        present = {row.name: row for row in rows}
        self.forget_pools(name for name in sorted(backend.pools) if name not in present)
        self.load(present.values())
        backend.stale_since = {}
        self.set_figure_ages(present.values(), now)

    def set_figure_ages(self, rows: Iterable[PoolRow], now: float) -> None:
        """Take over from the ledger of which pools the figures are older than their backends' last reports."""
        for row in rows:
            backend = self._backends.get(backend_of(row.name))
            if backend is not None and row.figures_age is not None:
                backend.stale_since[row.name] = now - row.figures_age

    def take_over(self, row: BackendRow, pools: Iterable[PoolRow], now: float) -> BackendEntry:
        """Take over a backend with all its pools from the ledger; ``row`` was read before the pools."""
        before = self._backends.get(row.name)
        backend = self.put_backend(row, now)
        self.put_pools(backend, pools, now)
        # Another scheduler has heard its last report, which is as good.
        backend.seq, backend.covers = row.report_seq, row.report_covers
        backend.last_seen = max(backend.last_seen, now - (row.silence or 0.0))
        backend.figures_collected = _begun(row, now)
        backend.last_collected = max(backend.last_collected, backend.figures_collected)
        self.update_status(backend, now)
        if backend is not before and now - backend.last_seen > self.down_time:
            # Met for the first time, and gone since. Of others watch() knows for how long nobody could hear them.
            self._mark_down(backend, now)
        return backend

    def forget_pools(self, names: Iterable[str]) -> None:
        """Place nothing more in these pools, which are no longer reported. What the ledger counts there stays."""
        for name in names:
            LOG.warning("Pool %s is no longer reported; nothing is placed there", name)
            self._backends[backend_of(name)].remove_pool(name)
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
                self.entries[name] = self.entries[name]._replace(counters=value)
                changed.append(name)
        self.reset(changed)

    def reset(self, names: Iterable[str]) -> None:
        """Bring rows of the table back to what the ledger says, dropping claims that were not booked."""
        names = list(names)
        if names:
            backends = [self._backends[backend_of(name)] for name in names]
            columns = pool_figures.columns([self.entries[name] for name in names], backends)
            columns["expired"] = [name in backend.expired for name, backend in zip(names, backends, strict=True)]
            self.table.put_columns(names, columns)

    def discount_silence(self, seconds: float, now: float) -> None:
        """Leave out of every backend's silence a time in which this scheduler could not hear."""
        for backend in self._backends.values():
            backend.last_seen = min(now, backend.last_seen + seconds)

    def overdue(self, now: float) -> list[BackendEntry]:
        """Return backends that count as up and have been silent for too long."""
        return [each for each in self._backends.values() if each.up and now - each.last_seen > self.down_time]

    def seemingly_overdue(self, now: float) -> list[BackendEntry]:
        """Return the overdue ones, and those of which figures have just expired, by what is known here."""
        return [
            each
            for each in self._backends.values()
            if each.up
            and (
                now - each.last_seen > self.down_time
                or (now - each.last_collected > each.shortest and not each.expired)
            )
        ]

    def silence(self, name: str, now: float) -> float:
        """Return for how many seconds a backend has been silent."""
        known = self._backends.get(name)
        return 0.0 if known is None else now - known.last_seen

    def age(self, pool: str, now: float) -> float:
        """Return how old the figures of a pool are, whether its backend could be heard or not."""
        known = self._backends.get(backend_of(pool))
        return 0.0 if known is None else now - known.collected_at(pool)

    def update_statuses(self, now: float) -> None:
        """Mark backends that have been silent for too long as down, and those heard again as up; so with figures."""
        for backend in self.overdue(now):
            self._mark_down(backend, now)
        for backend in self._backends.values():
            self.update_status(backend, now)

    def _mark_down(self, backend: BackendEntry, now: float) -> None:
        """Mark a backend as down."""
        backend.up = False
        LOG.warning(
            "Backend %s is down: no report for %.0f s (service_down_time is %g)",
            backend.name,
            now - backend.last_seen,
            self.down_time,
        )
        self.reset(backend.pools)

    def update_status(self, backend: BackendEntry, now: float) -> None:
        """Mark a backend that was down as up if it has been heard again, and tell apart whose figures may be used."""
        if not backend.up and now - backend.last_seen <= self.down_time:
            backend.up = True
            LOG.info("Backend %s is up again", backend.name)
            self.reset(backend.pools)
        changed = backend.update_expired(now)
        if expired := changed & backend.expired:
            age = now - min(map(backend.collected_at, expired))
            LOG.warning("Backend %s: figures of %d pool(s) expire after %.0f s", backend.name, len(expired), age)
        self.reset(changed)

    def diff_report(self, backend: BackendEntry, message: BackendReport) -> ReportDiff:
        """Validate a report and find what is new in it. Nothing is changed but the record of what was warned about."""
        return self._differ.diff(backend, message)

    def apply_report(
        self, backend: BackendEntry, message: BackendReport, examined: ReportDiff, applied: reports.Applied, now: float
    ) -> None:
        """Take over a report that the ledger has accepted, from this scheduler or from another."""
        backend.seq, backend.covers, backend.last_seen = message.seq, message.covers, now
        # Memory and the ledger have to agree: whoever reads it there must not take the figures for fresh.
        age = examined.report.age
        backend.set_collected(now - age, self.names(examined.report.unheard))
        backend.reported_here = True
        backend.reported_at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
        changed = []
        for name, stats in examined.stats.items():
            entry = self.entries.get(name)
            pool_id = applied.ids[name] if entry is None else entry.id
            known = Counters() if entry is None else entry.counters
            counters = applied.counters.get(pool_id, known)
            generation = applied.generations.get(pool_id, 0 if entry is None else entry.generation)
            ratio = pool_figures.ratio(stats, known, self.default_ratio)
            same = entry is not None and entry.raw is examined.raw[name]
            if same and entry is not None and (counters, ratio, generation) == (known, entry.ratio, entry.generation):
                continue
            self._names[pool_id] = name
            backend.add_pool(name, stats.capabilities)
            self.entries[name] = PoolEntry(pool_id, generation, stats, examined.raw[name], counters, ratio)
            changed.append(name)
        self.reset(changed)
        self.forget_pools(examined.vanished)


def _begun(row: BackendRow, now: float) -> float:
    """Return when a backend began to collect its last report, by the ledger."""
    return now - (row.silence or 0.0) - row.report_age


def _same(one: float | None, other: float | None) -> bool:
    """Tell whether two limits are the same but for the rounding of binary fractions."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= arithmetic.TOLERANCE_GB
