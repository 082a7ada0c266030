# SPDX-License-Identifier: Apache-2.0
"""What agents tell: hello, listings, reports and how operations ended. Belongs to the decision thread."""

import logging
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeVar

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools import short_name
from tonnage.ledger import backends
from tonnage.ledger import bookings
from tonnage.ledger import endings
from tonnage.ledger import reports
from tonnage.ledger.database import Database
from tonnage.ledger.database import storable_text
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import ListedVolume
from tonnage.rpc.messages import Listing
from tonnage.rpc.messages import Outcome
from tonnage.rpc.messages import Receipt
from tonnage.rpc.messages import Welcome
from tonnage.scheduler.dispatcher import Dispatcher
from tonnage.scheduler.host_manager import Backend
from tonnage.scheduler.host_manager import HostManager

LOG = logging.getLogger(__name__)

#: Most characters of an agent's message that are kept.
_MESSAGE = 4000

Message = TypeVar("Message")
Result = TypeVar("Result")


class Intake:
    """Applies what agents tell to the ledger and then to the host manager.

    ``place_again`` is called with volumes that their pool could not make.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        dispatcher: Dispatcher,
        agents: AgentClient,
        max_attempts: int,
        clock: Callable[[], float],
        place_again: Callable[[str], None],
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._agents = agents
        self._max_attempts = max_attempts
        self._clock = clock
        self._place_again = place_again

    def hellos(self, messages: Sequence[Hello]) -> list[Welcome | Exception]:
        """Give each agent process its epoch."""
        return [self._hello(message) for message in messages]

    def listings(self, messages: Sequence[Listing]) -> list[Receipt | Exception]:
        """Settle pending claims by what is on the storage; what is not there is ordered again."""
        return [_caught(self._listing, message) for message in messages]

    def reports(self, messages: Sequence[BackendReport]) -> list[Exception | None]:
        """Apply reports. One that is late, repeated or of a past epoch changes nothing."""
        return [_caught(self._report, message) for message in messages]

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt | Exception]:
        """Apply how operations ended, all that came together in one transaction."""
        receipts: list[Receipt | Exception] = []
        current = []
        for message in messages:
            try:
                accepted = self._current(message.backend, message.epoch) is not None
                receipts.append(Receipt(accepted=accepted))
            except errors.Unavailable as error:
                receipts.append(error)
            else:
                current += [_ending(message)] if accepted else []
        self._end(current)
        return receipts

    def _hello(self, message: Hello) -> Welcome | Exception:
        for name, most in (("backend", 255), ("availability_zone", 255), ("driver", 255), ("nonce", 64)):
            value: str = getattr(message, name)
            if len(value) > most or not value.isprintable():
                return errors.InvalidInput(f"{name} is {value[:40]!r}: it takes at most {most} printable characters")
        try:
            row = self._database.run(_say_hello, message)
        except db_exc.DBDuplicateEntry:  # its first hello reached two schedulers at once
            row = self._database.run(_say_hello, message)
        backend = self._hosts.put_backend(row, self._clock())
        with self._database.reading() as session:
            pools = backends.load_pools(session, backend=message.backend)
        self._hosts.put_pools(backend, pools)
        LOG.info("Backend %s (driver %s) said hello, epoch %d", backend.name, message.driver, backend.epoch)
        return Welcome(epoch=backend.epoch)

    def _listing(self, message: Listing) -> Receipt:
        backend = self._current(message.backend, message.epoch)
        if backend is None:
            return Receipt(accepted=False)
        with self._database.reading() as session:
            pending = backends.load_pending(session, backend_id=backend.id)
        held = {(volume.pool, volume.volume_id): volume for volume in message.volumes}
        settled: list[endings.Ending] = []
        for claim in pending:
            if claim.id in message.in_hand:
                continue
            # Only in its own pool: one that could not make the volume may have left something behind in another.
            found = held.get((short_name(claim.pool_name), claim.volume_id))
            if _is_done(claim, found):
                size = 0.0 if found is None else found.size_gb
                settled.append(
                    endings.Ending(claim_id=claim.id, ok=True, epoch=message.epoch, tick=message.tick, size_gb=size)
                )
            else:
                self._dispatcher.send(claim)
        self._end(settled)
        LOG.info(
            "Backend %s holds %d volume(s); of %d pending claim(s) %d were done",
            backend.name,
            len(held),
            len(pending),
            len(settled),
        )
        return Receipt(accepted=True)

    def _report(self, message: BackendReport) -> None:
        backend = self._current(message.backend, message.epoch)
        if backend is None:
            LOG.debug("Report %d of %s is of past epoch %d", message.seq, message.backend, message.epoch)
            return
        if message.seq <= backend.seq or message.covers < backend.covers:
            LOG.debug("Report %d of %s came late", message.seq, message.backend)
            return
        self._end([_ending(outcome) for outcome in message.ended if outcome.epoch == message.epoch])
        examined = self._hosts.examine(backend, message)
        try:
            applied = self._database.run(
                reports.apply,
                backend.id,
                message.epoch,
                message.seq,
                message.covers,
                examined.figures,
                examined.unheard,
                list(examined.vanished.values()),
            )
        except db_exc.DBDuplicateEntry:
            LOG.debug("Report %d of %s was applied by another scheduler", message.seq, message.backend)
            applied = None
        if applied is None:
            self._reload(backend)
            return
        self._hosts.absorb(backend, message, examined, applied, self._clock())
        self._hosts.watch(self._clock())
        self._dispatcher.renew(message.in_hand)

    def _end(self, ended: Sequence[endings.Ending]) -> None:
        if not ended:
            return
        result = self._database.run(endings.end, ended, self._max_attempts)
        self._hosts.set_counters(result.counters)
        self._dispatcher.done(ending.claim_id for ending in ended)
        for ending in ended:
            if not ending.ok and ending.claim_id in result.ended:
                LOG.warning("Claim %s failed: %s", ending.claim_id, ending.message)
        for volume_id in result.unplaced:
            self._place_again(volume_id)

    def _current(self, name: str, epoch: int) -> Backend | None:
        """Return the backend if that epoch is its current one, None if it is over.

        An epoch that this scheduler has not heard of was given by another one, or by a ledger that is no more; then the
        agent is asked to say hello, and :class:`~tonnage.capacity.errors.Unavailable` raised.
        """
        backend = self._hosts.backend(name)
        if backend is None or backend.epoch < epoch:
            with self._database.reading() as session:
                row = backends.find(session, name)
                pools = backends.load_pools(session, backend=name)
            if row is None or row.epoch < epoch:
                self._agents.rejoin(name)
                raise errors.Unavailable(
                    f"the ledger does not know epoch {epoch} of backend {name}; it has to say hello"
                )
            backend = self._hosts.put_backend(row, self._clock())
            self._hosts.put_pools(backend, pools)
        return backend if backend.epoch == epoch else None

    def _reload(self, backend: Backend) -> None:
        with self._database.reading() as session:
            row = backends.find(session, backend.name)
            pools = backends.load_pools(session, backend=backend.name)
        if row is None:
            return
        self._hosts.put_backend(row, self._clock())
        self._hosts.put_pools(backend, pools)
        # Another scheduler has heard it, which is as good.
        backend.seq, backend.covers = row.report_seq, row.report_covers
        backend.heard = max(backend.heard, self._clock() - (row.silence or 0.0))


def _caught(work: Callable[[Message], Result], message: Message) -> Result | Exception:
    """Return what the work returns or, so that others go on, the error that its sender shall have."""
    try:
        return work(message)
    except errors.TonnageError as error:
        LOG.warning("%s", error.message)
        return error
    except Exception as error:
        LOG.exception("A message could not be taken in")
        return error


def _ending(outcome: Outcome) -> endings.Ending:
    return endings.Ending(
        claim_id=outcome.claim_id,
        ok=outcome.ok,
        epoch=outcome.epoch,
        tick=outcome.end_tick,
        # Whatever a driver says must not keep a claim from ending.
        size_gb=outcome.size_gb if math.isfinite(outcome.size_gb) else 0.0,
        clean=outcome.clean,
        message=storable_text(outcome.message)[:_MESSAGE],
    )


def _say_hello(session: orm.Session, message: Hello) -> backends.BackendRow:
    return backends.hello(session, message.backend, message.nonce, message.availability_zone, message.driver)


def _is_done(claim: backends.PendingClaim, found: ListedVolume | None) -> bool:
    """Tell whether what a claim ordered is what the storage shows."""
    if claim.verb == bookings.DELETE:
        return found is None
    return found is not None and found.size_gb >= claim.target_size_gb
