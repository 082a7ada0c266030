# SPDX-License-Identifier: Apache-2.0
"""The monitor of backends: it marks silent backends as down, and figures as expired that are too old."""

from collections.abc import Callable

from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends
from tonnage.scheduler.reports.cache_refresh import CacheRefresh

#: Seconds between two rounds (else about one) from which on this scheduler counts as not listening meanwhile.
_GAP = 5.0


class BackendMonitor:
    """Watches the silence of backends. Belongs to the decision thread."""

    def __init__(self, database: Database, cache_refresh: CacheRefresh, clock: Callable[[], float]) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._clock = clock
        self._returns = database.returns
        self.last_round = clock()

    def run(self) -> None:
        """Update the statuses of all backends."""
        if self._database.away:
            # No scheduler can record reports.
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
