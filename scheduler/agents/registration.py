# SPDX-License-Identifier: Apache-2.0
"""The registration of agent processes: hello, epoch, and the listing that follows. Belongs to the decision thread."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import is_backend_name
from tonnage.ledger.db import database
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends, listings, pending_claims, reports, stored_volumes
from tonnage.ledger.locks import backend_notices, ledger_identity
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import AgentProcess, Hello, Listing, Receipt, Welcome
from tonnage.scheduler.cache.backend_state import BackendEntry
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.observers.audit_thread import AuditThread

LOG = logging.getLogger(__name__)

#: Most characters of the fields of a hello.
_HELLO_LENGTHS = {"backend": 255, "availability_zone": 255, "driver": 255, "nonce": 64}

Message = TypeVar("Message")
Result = TypeVar("Result")


#: Most pools that a refusal names.
_MOST_POOLS = 5

#: Seconds without a hello after which the other process has gone.
_END = 300.0


@dataclass(slots=True)
class _Contest:
    """Another process than the one with the nonce ``holder`` wants to run a backend.

    ``since`` is the monotonic time from which on no report of the holder has come.
    """

    holder: str
    since: float
    logged: bool = False


class UnknownEpoch(errors.Unavailable):
    """A message is of an epoch that the ledger does not know."""


class Registration:
    """Gives agent processes their epochs, records their listings, and tells which epochs are current.

    ``audit`` compares listings with the reports of the drivers. Another process that introduces itself as a backend is
    accepted once the agent in charge, asked for a report, has sent none for ``silence`` seconds plus twice the duration
    of its last report.
    """

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        dispatcher: Dispatcher,
        agents: AgentMessages,
        audit: AuditThread | None = None,
        silence: float = 5.0,
    ) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._hosts = cache_refresh.hosts
        self._dispatcher = dispatcher
        self._audit = audit
        self._agents = agents
        self._silence = silence
        self._contests: dict[str, _Contest] = {}
        self._refusals: dict[str, str] = {}
        # The backends that may have external capacity that decisions do not know yet.
        self._uncounted: set[str] = set()

    def hellos(self, messages: Sequence[Hello]) -> list[Welcome | Exception]:
        """Give each agent process its epoch."""
        return [self._hello(message) for message in messages]

    def listings(self, messages: Sequence[Listing]) -> list[Receipt | Exception]:
        """Record the volumes on the storage, and send the commands of pending claims again."""
        return [_result(self._listing, message) for message in messages]

    def current(self, name: str, epoch: int) -> BackendEntry | None:
        """Return the backend if that epoch is its current one, None if the epoch is over by the ledger.

        An epoch that the cache does not know was given by another scheduler, or by a ledger that is lost; then the
        agent is asked to say hello, and :class:`UnknownEpoch` raised. An epoch that seems to be over by the cache may
        belong to a backend that was removed and has said hello again.
        """
        backend = self._hosts.backend(name)
        if backend is None or backend.epoch != epoch:
            with self._database.reading() as session:
                row = backends.find(session, name)
                if row is not None:
                    self._cache_refresh.refresh(session, [row])
            if row is None or row.epoch < epoch:
                self._agents.rejoin(name)
                raise UnknownEpoch(f"the ledger does not know epoch {epoch} of backend {name}; it has to say hello")
            backend = self._hosts.backend(name)
        return backend if backend is not None and backend.epoch == epoch else None

    def request_stamps(self, backend: str, storage_ids: Collection[str]) -> None:
        """Ask an agent to take stamps of storages that another backend shares, before each of its reports."""
        self._agents.take_stamps(backend, sorted(storage_ids))

    def _hello(self, message: Hello) -> Welcome | Exception:
        for name, most in _HELLO_LENGTHS.items():
            value: str = getattr(message, name)
            if len(value) > most or not value.isprintable():
                return errors.InvalidInput(f"{name} is {value[:40]!r}: it takes at most {most} printable characters")
        if not is_backend_name(message.backend):
            LOG.warning("An agent said hello as backend %r, and is refused", message.backend)
            return errors.InvalidInput(
                f"backend is {message.backend!r}: expected host@backend, two names without '@', '#' and blanks"
            )
        ledger_id = self._database.run_past_duplicates(ledger_identity.ledger_id)
        marked_ids = {mark[: len(ledger_id)] for mark in message.ledger_marks.values() if mark}
        if other_ledgers := sorted(marked_ids - {ledger_id}):
            refusal: errors.TonnageError = errors.Conflict(
                f"the storage belongs to ledger {other_ledgers[0]}, and the schedulers use ledger {ledger_id}: see "
                "that their [database] connection is right ('tonnage-manage db copy' moves a ledger to another "
                "database); if that ledger is lost for good, remove the mark from the storage"
            )
            self._log_refusal(message.backend, refusal)
            return refusal
        if (conflict := self._held_by_another(message)) is not None:
            return conflict
        if message.ledger_marks and (wrong_storage := self._wrong_marks(message, ledger_id)) is not None:
            self._record_refusal(message.backend, wrong_storage)
            return wrong_storage
        # The first hello of a backend may reach two schedulers at once.
        introduction = self._database.run_past_duplicates(_say_hello, message)
        row = introduction.row
        with self._database.reading() as session:
            self._cache_refresh.introduce(session, introduction)
            shared = reports.shared_storages(session, row.id)
        LOG.info("Backend %s (driver %s) has joined", row.name, message.driver)
        LOG.debug("Backend %s: its epoch is %d", row.name, row.epoch)
        return Welcome(epoch=row.epoch, ledger_id=ledger_id, shared_storages=shared)

    def _wrong_marks(self, message: Hello, ledger_id: str) -> errors.WrongStorage | None:
        """Return an error if the ledger counts volumes in a pool whose storage has no mark, or another than before."""
        with self._database.reading() as session:
            last_marks = stored_volumes.marks(session, message.backend)
            pools = [
                pool for pool, mark in message.ledger_marks.items() if not mark or mark != last_marks.get(pool, mark)
            ]
            counts = stored_volumes.counted(session, message.backend, pools)
        if not counts:
            return None
        return _wrong_storage(message.backend, counts, f"lacks the mark {last_marks.get(min(counts), ledger_id)}")

    def _record_refusal(self, backend: str, refusal: errors.WrongStorage) -> None:
        """Keep the reason with the backend, whose agent tries again until its storage is the right one."""
        self._log_refusal(backend, refusal)
        self._database.run(backend_notices.record_refusal, backend, refusal.message)
        with self._database.reading() as session:
            row = backends.find(session, backend)
            if row is not None:
                self._cache_refresh.refresh(session, [row])

    def _log_refusal(self, backend: str, refusal: errors.TonnageError) -> None:
        """Log a refusal unless it is the same as before: the agent tries again and again."""
        if self._refusals.get(backend) != refusal.message:
            self._refusals[backend] = refusal.message
            LOG.error("Backend %s is refused: %s", backend, refusal.message)

    def _held_by_another(self, message: Hello) -> errors.Conflict | None:
        """Return an error if another process, which may be up, runs the backend, and ask that one for a report.

        A process with the same lock is certainly not up. After ``silence`` seconds without a report there is no error.
        """
        with self._database.reading() as session:
            row = backends.find(session, message.backend)
        holder = None if row is None else AgentProcess.from_nonce(row.nonce)
        process = AgentProcess.from_nonce(message.nonce)
        if row is None or holder is None or process is None or holder.lock == process.lock:
            self._contests.pop(message.backend, None)
            return None
        now = time.monotonic()
        contest = self._contests.setdefault(message.backend, _Contest(row.nonce, now))
        text = (
            f"backend {message.backend} is run by process {holder.name}, so process {process.name} does not run it: "
            "give each agent a [DEFAULT] host or a name in enabled_backends of its own, or stop the other one"
        )
        if contest.holder != row.nonce or now - contest.since > _END:
            contest = self._contests[message.backend] = _Contest(row.nonce, now)
        elif row.silence is not None and row.silence < now - contest.since:
            if not contest.logged:
                LOG.error("Two agents: %s", text)
            contest.since, contest.logged = now, True
        elif now - contest.since >= self._silence + 2 * row.report_age:
            del self._contests[message.backend]
            return None
        self._agents.report_now(message.backend)
        return errors.Conflict(text)

    def _listing(self, message: Listing) -> Receipt | errors.WrongStorage:
        backend = self.current(message.backend, message.epoch)
        if backend is None:
            return Receipt(accepted=False)
        with self._database.reading() as session:
            pending = pending_claims.load(session, backend_id=backend.id)
            unlisted = stored_volumes.unlisted(session, message.backend, message.unmarked_pools, message.volumes)
        if unlisted:
            refusal = _wrong_storage(message.backend, unlisted, "holds none of them")
            self._record_refusal(message.backend, refusal)
            return refusal
        # Only the agent can tell how an operation ended, whatever the listing shows: the command may be newer than the
        # listing. A driver need not work for an operation that it has done already.
        for claim in pending:
            if claim.id not in message.in_hand:
                self._dispatcher.send(claim)
        uncounted_before = message.backend in self._uncounted
        # A transaction that ends with an error may have been committed.
        self._uncounted.add(message.backend)
        if not self._database.run(_record_listing, backend.id, message) and not uncounted_before:
            self._uncounted.remove(message.backend)
        if message.ledger_marks:
            self._database.run_past_duplicates(stored_volumes.record_marks, backend.id, message.ledger_marks)
        if message.backend in self._uncounted:
            entries = self._hosts.entries
            with self._database.reading() as session:
                self._cache_refresh.refresh_counters(session, [entries[name].id for name in backend.pools])
            self._uncounted.remove(message.backend)
        if self._audit is not None:
            self._audit.listing(backend.id, message)
        self._refusals.pop(message.backend, None)
        LOG.debug("Backend %s lists %d volume(s); %d claim(s) wait", backend.name, len(message.volumes), len(pending))
        return Receipt(accepted=True)


def _result(work: Callable[[Message], Result], message: Message) -> Result | Exception:
    """Return the result of the work or, so that other messages are handled, the error for the sender."""
    try:
        return work(message)
    except errors.TonnageError as error:
        LOG.log(log_level(error), "%s", error.message)
        return error
    except Exception as error:
        LOG.exception("A message could not be taken in")
        return error


def _say_hello(session: orm.Session, message: Hello) -> backends.Introduction:
    return backends.hello(session, message.backend, message.nonce, message.availability_zone, message.driver)


def _record_listing(session: orm.Session, backend_id: int, message: Listing) -> bool:
    """Record a listing; return whether the external capacity of pools may have changed."""
    changed = listings.record(session, backend_id, message.epoch, message.tick, message.volumes, message.in_hand)
    return changed or database.may_be_committed(session)


def _wrong_storage(backend: str, volume_counts: Mapping[str, int], lack: str) -> errors.WrongStorage:
    """Return the error for pools that do not show the storage of the volumes that the ledger counts there."""
    names = [f"{backend}#{pool} ({count} volume(s))" for pool, count in sorted(volume_counts.items())]
    more = f" and {len(names) - _MOST_POOLS} more" if len(names) > _MOST_POOLS else ""
    return errors.WrongStorage(
        f"the ledger counts volumes in {', '.join(names[:_MOST_POOLS])}{more}, and the storage there {lack}: mount the "
        "file system with the volumes, then the backend joins by itself; if they are lost for ever: tonnage-manage "
        f"backend remove {backend}#{min(volume_counts)} --volumes-are-lost"
    )
