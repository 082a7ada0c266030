# SPDX-License-Identifier: Apache-2.0
"""Going over to other rules, which all schedulers have to share, while requests keep coming.

The default ratio and the calculation decide what pools may hold, and the ledger compares claims with limits that
follow from them. So schedulers go over together: each that is told to says so in the ledger, holds back its decisions,
and goes on once all that are up say the same, which makes these the rules in the ledger. Before it does, it brings the
limits there in line. One that was not up and still goes by the old rules books nothing by them any more and writes no
limits that follow from them: the ledger does not take them. So it finds out, and follows.

If somebody has not been told in time, the proposal is withdrawn and everything is as it was.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger.claims import pool_counters
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import loudness
from tonnage.ledger.inventory import backends, pool_limits, scheduling_rules
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.reports.cache_refresh import CacheRefresh

LOG = logging.getLogger(__name__)

#: Seconds for which requests wait until all schedulers have been told; less than anybody waits for an answer.
PATIENCE = 10.0

#: Seconds between two looks at what the others say.
_INTERVAL = 0.1

#: Seconds before a database that is away is asked again.
_PAUSE = 1.0

_Result = TypeVar("_Result")


class RulesAgreement:
    """Changes the default ratio and the calculation. Belongs to the decision thread, which it holds up."""

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        membership: Membership,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._hosts = cache_refresh.hosts
        self._membership = membership
        self._clock = clock
        self._patience = patience
        self._stopping = threading.Event()

    def is_alone(self, session: orm.Session) -> bool:
        """Tell whether there is no other scheduler."""
        return self._membership.is_alone(session)

    def stop(self) -> None:
        """Wait for the database no longer; to be called from another thread."""
        self._stopping.set()

    def agree(self, default_ratio: float | str, calculation: Calculation) -> None:
        """Have all schedulers that are up go by these rules; none of them decides anything before it does.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if another one does not; then nothing is changed.
        """
        if self._is_new(default_ratio, calculation):
            self._agree(default_ratio, calculation)

    def apply_rules(self, default_ratio: float | str, calculation: Calculation) -> None:
        """Go by rules that were agreed upon, and bring the ledger in line with them."""
        if self._is_new(default_ratio, calculation):
            self._hosts.apply_rules(default_ratio, calculation, self._membership.generation)
            self._insist(self._restate_all)

    def catch_up(self, decide_by: Callable[[Calculation], None]) -> None:
        """Go by the rules that others have gone over to while this scheduler was away, if they have.

        ``decide_by`` has everything else follow the calculation. Raises :class:`~tonnage.capacity.errors.Unavailable`
        for rules that this scheduler cannot go by.
        """
        missed = self._membership.find_missed_rules()
        if missed is None:
            return
        if missed.calculation is not self._hosts.calculation:
            decide_by(missed.calculation)
        self._membership.adopt_rules(missed)
        self._hosts.apply_rules(missed.default_ratio, missed.calculation, missed.generation)
        self._insist(self._restate_all)

    def restate(self, rows: Sequence[PoolRow]) -> None:
        """Bring pools that the ledger has limits for by other rules in line; ``rows`` have just been loaded.

        They may be from the time before all schedulers were stopped, and started with others.
        """
        self._hosts.apply_default_ratio()
        stale = [limit.pool_id for limit in self._hosts.find_wrong_limits(rows)]
        if not stale:
            return
        try:
            self._hosts.apply_pools(self._database.run(self._restate, stale))
        except scheduling_rules.RulesChanged:
            # Whoever has gone over to others meanwhile restates the limits by these.
            return
        LOG.info("Limits of %d pool(s) are restated by other rules", len(stale))

    def _is_new(self, default_ratio: float | str, calculation: Calculation) -> bool:
        return (default_ratio, calculation) != (self._hosts.default_ratio, self._hosts.calculation)

    def _agree(self, default_ratio: float | str, calculation: Calculation) -> None:
        deadline = self._clock() + self._patience
        while True:
            last = self._clock() >= deadline

            def propose(last: bool = last) -> Sequence[object]:
                return self._membership.propose(default_ratio, calculation, last=last)

            # Whether what could not be answered was written nobody knows, and another may have taken it for agreed.
            differences = self._insist(propose)
            if not differences:
                return
            if last:
                raise errors.ConfigurationError(
                    f"{differences[0]}; it has to be the same for all: signal all schedulers within "
                    f"{self._patience:g} s, or stop the others first"
                )
            time.sleep(_INTERVAL)

    def _restate_all(self) -> None:
        with self._database.reading() as session:
            self._cache_refresh.refresh(session)
            rows = backends.load_pools(session)
        entries = self._hosts.entries
        self._hosts.apply_pools(
            row for row in rows if row.name not in entries or entries[row.name].generation != row.generation
        )
        self.restate(rows)

    def _restate(self, session: orm.Session, pool_ids: Collection[int]) -> list[PoolRow]:
        """Write the limits of pools, in a transaction, and return their rows as they are then."""
        if scheduling_rules.hold(session) != self._hosts.rules_generation:
            raise scheduling_rules.RulesChanged
        pool_counters.lock(session, pool_ids)
        # Their figures may be newer than those that they were judged by.
        rows = backends.load_pools(session, ids=pool_ids)
        self._hosts.apply_pools(rows)
        self._hosts.apply_default_ratio()
        pool_limits.restate(session, self._hosts.find_wrong_limits(rows))
        return backends.load_pools(session, ids=pool_ids)

    def _insist(self, work: Callable[[], _Result]) -> _Result:
        """Do it, and do it again while the database is away: there is no way back and none around.

        Raises :class:`~tonnage.capacity.errors.Unavailable` when the scheduler ends: the next start sees to it.
        """
        while True:
            try:
                return work()
            except errors.Unavailable as error:
                LOG.log(loudness(error), "Going over to other rules waits: %s", error.message)
                if self._stopping.wait(_PAUSE):
                    raise
