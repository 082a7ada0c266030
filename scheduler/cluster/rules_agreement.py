# SPDX-License-Identifier: Apache-2.0
"""The agreement of all schedulers on the default ratio and the calculation, while requests keep coming.

Both decide how much pools may hold, and the ledger compares claims with limits that follow from them. So all schedulers
change them together: each that is told to proposes them in the ledger and suspends its decisions until all schedulers
that are up have proposed the same, which makes these the rules in the ledger. Then it writes the limits that follow
from them. A scheduler that was not up and still applies the old rules can neither book claims nor write limits: the
ledger compares the generation of the rules. By that it finds out, and adopts the rules of the others.

If a scheduler is not told in time, the proposal is withdrawn and nothing has changed.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends, pool_limits
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.ledger.inventory.pool_limits import StoredLimit
from tonnage.ledger.locks import pool_locks, scheduling_rules
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cluster.membership import Membership

LOG = logging.getLogger(__name__)

#: Seconds for which requests wait until all schedulers have been told; clients wait longer for an answer.
TIMEOUT = 10.0

#: Seconds between two reads of the proposals of the others.
_INTERVAL = 0.1

_Result = TypeVar("_Result")


class RulesAgreement:
    """Changes the default ratio and the calculation. Belongs to the decision thread, which waits meanwhile.

    Requests wait for ``timeout`` seconds until all schedulers have been told. A database that is away is asked again
    after ``pause`` seconds.
    """

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        membership: Membership,
        clock: Callable[[], float] = time.monotonic,
        timeout: float = TIMEOUT,
        pause: float = 1.0,
    ) -> None:
        self.database = database
        self.cache_refresh = cache_refresh
        self.membership = membership
        self._hosts = cache_refresh.hosts
        self._clock = clock
        self._timeout, self._pause = timeout, pause
        self._stopping = threading.Event()

    def is_alone(self, session: orm.Session) -> bool:
        """Return whether there is no other scheduler."""
        return self.membership.is_alone(session)

    def stop(self) -> None:
        """Stop waiting for the database. Another thread calls this."""
        self._stopping.set()

    def agree(self, default_ratio: float | str, calculation: Calculation) -> None:
        """Wait until all schedulers that are up have proposed these rules; none of them decides before that.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if one does not; then nothing has changed.
        """
        if self._is_new(default_ratio, calculation):
            self._agree(default_ratio, calculation)

    def apply_rules(self, default_ratio: float | str, calculation: Calculation) -> None:
        """Apply rules that were agreed upon, and write the limits that follow from them."""
        if self._is_new(default_ratio, calculation):
            self._hosts.apply_rules(default_ratio, calculation, self.membership.generation)
            self._insist(self._restate_all)

    def catch_up(self, apply_calculation: Callable[[Calculation], None]) -> None:
        """Apply the rules that the others have adopted while this scheduler was away, if they have.

        ``apply_calculation`` has the plug-ins decide by another calculation. Raises
        :class:`~tonnage.capacity.errors.Unavailable` for rules that this scheduler does not know.
        """
        missed = self.membership.find_missed_rules()
        if missed is None:
            return
        if missed.calculation is not self._hosts.calculation:
            apply_calculation(missed.calculation)
        self.membership.adopt_rules(missed)
        self._hosts.apply_rules(missed.default_ratio, missed.calculation, missed.generation)
        self._insist(self._restate_all)

    def restate(self, rows: Sequence[StoredLimit]) -> None:
        """Write the limits of pools whose limits follow from other rules; ``rows`` have just been read.

        All schedulers may have been stopped, and started with other rules.
        """
        self._hosts.apply_default_ratio()
        stale = [limit.pool_id for limit in self._hosts.find_wrong_limits(rows)]
        if not stale:
            return
        try:
            self._hosts.apply_pools(self.database.run(self._restate, stale))
        except scheduling_rules.RulesChanged:
            # The schedulers that have adopted other rules meanwhile write the limits that follow from those.
            return
        LOG.info("Limits of %d pool(s) are restated by other rules", len(stale))

    def _is_new(self, default_ratio: float | str, calculation: Calculation) -> bool:
        return (default_ratio, calculation) != (self._hosts.default_ratio, self._hosts.calculation)

    def _agree(self, default_ratio: float | str, calculation: Calculation) -> None:
        deadline = self._clock() + self._timeout
        while True:
            last = self._clock() >= deadline

            def propose(last: bool = last) -> Sequence[object]:
                return self.membership.propose(default_ratio, calculation, last=last)

            # A transaction without an answer may have been committed, and another scheduler may count it as agreement.
            differences = self._insist(propose)
            if not differences:
                return
            if last:
                raise errors.ConfigurationError(
                    f"{differences[0]}; it has to be the same for all: signal all schedulers within "
                    f"{self._timeout:g} s, or stop the others first"
                )
            time.sleep(_INTERVAL)

    def _restate_all(self) -> None:
        with self.database.reading() as session:
            self.cache_refresh.refresh(session)
            rows = backends.load_pools(session)
        entries = self._hosts.entries
        self._hosts.apply_pools(
            row for row in rows if row.name not in entries or entries[row.name].generation != row.generation
        )
        self.restate(rows)

    def _restate(self, session: orm.Session, pool_ids: Collection[int]) -> list[PoolRow]:
        """Write the limits of pools, in a transaction, and return their rows after that."""
        if scheduling_rules.lock_shared(session) != self._hosts.rules_generation:
            raise scheduling_rules.RulesChanged
        pool_locks.lock(session, pool_ids)
        # Their figures may be newer than those in the cache.
        rows = backends.load_pools(session, ids=pool_ids)
        self._hosts.apply_pools(rows)
        self._hosts.apply_default_ratio()
        pool_limits.update_limits(session, self._hosts.find_wrong_limits(rows))
        return backends.load_pools(session, ids=pool_ids)

    def _insist(self, work: Callable[[], _Result]) -> _Result:
        """Do the work, and repeat it while the database is away: it can be neither undone nor left out.

        Raises :class:`~tonnage.capacity.errors.Unavailable` when the scheduler ends: the next start does the work. Also
        raised is :class:`~tonnage.capacity.errors.LedgerMoved`.
        """
        while True:
            try:
                return work()
            except errors.LedgerMoved:
                raise
            except errors.Unavailable as error:
                LOG.log(log_level(error), "Going over to other rules waits: %s", error.message)
                if self._stopping.wait(self._pause):
                    raise
