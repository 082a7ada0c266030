# SPDX-License-Identifier: Apache-2.0
"""The tasks that a scheduler runs about once a second, in its decision thread."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.catalog import refusals, user_messages
from tonnage.ledger.claims import group_backends, request_keys
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import heartbeats
from tonnage.scheduler.cache.cache_refresh import CacheRefresh

LOG = logging.getLogger(__name__)

#: Seconds between two purges.
_PURGE = 300.0

#: Seconds between two rounds (else about one) from which on this scheduler counts as not listening meanwhile.
_GAP = 5.0


#: Deletes at most :data:`~tonnage.ledger.db.dialects.CHUNK_SIZE` rows in a transaction, so that decisions do not wait
#: for it, and returns their number.
PurgeFunction: TypeAlias = Callable[[orm.Session], int]


class PeriodicTask(Protocol):
    """Work of each round; a task that has nothing to do in a round returns at once."""

    def run(self) -> None:
        """Do the work. Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger is away."""


class PeriodicTasks:
    """Runs tasks in their order.

    ``failure`` is the reason for which the scheduler has to end; None while there is none.
    """

    def __init__(self, tasks: Sequence[PeriodicTask]) -> None:
        self.tasks = tasks
        self.failure: str | None = None

    def run(self) -> None:
        """Run all tasks. If the ledger is away, the rest of the round is left to the next one."""
        try:
            for task in self.tasks:
                task.run()
        except errors.LedgerMoved as error:
            self.failure = error.message
        except errors.Unavailable as error:
            LOG.log(log_level(error), "Housekeeping goes on later: %s", error.message)


class BackendMonitor:
    """Marks silent backends as down, and figures as expired that are too old."""

    def __init__(self, database: Database, cache_refresh: CacheRefresh, clock: Callable[[], float]) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._clock = clock
        self._returns = database.returns
        self.last_round = clock()

    def run(self) -> None:
        """Update the statuses of all backends."""
        if self._database.away:
            # No scheduler can record reports. Requests are declined, so this is the attempt to reach it.
            with self._database.reading():
                pass
        if self._database.refusal is not None and not self._is_writable():
            return
        now, hosts = self._clock(), self._cache_refresh.hosts
        gap, self.last_round = now - self.last_round, now
        came_back, self._returns = self._returns != self._database.returns, self._database.returns
        if gap >= _GAP or came_back:
            # This scheduler was suspended, or the database was away and with it the record of the reports. The reports
            # of the agents are still in the queue, behind requests, or are lost.
            hosts.discount_silence(gap, now)
        # The bus may lag here alone.
        overdue = {backend.id for backend in hosts.seemingly_overdue(now)}
        if overdue:
            with self._database.reading() as session:
                self._cache_refresh.refresh(session, backends.load_backends(session, ids=overdue))
        hosts.update_statuses(now)

    def _is_writable(self) -> bool:
        """Return whether the ledger can be written again; until then no scheduler can record reports."""
        try:
            self._database.require_writable()
        except errors.DatabaseUnreachable:
            return False
        return True


class Purge:
    """Deletes rows that have had their time, every five minutes; of many rows, a part in each round.

    Also empties the log of SQLite then. ``purges`` are those of extensions.
    """

    def __init__(self, database: Database, clock: Callable[[], float], purges: Sequence[PurgeFunction] = ()) -> None:
        self._database = database
        self._clock = clock
        self._purges = (*_PURGES, *purges)
        self._due = 0.0
        # The purges of this period that still have rows to delete.
        self._remaining: list[PurgeFunction] = []

    def run(self) -> None:
        """Start the purges if a period has passed, and delete a part of the rows of each that is left."""
        now = self._clock()
        if now >= self._due:
            self._due = now + _PURGE
            self._remaining = list(self._purges)
            self._database.empty_log()
        self._remaining = [purge for purge in self._remaining if self._database.run(purge) >= dialects.CHUNK_SIZE]


_PURGES: tuple[PurgeFunction, ...] = (
    request_keys.purge,
    group_backends.purge,
    user_messages.purge,
    refusals.purge,
    backends.purge_pools,
    heartbeats.purge,
)
