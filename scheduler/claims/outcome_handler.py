# SPDX-License-Identifier: Apache-2.0
"""The end of claims: what the ledger makes of it, and what has to be seen to then. Belongs to the decision thread."""

import logging
from collections.abc import Callable, Mapping, Sequence

from tonnage.capacity import errors
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.claims.settlement import Ending, Result
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.host_manager import HostManager

LOG = logging.getLogger(__name__)

#: How many claims are remembered to have ended.
_REMEMBERED = 10_000


class OutcomeHandler:
    """Ends claims in the ledger, and then in the host manager and the dispatcher.

    ``place_again`` is called with volumes that their pool could not make; a request is given ``max_attempts`` pools.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        dispatcher: Dispatcher,
        max_attempts: int,
        place_again: Callable[[str], None],
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._max_attempts = max_attempts
        self._place_again = place_again
        # Claims that are known to have ended, so that outcomes that come again cost nothing.
        self._ended: dict[str, None] = {}

    def end(self, ended: Sequence[Ending]) -> dict[str, Exception]:
        """Apply endings and return the errors, by claim, of those that could not be: they keep no others from it.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger is away.
        """
        fresh = {ending.claim_id: ending for ending in ended if ending.claim_id not in self._ended}
        if not fresh:
            return {}
        try:
            result = self._database.run(operation_outcomes.end, list(fresh.values()), self._max_attempts)
        except errors.Unavailable:
            raise
        except Exception as error:
            if len(fresh) == 1:
                LOG.exception("The outcome of claim %s could not be taken in", *fresh)
                return dict.fromkeys(fresh, error)
            halves = list(fresh.values())
            middle = len(halves) // 2
            return self.end(halves[:middle]) | self.end(halves[middle:])
        self._settle(result, {id: ending for id, ending in fresh.items() if id not in result.past})
        return {}

    def abandon(self, claim_ids: Sequence[str]) -> None:
        """Let requests move on whose agents stay away."""
        result = self._database.run(operation_outcomes.abandon, claim_ids, self._max_attempts)
        self._dispatcher.done(claim_ids)
        self._settle(result, {})

    def _settle(self, result: Result, ended: Mapping[str, Ending]) -> None:
        """After the commit: take over the counters, and see to what comes next."""
        self._hosts.set_counters(result.counters)
        self._dispatcher.done(ended)
        self._ended.update(dict.fromkeys(ended))
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        for claim_id in result.ended:
            if not ended[claim_id].ok:
                LOG.warning("Claim %s failed: %s", claim_id, ended[claim_id].message)
        for volume_id in result.unplaced:
            self._place_again(volume_id)
        if result.ordered:
            with self._database.reading() as session:
                orders = backends.load_pending(session, ids=list(result.ordered))
            for order in orders:
                self._dispatcher.send(order)
