# SPDX-License-Identifier: Apache-2.0
"""The host manager: a scheduler's cache of the ledger's backends and pools.

It is a :class:`~tonnage.scheduler.cache.ledger_cache.LedgerCache` with the pool table that decisions read, and belongs
to the decision thread. The cache changes in two ways: :meth:`HostManager.apply_report` and
:meth:`HostManager.set_counters` follow this scheduler's own transactions, and
:class:`~tonnage.scheduler.cache.cache_refresh.CacheRefresh` applies what it reads from the ledger.

An example. The agent of backend ``host@backend`` reports one pool, in GiB and percent::

    {"pool_name": "gold", "total_capacity_gb": 1000, "free_capacity_gb": 480, "provisioned_capacity_gb": 1400,
     "reserved_percentage": 10, "max_over_subscription_ratio": "2.0", "thin_provisioning_support": True,
     "disk": "nvme"}

A thin volume of 20 GiB was booked there since the report began. The row of ``host@backend#gold`` in the table is then::

    of the report            total=1000 free=480 provisioned=1400 reserved_percentage=10 ratio=2 thin=True thick=False
    of the ledger's counters allocated=20 claimed=20 claimed_physical=0 shared_in_flight=0 external=0
    of its backend           up=True enabled=True expired=False
    computed from these      in_flight=20 in_flight_physical=0 others=0

All fields of the report are in ``capabilities``, so a filter can ask for ``disk``. The next report that contains the
claim has ``"provisioned_capacity_gb": 1420`` and sets ``claimed`` to 0: the volume counts once, before and after.
"""

import datetime
import logging
import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.pools.pool import backend_of, short_name
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import validation
from tonnage.ledger.inventory import reports
from tonnage.ledger.inventory.backends import BackendRow, PoolMark, PoolRow
from tonnage.ledger.inventory.pool_limits import Limit, StoredLimit
from tonnage.ledger.locks import backend_notices
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.cache.backend_state import BackendEntry, PoolEntry
from tonnage.scheduler.cache.ledger_cache import LedgerCache
from tonnage.scheduler.cache.report_diff import ReportDiff, ReportDiffer

LOG = logging.getLogger(__name__)


