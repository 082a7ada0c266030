# SPDX-License-Identifier: Apache-2.0
"""The handler of outcomes: the end of claims and the work that follows. Belongs to the decision thread."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tonnage.capacity import errors
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.claims.settlement import EndedOperation, Result
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import pending_claims
from tonnage.metrics import instruments
from tonnage.rpc.messages import Outcome, Receipt
from tonnage.scheduler.agents.registration import Registration
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.requests.placement_requests import Move, Retry

LOG = logging.getLogger(__name__)

#: Number of ended claims that are remembered.
_REMEMBERED = 10_000

#: Most characters of an agent's message that are kept.
_MESSAGE = 4000


class PlacementQueue(Protocol):
    """Placements that no client waits for."""

    def place_later(self, work: Retry | Move) -> None:
        """Queue a placement behind the work that waits already."""


class OutcomeHandler:
    """Ends claims in the ledger, and then in the host manager and the dispatcher.

    ``registration`` knows the current epochs. Volumes that could not be made in their pool go to ``placement_queue``;
    each request gets ``max_attempts`` pools.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        registration: Registration,
        dispatcher: Dispatcher,
        placement_queue: PlacementQueue,
        max_attempts: int,
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._registration = registration
        self._dispatcher = dispatcher
        self._placement_queue = placement_queue
        self._max_attempts = max_attempts
        # Ended claims, so that a repeated outcome costs nothing.
        self._ended: dict[str, None] = {}

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt | Exception]:
        """Apply outcomes, all of them in one transaction. Those of a past epoch are not accepted."""
        receipts: list[Receipt | Exception] = []
        current = []
        for message in messages:
            backend = self._hosts.backend(message.backend)
            accepted = backend is not None and backend.epoch == message.epoch
            try:
                accepted = accepted or self._registration.current(message.backend, message.epoch) is not None
            except errors.Unavailable as error:
                receipts.append(error)
                continue
            receipts.append(Receipt(accepted=accepted))
            current += [message] if accepted else []
        failed = self.end(current)
        return [failed.get(message.claim_id, receipt) for message, receipt in zip(messages, receipts, strict=True)]

    def end(self, outcomes: Iterable[Outcome]) -> dict[str, Exception]:
        """Apply outcomes and return the errors of those that could not be applied, by claim; all others are applied.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger is away.
        """
        # A known outcome comes after an unknown one.
        in_order = sorted(outcomes, key=lambda outcome: not outcome.unknown)
        fresh = {outcome.claim_id: _ending(outcome) for outcome in in_order if outcome.claim_id not in self._ended}
        if not fresh:
            return {}
        try:
            result = self._database.run(operation_outcomes.apply, list(fresh.values()), self._max_attempts)
        except errors.Unavailable:
            raise
        except Exception as error:
            if len(fresh) == 1:
                LOG.exception("The outcome of claim %s could not be taken in", *fresh)
                return dict.fromkeys(fresh, error)
            middle = len(in_order) // 2
            return self.end(in_order[:middle]) | self.end(in_order[middle:])
        ended = {id: ending for id, ending in fresh.items() if id not in result.past and not ending.unknown}
        self._settle(result, ended)
        return {}

    def abandon(self, claim_ids: Sequence[str]) -> None:
        """Let requests continue in other pools although their agents, which stay away, have not answered."""
        result = self._database.run(operation_outcomes.abandon, claim_ids, self._max_attempts)
        self._dispatcher.done(claim_ids)
        self._settle(result, {})

    def _settle(self, result: Result, ended: Mapping[str, EndedOperation]) -> None:
        """After the commit: take over the counters, send the commands that follow, and place volumes again."""
        self._hosts.set_counters(result.counters)
        self._dispatcher.done(ended)
        self._ended.update(dict.fromkeys(ended))
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
        for claim_id in result.ended:
            instruments.OUTCOMES.labels("succeeded" if ended[claim_id].ok else "failed").inc()
            if not ended[claim_id].ok:
                # The log of the agent has the reason, and so has the volume.
                LOG.info("Claim %s failed", claim_id)
        for volume_id in result.unplaced:
            self._placement_queue.place_later(Retry(volume_id))
        if result.ordered:
            with self._database.reading() as session:
                orders = pending_claims.load(session, ids=list(result.ordered))
            for order in orders:
                self._dispatcher.send(order)


def _ending(outcome: Outcome) -> EndedOperation:
    return EndedOperation(
        claim_id=outcome.claim_id,
        ok=outcome.ok,
        epoch=outcome.epoch,
        tick=outcome.end_tick,
        # A wrong figure of a driver must not keep a claim from ending.
        size_gb=outcome.size_gb if math.isfinite(outcome.size_gb) else 0.0,
        clean=outcome.clean,
        message=outcome.message[:_MESSAGE],
        unknown=outcome.unknown,
    )
