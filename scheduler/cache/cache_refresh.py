# SPDX-License-Identifier: Apache-2.0
"""The refresh of the cache from the ledger, where other schedulers, operators or agents have changed that."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from sqlalchemy import orm

from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends
from tonnage.ledger.inventory.backends import BackendRow, Introduction, PoolMark, PoolRow
from tonnage.ledger.inventory.pool_limits import LimitRow
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cache.ledger_cache import LedgerCache

#: The number of backends whose pools are read together: a starting scheduler reads all pools of the ledger.
_TOGETHER = 10

_OfPool = TypeVar("_OfPool", PoolMark, PoolRow)


_Cache = TypeVar("_Cache", bound=LedgerCache[Any, Any])


class LedgerRefresh(Generic[_Cache]):
    """Reads rows of the ledger and applies them to a cache. One thread at a time may use it.

    The rows are read in one order: counters, if a caller needs them, rows of backends, marks of pools, rows of pools
    whose figures the cache does not have. Each read sees at least what those before it saw, so a pool's figures and
    counters are of one moment, and figures may be newer than the report that the cache has for their backend, but not
    older. A later report is compared with the cache only if the ledger's last report is the cached one, see
    :func:`tonnage.ledger.inventory.reports.apply`; so the order is enough, and no snapshot is needed.
    """

    def __init__(self, hosts: _Cache, clock: Callable[[], float]) -> None:
        self.hosts = hosts
        self._clock = clock

    def load(self, database: Database, absence: float = 0.0) -> list[LimitRow]:
        """Load all backends and pools; return the limits in the rows of the pools that were read.

        ``absence`` is the number of seconds in which no scheduler listened to agents before this one started. The
        database ends a transaction that is idle for long, so no transaction is open while pools are applied.
        """
        with database.reading() as session:
            rows = backends.load_backends(session)
        self.hosts.forget_missing(rows)
        now = self._clock()
        limits: list[LimitRow] = []
        _, outdated = self._outdated(rows, now)
        for together in outdated:
            with database.reading() as session:
                marks, pools = self._read(session, together)
            self._apply(together, marks, pools, now, absence)
            limits += [LimitRow(pool.id, pool.name, pool.ratio, pool.thin_limit_gb) for pool in pools]
        return limits

    def refresh(self, session: orm.Session, rows: Sequence[BackendRow] | None = None) -> bool:
        """Bring backends and their pools up to the ledger; return whether anything that decisions read has changed.

        ``rows`` are rows of backends that have just been read. Without them all backends are read, and the cache
        forgets removed backends.
        """
        forgotten = False
        if rows is None:
            rows = backends.load_backends(session)
            forgotten = self.hosts.forget_missing(rows)
        now = self._clock()
        changed, outdated = self._outdated(rows, now)
        for together in outdated:
            self._apply(together, *self._read(session, together), now)
        return forgotten or changed or bool(outdated)

    def _outdated(self, rows: Sequence[BackendRow], now: float) -> tuple[bool, Sequence[Sequence[BackendRow]]]:
        """Take over the silence of backends that are not outdated, and return whether any status has changed.

        The second result has the other backends, in groups that are read together.
        """
        outdated = {row.id: row for row in rows if self.hosts.is_outdated(row)}
        changed = False
        for row in rows:
            if row.id not in outdated:
                changed |= self.hosts.apply_silence(row, now)
        remaining = iter(outdated.values())
        return changed, list(iter(lambda: list(itertools.islice(remaining, _TOGETHER)), []))

    def _read(self, session: orm.Session, rows: Sequence[BackendRow]) -> tuple[list[PoolMark], list[PoolRow]]:
        """Return the marks of pools of outdated backends, and the rows of those whose figures the cache lacks."""
        new = [row.id for row in rows if self.hosts.backend(row.name) is None]
        cached = {row.id: row for row in rows if self.hosts.backend(row.name) is not None}
        marks = backends.load_pool_marks(session, cached)
        missing = [mark.id for mark in marks if not self.hosts.has_figures(mark, cached[mark.backend_id])]
        pools = backends.load_pools(session, ids=missing)
        # The cache has none of their pools, so their marks would tell nothing.
        pools += backends.load_pools(session, backend_ids=new)
        return marks, pools

    def _apply(
        self,
        rows: Sequence[BackendRow],
        marks: Sequence[PoolMark],
        pools: Sequence[PoolRow],
        now: float,
        absence: float = 0.0,
    ) -> None:
        """Bring outdated backends and their pools up to the ledger."""
        marks_of, pools_of = _by_backend(marks), _by_backend(pools)
        for row in rows:
            self.hosts.apply_rows(row, marks_of.get(row.id, []), pools_of.get(row.id, []), now, absence)

    def introduce(self, session: orm.Session, introduction: Introduction) -> None:
        """Take over a hello. The pools are read only if they may have changed, in the hello or before it."""
        before = introduction.before
        may_have_changed = before is None or introduction.pools_changed or self.hosts.is_outdated(before)
        # An operator may have removed pools, which changes nothing of the backend.
        if may_have_changed or introduction.pools != self.hosts.number_of_pools(introduction.row.name):
            self.refresh(session, [introduction.row])
        else:
            self.hosts.apply_hello(introduction.row, self._clock())

    def refresh_counters(self, session: orm.Session, pool_ids: Collection[int]) -> bool:
        """Take over the counters of pools; return whether any has changed."""
        before = self.hosts.counters(pool_ids)
        current = pool_counters.read(session, pool_ids)
        self.hosts.set_counters(current)
        return any(before.get(id) != value for id, value in current.items())


class CacheRefresh(LedgerRefresh[HostManager]):
    """Refreshes the scheduler's own cache, also for single decisions. Belongs to the decision thread."""

    def refresh_candidates(self, session: orm.Session, requests: Sequence[Request], filters: FilterChain) -> bool:
        """Refresh all that may decide whether these requests are refused; return whether anything has changed."""
        # Counters before figures: the counters of a backend that has not reported by the second read are of the moment
        # of its figures, those of another are read again with its figures. In the other order a claim in the headroom
        # that a report has just brought would be compared with the headroom before.
        table = self.hosts.table
        eligible = np.zeros(len(table), dtype=np.bool_)
        for request in requests:
            eligible |= filters.eligible(table, request)
        ids = {self.hosts.entries[table.names[index]].id for index in np.flatnonzero(eligible).tolist()}
        changed = self.refresh_counters(session, ids)
        return self.refresh(session) or changed

    def lock_and_refresh(self, session: orm.Session, pool_ids: Collection[int]) -> set[int]:
        """Lock pools and refresh them, so that the next decision can be booked; return the locked ids.

        Unlike :meth:`refresh`, this reads only the locked pools, with all their figures, whether or not their backends
        have reported since. The cache keeps the figures of the cached report for the other pools of these backends.
        """
        locked = pool_locks.lock(session, pool_ids)
        ids = sorted(locked.backends)
        for row in backends.load_backends(session, ids=set(locked.backends.values())):
            self.hosts.apply_backend_state(row)
        pools = backends.load_pools(session, ids=ids)
        self.hosts.forget_pools(self.hosts.names((set(pool_ids) | set(ids)) - {pool.id for pool in pools}))
        self.hosts.apply_pools(pools)
        return set(ids)

    def has_outgrown(self, session: orm.Session, booked: Mapping[int, pool_counters.Counters]) -> bool:
        """Return whether booked pools have, or may have, more headroom than the decision saw.

        Before the booking locked them a report may have been applied, or a claim may have ended and lowered a counter.
        ``booked`` maps all booked pools, and the pools that share a storage with one, to their counters after the
        booking. The table has to contain the placements.
        """
        names = self.hosts.names(booked)
        entries = {entry.id: entry for entry in map(self.hosts.backend, {backend_of(name) for name in names}) if entry}
        for row in backends.load_backends(session, ids=entries.keys()):
            if (row.epoch, row.report_seq) != (entries[row.id].epoch, entries[row.id].report_seq):
                return True
        pools = [pool for pool in map(self.hosts.table.get, names) if pool]
        return any(
            getattr(booked[self.hosts.entries[pool.name].id], counter) < value
            for pool in pools
            for counter, value in pool_figures.counters_of(pool).items()
        )


def _by_backend(rows: Iterable[_OfPool]) -> dict[int, list[_OfPool]]:
    rows_by_backend: dict[int, list[_OfPool]] = {}
    for row in rows:
        rows_by_backend.setdefault(row.backend_id, []).append(row)
    return rows_by_backend