class HostManager(LedgerCache[BackendEntry, PoolEntry]):
    """Backends, pools and the table that decisions read.

    ``default_ratio`` applies to pools that report no ratio. ``down_time`` is the silence in seconds after which a
    backend counts as down, ``rules_generation`` the generation of the default ratio and the calculation in the ledger.
    ``entries`` holds the facts behind each row of the table.
    """

    def __init__(self, default_ratio: float | str, calculation: arithmetic.Calculation, down_time: float) -> None:
        super().__init__()
        self.table = PoolTable()
        self.calculation = calculation
        self.down_time = down_time
        self.default_ratio = default_ratio
        self.rules_generation = 0
        #: The time from which on agents reach this scheduler, by its monotonic clock. Backends that have sent neither a
        #: hello nor a report since are not responsive.
        self.listening_since = -math.inf
        self._differ = ReportDiffer(self.table, self.entries, default_ratio, calculation, self.rules_generation)

    def apply_rules(self, default_ratio: float | str, calculation: arithmetic.Calculation, generation: int) -> None:
        """Use another default ratio and another calculation from now on; ``generation`` is theirs in the ledger."""
        self.calculation, self.default_ratio, self.rules_generation = calculation, default_ratio, generation
        self._differ = ReportDiffer(self.table, self.entries, default_ratio, calculation, generation)
        self.apply_default_ratio()

    def apply_default_ratio(self) -> None:
        """Compute the ratio of pools that report none again, whatever the ledger has."""
        changed = []
        for name, entry in self.entries.items():
            if entry.stats.ratio is not None:
                continue
            ratio = pool_figures.ratio(entry.stats, entry.counters, self.default_ratio)
            if ratio != entry.ratio:
                self.entries[name] = entry._replace(ratio=ratio)
                changed.append(name)
        self.reset(changed)

    def find_wrong_limits(self, rows: Iterable[StoredLimit]) -> list[Limit]:
        """Return the right ratio and limit for each of these rows whose ratio or limit is wrong.

        Rows of pools that the cache does not have are left out.
        """
        indexed = [(index, row) for row in rows if (index := self.table.index(row.name)) is not None]
        if not indexed:
            return []
        indexes = np.fromiter((index for index, _ in indexed), dtype=np.intp, count=len(indexed))
        ratios = self.table.ratio[indexes]
        limits = np.atleast_1d(arithmetic.thin_limit(self.table, self.calculation))[indexes]
        stored_ratios = np.array([row.ratio for _, row in indexed], dtype=np.float64)
        # None becomes nan: no limit.
        stored_limits = np.array([row.thin_limit_gb for _, row in indexed], dtype=np.float64)
        has_limit, is_stored = np.isfinite(limits), ~np.isnan(stored_limits)
        with np.errstate(invalid="ignore"):
            # Equal but for the rounding of binary fractions.
            is_same = np.abs(limits - stored_limits) <= arithmetic.TOLERANCE_GB
        wrong = (ratios != stored_ratios) | (has_limit != is_stored) | (has_limit & is_stored & ~is_same)
        return [
            Limit(indexed[number][1].id, float(ratios[number]), float(limits[number]) if has_limit[number] else None)
            for number in np.flatnonzero(wrong).tolist()
        ]

    def apply_rows(
        self, row: BackendRow, marks: Iterable[PoolMark], rows: Iterable[PoolRow], now: float, absence: float = 0.0
    ) -> list[PoolMark]:
        rows = list(rows)
        current = super().apply_rows(row, marks, rows, now, absence)
        backend = self._backends[row.name]
        ages = {pool.name: pool.figures_age for pool in rows} | {mark.name: mark.figures_age for mark in current}
        backend.stale_since = {name: now - age for name, age in ages.items() if age is not None}
        self.update_status(backend, now)
        return current

    def apply_hello(self, row: BackendRow, now: float) -> None:
        super().apply_hello(row, now)
        self.update_status(self._backends[row.name], now)

    def _put_backend(self, row: BackendRow, now: float, absence: float) -> None:
        backend = self._backends.get(row.name)
        collected = now - (row.silence or 0.0) - row.report_age
        if backend is None:
            backend = self._backends[row.name] = BackendEntry(
                id=row.id,
                name=row.name,
                availability_zone=row.availability_zone,
                enabled=row.enabled,
                disabled_reason=row.disabled_reason,
                epoch=row.epoch,
                report_seq=row.report_seq,
                report_covers=row.report_covers,
                last_seen=now - max(0.0, (row.silence or 0.0) - absence),
                draining=row.draining,
                notice=row.notice,
                last_word=-math.inf if row.silence is None else now - row.silence,
            )
            backend.update_responsive(self.listening_since)
            if now - backend.last_seen > self.down_time:
                self._mark_down(backend, now)
        else:
            if row.epoch != backend.epoch:
                # An agent process has said hello, and reports soon.
                backend.last_word = now
            backend.epoch, backend.report_seq, backend.report_covers = row.epoch, row.report_seq, row.report_covers
            backend.update_last_seen(row, now)
            self.apply_backend_state(row)
        backend.figures_collected = collected
        backend.last_collected = max(backend.last_collected, collected)
        if row.last_report_at is not None:
            age = datetime.timedelta(seconds=row.report_age)
            backend.reported_at = row.last_report_at.replace(tzinfo=datetime.UTC) - age

    def apply_backend_state(self, row: BackendRow) -> None:
        """Take over the state that an operator has given a backend, and its availability zone."""
        backend = self._backends.get(row.name)
        if backend is None:
            return
        changed = backend.availability_zone != row.availability_zone or backend.enabled != row.enabled
        backend.availability_zone, backend.enabled = row.availability_zone, row.enabled
        backend.disabled_reason = row.disabled_reason
        backend.draining = row.draining
        if changed:
            self.reset(backend.pools)

    def apply_silence(self, row: BackendRow, now: float) -> bool:
        backend = self._backends.get(row.name)
        if backend is None:
            return False
        backend.disabled_reason = row.disabled_reason
        backend.update_last_seen(row, now)
        return self.update_status(backend, now)

    def apply_pools(self, rows: Iterable[PoolRow]) -> None:
        of_backend: dict[int, list[PoolRow]] = {}
        for row in rows:
            of_backend.setdefault(row.backend_id, []).append(row)
        names: list[str] = []
        backends: list[BackendEntry] = []
        for backend_rows in of_backend.values():
            backend = self._backends.get(backend_of(backend_rows[0].name))
            if backend is not None:
                loaded = self._put_entries(backend, backend_rows)
                names += loaded
                backends += [backend] * len(loaded)
        self._put_rows(names, backends)

    def _put_entries(self, backend: BackendEntry, rows: Sequence[PoolRow]) -> list[str]:
        """Put the entries of a backend's pools; return the names of those with usable figures."""
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

    def _pools_of(self, backend: BackendEntry) -> Collection[str]:
        return backend.pools

    def _with_counters(self, pool: PoolEntry, counters: Counters) -> PoolEntry:
        return pool._replace(counters=counters)

    def _hide_pools(self, names: Sequence[str]) -> None:
        for name in names:
            self._backends[backend_of(name)].remove_pool(name)
            self.table.remove(name)

    def _show_counters(self, names: Sequence[str]) -> None:
        self.reset_counters(names)

    def reset_counters(self, names: Sequence[str]) -> None:
        """Set the counters in rows of the table to those of their entries, without claims that were not booked."""
        if names:
            counters = zip(*(pool_figures.counted(self.entries[name].counters) for name in names), strict=True)
            self.table.set_figures(names, dict(zip(pool_figures.COUNTED, counters, strict=True)))

    def reset(self, names: Iterable[str]) -> None:
        """Make rows of the table again from their entries, without claims that were not booked."""
        names = list(names)
        self._put_rows(names, [self._backends[backend_of(name)] for name in names])

    def _put_rows(self, names: Sequence[str], backends: Sequence[BackendEntry]) -> None:
        """Make rows of the table again; ``backends`` has the backend of each pool."""
        if names:
            columns = pool_figures.columns([self.entries[name] for name in names], backends)
            columns["expired"] = [name in backend.expired for name, backend in zip(names, backends, strict=True)]
            self.table.put_columns(names, columns)

    def discount_silence(self, seconds: float, now: float) -> None:
        """Subtract a time in which this scheduler did not listen from the silence of every backend."""
        for backend in self._backends.values():
            backend.last_seen = min(now, backend.last_seen + seconds)

    def overdue(self, now: float) -> list[BackendEntry]:
        """Return backends that count as up and have been silent for too long."""
        return [
            backend for backend in self._backends.values() if backend.up and now - backend.last_seen > self.down_time
        ]

    def seemingly_overdue(self, now: float) -> list[BackendEntry]:
        """Return backends that are overdue, or whose figures have just expired, unless the ledger has newer reports."""
        return [
            backend
            for backend in self._backends.values()
            if backend.up
            and (
                now - backend.last_seen > self.down_time
                or (now - backend.last_collected > backend.shortest and not backend.expired)
            )
        ]

    def notice(self, name: str) -> str | None:
        """Return the reason that the agent of a backend has given for its silence, None if it has given none."""
        backend = self._backends.get(name)
        return None if backend is None or backend.notice is None else backend.notice.sentence

    def is_draining(self, name: str) -> bool:
        """Return whether the volumes of a backend are moved away."""
        backend = self._backends.get(name)
        return backend is not None and backend.draining

    def silence(self, name: str, now: float) -> float:
        """Return for how many seconds a backend has been silent."""
        backend = self._backends.get(name)
        return 0.0 if backend is None else now - backend.last_seen

    def age(self, pool: str, now: float) -> float:
        """Return the age of a pool's figures in seconds, including time in which no scheduler listened."""
        backend = self._backends.get(backend_of(pool))
        return 0.0 if backend is None else now - backend.collected_at(pool)

    def update_statuses(self, now: float) -> None:
        """Mark silent backends as down and those that report again as up, and find the pools with expired figures."""
        for backend in self.overdue(now):
            self._mark_down(backend, now)
        for backend in self._backends.values():
            self.update_status(backend, now)

    def _mark_down(self, backend: BackendEntry, now: float) -> None:
        backend.up = False
        LOG.warning(
            "Backend %s is down: no report for %.0f s (service_down_time is %g)",
            backend.name,
            now - backend.last_seen,
            self.down_time,
        )
        self.reset(backend.pools)

    def update_status(self, backend: BackendEntry, now: float) -> bool:
        """Mark a backend as up if it has reported again, and find whether it is responsive and which figures expire.

        Return whether that changes anything.
        """
        is_back = not backend.up and now - backend.last_seen <= self.down_time
        if is_back:
            backend.up = True
            LOG.info("Backend %s is up again", backend.name)
        is_other = backend.update_responsive(self.listening_since)
        if is_back or is_other:
            self.reset(backend.pools)
        changed = backend.update_expired(now)
        if expired := changed & backend.expired:
            age = now - min(map(backend.collected_at, expired))
            LOG.warning("Backend %s: figures of %d pool(s) expire after %.0f s", backend.name, len(expired), age)
        self.reset(changed)
        return is_back or is_other or bool(changed)

    def diff_report(self, backend: BackendEntry, message: BackendReport, limit: int) -> ReportDiff:
        """Validate at most ``limit`` new figures of a report, and compare it with the cache, which does not change."""
        return self._differ.diff(backend, message, limit)

    def apply_report(self, diff: ReportDiff, applied: reports.Applied, now: float) -> None:
        """Take over a report that this scheduler has applied to the ledger."""
        backend, message = diff.backend, diff.message
        backend.report_seq, backend.report_covers, backend.last_seen = message.seq, message.covers, now
        # The cache and the ledger have to agree: schedulers that read it there must not take the figures for newer.
        age = diff.report.age
        backend.set_collected(now - age, self.names(diff.report.unusable) if diff.report.unusable else ())
        backend.reported_here = True
        backend.last_word = now
        if backend.notice is not None and backend.notice.code not in backend_notices.ENDED:
            backend.notice = None
        is_other = backend.update_responsive(self.listening_since)
        backend.reported_at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
        changed = []
        for name, stats in diff.stats.items():
            entry = self.entries.get(name)
            pool_id = applied.ids[name] if entry is None else entry.id
            cached_counters = Counters() if entry is None else entry.counters
            counters = applied.counters.get(pool_id, cached_counters)
            generation = applied.generations.get(pool_id, 0 if entry is None else entry.generation)
            ratio = pool_figures.ratio(stats, cached_counters, self.default_ratio)
            same = entry is not None and entry.raw is diff.raw[name]
            if (
                same
                and entry is not None
                and (counters, ratio, generation) == (cached_counters, entry.ratio, entry.generation)
            ):
                continue
            self._names[pool_id] = name
            backend.add_pool(name, stats.capabilities)
            self.entries[name] = PoolEntry(pool_id, generation, stats, diff.raw[name], counters, ratio)
            changed.append(name)
        self.reset(backend.pools if is_other else changed)
        if diff.vanished:
            self.forget_pools(diff.vanished)
        self.update_status(backend, now)
