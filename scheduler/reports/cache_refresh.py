# SPDX-License-Identifier: Apache-2.0
"""Bringing memory up to the ledger in the middle of a decision, where others have been faster."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from sqlalchemy import orm

from tonnage.capacity.names import backend_of
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.claims import pool_counters
from tonnage.ledger.inventory import backends
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports import pool_figures


class CacheRefresh:
    """Belongs to the decision thread."""

    def __init__(self, hosts: HostManager, clock: Callable[[], float]) -> None:
        self._hosts = hosts
        self._clock = clock

    def catch_up(self, session: orm.Session, requests: Sequence[Request], filters: FilterChain) -> bool:
        """Take over what others have changed of the pools that these requests may go to; tell whether anything has."""
        # Counters before figures: of a backend that has not reported by the second look both are of one moment, those
        # of another are taken over with its figures. The other way round a claim that is in the room which a report
        # has just shown would be held against the room of before.
        before, counted = self._read_counters(session, requests, filters)
        changed = any(before.get(id) != value for id, value in counted.items())
        return self.take_over(session) or changed

    def take_over(self, session: orm.Session) -> bool:
        """Take over reports that others have applied, and what operators have said; tell whether anything was new."""
        changed, now = False, self._clock()
        for row in backends.load_backends(session):
            known = self._hosts.backend(row.name)
            if known is None or (known.epoch, known.seq) != (row.epoch, row.report_seq):
                self._hosts.take_over(row, backends.load_pools(session, backend=row.name), now)
                changed = True
            elif known.enabled != row.enabled:
                # An operator has told another scheduler. Its pools may not have been among those looked at.
                self._hosts.refresh_backend(row)
                self._hosts.load(backends.load_pools(session, backend=row.name))
                changed = True
        return changed

    def _read_counters(
        self, session: orm.Session, requests: Sequence[Request], filters: FilterChain
    ) -> tuple[dict[int, pool_counters.Counters], dict[int, pool_counters.Counters]]:
        """Take over the counters of the pools that requests may go to; return what was known of them, and what is."""
        table = self._hosts.table
        admitted = np.zeros(len(table), dtype=np.bool_)
        for request in requests:
            admitted |= filters.admitted(table, request)
        ids = {self._hosts.entries[table.names[index]].id for index in np.flatnonzero(admitted).tolist()}
        before = {id: self._hosts.entries[name].counters for id in ids for name in self._hosts.names([id])}
        now_there = pool_counters.read(session, ids)
        self._hosts.set_counters(now_there)
        return before, now_there

    def outgrown(self, session: orm.Session, booked: Mapping[int, pool_counters.Counters]) -> bool:
        """Tell whether pools have more room, or may have it, than the decision saw that was just booked.

        That comes by a report or, where a counter is less, by a claim that ended, until the booking had locked them.
        ``booked`` are the counters of all pools that were booked on or share a storage with one, with what was booked.
        The table has to count that tentatively.
        """
        names = self._hosts.names(booked)
        known = {each.id: each for each in map(self._hosts.backend, {backend_of(name) for name in names}) if each}
        for row in backends.load_backends(session, ids=known.keys()):
            if (row.epoch, row.report_seq) != (known[row.id].epoch, known[row.id].seq):
                return True
        pools = [pool for pool in map(self._hosts.table.get, names) if pool]
        return any(
            getattr(booked[self._hosts.entries[pool.name].id], counter) < seen
            for pool in pools
            for counter, seen in pool_figures.counters_of(pool).items()
        )

    def look_again(self, session: orm.Session, contested: Collection[int]) -> set[int]:
        """Lock pools that others were faster on and read them, so that what is decided now also fits when booked.

        Returns the pools that are locked.
        """
        locked = pool_counters.lock(session, contested)
        ids = sorted(locked.backends)
        for backend in backends.load_backends(session, ids=set(locked.backends.values())):
            self._hosts.refresh_backend(backend)
        rows = backends.load_pools(session, ids=ids)
        self._hosts.forget_pools(self._hosts.names((set(contested) | set(ids)) - {row.id for row in rows}))
        self._hosts.load(rows)
        return set(ids)
