# SPDX-License-Identifier: Apache-2.0
"""What agents tell: hello, listings, reports and how operations ended. Belongs to the decision thread."""

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.claims.settlement import Ending
from tonnage.ledger.db.database import Database, storable_text
from tonnage.ledger.db.db_errors import loudness
from tonnage.ledger.inventory import backends, listings, reports
from tonnage.ledger.inventory.reports import Applied
from tonnage.rpc.batching.command_sender import Messenger
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.messages import BackendReport, Hello, Listing, Outcome, Receipt, Welcome
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.claims.outcome_handler import OutcomeHandler
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.audit_thread import AuditThread
from tonnage.scheduler.reports.backend_state import BackendEntry
from tonnage.scheduler.reports.capacity_alerts import CapacityAlerts, Look
from tonnage.scheduler.reports.deferred_reports import DeferredReports
from tonnage.scheduler.reports.report_diff import ReportDiff

LOG = logging.getLogger(__name__)

#: Most characters of an agent's message that are kept.
_MESSAGE = 4000

#: Most characters of what a hello says.
_HELLO_LENGTHS = {"backend": 255, "availability_zone": 255, "driver": 255, "nonce": 64}

Message = TypeVar("Message")
Result = TypeVar("Result")


class _UnknownEpoch(errors.Unavailable):
    """An agent tells of an epoch that the ledger does not know."""


class ReportHandler:
    """Applies what agents tell to the ledger and then to the host manager.

    ``outcome_handler`` ends claims. ``rpc_version`` tells what all schedulers understand. With ``alerts`` what reports
    bring is announced, with ``audit`` what drivers report is audited.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        dispatcher: Dispatcher,
        agents: Messenger,
        outcome_handler: OutcomeHandler,
        clock: Callable[[], float],
        alerts: CapacityAlerts | None = None,
        audit: AuditThread | None = None,
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._agents = agents
        self._outcome_handler = outcome_handler
        self._clock = clock
        self._alerts = alerts
        self._audit = audit

    def hellos(self, messages: Sequence[Hello]) -> list[Welcome | Exception]:
        """Give each agent process its epoch."""
        return [self._hello(message) for message in messages]

    def listings(self, messages: Sequence[Listing]) -> list[Receipt | Exception]:
        """Record what is on the storage, and order again what nobody knows the end of."""
        return [_caught(self._listing, message) for message in messages]

    def reports(self, messages: Sequence[BackendReport]) -> list[Exception | None]:
        """Apply reports, of each backend the newest of these. One that is late or of a past epoch changes nothing."""
        results: list[Exception | None] = [None] * len(messages)
        newest, failed = self._newest(messages)
        for number, error in failed.items():
            results[number] = error
        numbers = {messages[number].backend: number for number, _ in newest}
        ended = [
            _ending(outcome)
            for message in messages
            if (known := self._hosts.backend(message.backend)) is not None and known.epoch == message.epoch
            for outcome in message.ended
            if outcome.epoch == message.epoch
        ]
        try:
            self._outcome_handler.end(ended)
        except errors.Unavailable as failure:
            said = "%d outcome(s) that came with reports could not be taken in: %s"
            LOG.log(loudness(failure), said, len(ended), failure.message)
            return [failure if number in numbers.values() else results[number] for number in range(len(messages))]
        for name, problem in self._apply([(messages[number], backend) for number, backend in newest]).items():
            results[numbers[name]] = problem
        return results

    def follow(self, aside: DeferredReports, patience: float) -> None:
        """Catch up with reports that it was another scheduler's turn to apply.

        Those that nobody has applied for ``patience`` seconds are applied here; until then they stay aside, so that two
        do not do the same work at the same moment.
        """
        known = self._backends_of(aside)
        if not known:
            return
        now = self._clock()
        # In a snapshot, as the generations have to be those of the figures that came with these very reports.
        with self._database.reading(snapshot=True) as session:
            rows = backends.load_backends(session, ids=known)
            found = {row.id: aside.find(known[row.id].name, row.epoch, row.report_seq) for row in rows}
            applied = {id: report for id, report in found.items() if report is not None and report.seq > known[id].seq}
            marks = reports.marks(session, applied) if applied else {}
        for id, report in applied.items():
            self._follow(report, known[id], marks[id], now)
        late: list[tuple[PackedReport, BackendReport]] = []
        for row in rows:
            backend = known[row.id]
            backend.update_last_seen(row, now)
            self._hosts.update_status(backend, now)
            aside.drop(backend.name, row.epoch, row.report_seq)
            since = aside.since(backend.name)
            if since is not None and now - since >= patience:
                late += [(each, opened) for each in aside.take(backend.name) for opened in _opened(each)]
                if (row.epoch, row.report_seq) != (backend.epoch, backend.seq):
                    self._reload(backend)
        for (packed, _), result in zip(late, self.reports([opened for _, opened in late]), strict=True):
            if isinstance(result, errors.Unavailable):
                aside.put(packed, now - patience)

    def _backends_of(self, aside: DeferredReports) -> dict[int, BackendEntry]:
        """Return the backends that reports are kept of, by id; those of other epochs go."""
        found: dict[int, BackendEntry] = {}
        for message in aside.newest():
            try:
                backend = self._current(message.backend, message.epoch)
            except _UnknownEpoch as error:
                LOG.warning("%s", error.message)
                backend = None
            if backend is None:
                aside.drop(message.backend, message.epoch, message.seq)
            else:
                self._dispatcher.renew(message.in_hand)
                found[backend.id] = backend
        return found

    def _follow(self, report: PackedReport, backend: BackendEntry, mark: Applied, now: float) -> None:
        """Take over a report that another scheduler has applied. One that cannot be keeps no others from it."""
        for message in _opened(report):
            try:
                self._take_over(message, backend, self._hosts.diff_report(backend, message), mark, now)
            except errors.Unavailable:
                raise
            except Exception:
                LOG.exception("Report %d of %s could not be taken over", report.seq, report.backend)

    def _newest(
        self, messages: Sequence[BackendReport]
    ) -> tuple[list[tuple[int, BackendEntry]], dict[int, errors.TonnageError]]:
        """Return the places of reports that are worth a look, of each backend the newest; what is wrong with others."""
        newest: dict[str, tuple[int, BackendEntry]] = {}
        failed: dict[int, errors.TonnageError] = {}
        for number, message in enumerate(messages):
            try:
                backend = self._current(message.backend, message.epoch)
            except errors.TonnageError as error:
                LOG.log(loudness(error), "%s", error.message)
                failed[number] = error
                continue
            if backend is None or message.seq <= backend.seq or message.covers < backend.covers:
                LOG.debug("Report %d of %s, epoch %d, came late", message.seq, message.backend, message.epoch)
                continue
            known = newest.get(message.backend)
            if known is None or messages[known[0]].seq < message.seq:
                newest[message.backend] = (number, backend)
        return list(newest.values()), failed

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
        failed = self._outcome_handler.end(current)
        return [failed.get(message.claim_id, receipt) for message, receipt in zip(messages, receipts, strict=True)]

    def _hello(self, message: Hello) -> Welcome | Exception:
        for name, most in _HELLO_LENGTHS.items():
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
        self._hosts.put_pools(backend, pools, self._clock())
        LOG.info("Backend %s (driver %s) said hello, epoch %d", backend.name, message.driver, backend.epoch)
        return Welcome(epoch=backend.epoch)

    def _listing(self, message: Listing) -> Receipt:
        backend = self._current(message.backend, message.epoch)
        if backend is None:
            return Receipt(accepted=False)
        with self._database.reading() as session:
            pending = backends.load_pending(session, backend_id=backend.id)
        # Whatever the list shows, only the agent can tell how an operation ended: a list may be older than what has
        # been ordered since. Doing once more what is done already is no work for a driver.
        for claim in pending:
            if claim.id not in message.in_hand:
                self._dispatcher.send(claim)
        self._database.run(listings.record, backend.id, message.epoch, message.tick, message.volumes, message.in_hand)
        with self._database.reading() as session:
            self._hosts.set_counters(reports.marks(session, [backend.id])[backend.id].counters)
        if self._audit is not None:
            self._audit.listing(backend.id, message)
        LOG.info("Backend %s holds %d volume(s); %d claim(s) wait", backend.name, len(message.volumes), len(pending))
        return Receipt(accepted=True)

    def _apply(self, messages: Sequence[tuple[BackendReport, BackendEntry]]) -> dict[str, Exception]:
        """Apply reports of different backends in one transaction; if that fails, each for itself.

        Returns the errors, by backend.
        """
        try:
            self._apply_together(messages)
        except errors.Unavailable as error:
            LOG.log(loudness(error), "%d report(s) could not be applied: %s", len(messages), error.message)
            return {message.backend: error for message, _ in messages}
        except Exception as error:
            if len(messages) == 1:
                LOG.exception("The report of %s could not be applied", messages[0][0].backend)
                return {messages[0][0].backend: error}
            failed: dict[str, Exception] = {}
            for each in messages:
                failed.update(self._apply([each]))
            return failed
        return {}

    def _apply_together(self, messages: Sequence[tuple[BackendReport, BackendEntry]]) -> None:
        looks = [(message, backend, self._hosts.diff_report(backend, message)) for message, backend in messages]
        write = self._writer(looks)
        try:
            applied = self._database.run(write)
        except db_exc.DBDuplicateEntry:
            if len(messages) > 1:
                raise
            # At the same moment another scheduler has applied it, or another backend's that draws on the same storage.
            applied = self._database.run(write)
        changed: Mapping[int, Counters] = {}
        for (message, backend, look), result in zip(looks, applied, strict=True):
            if result is not None:
                self._hosts.apply_report(backend, message, look, result, self._clock())
                changed = result.counters
                self._hosts.update_status(backend, self._clock())
                if self._audit is not None:
                    self._audit.report(backend.id, message)
            self._dispatcher.renew(message.in_hand)
        self._hosts.set_counters(changed)
        if self._alerts is not None:
            self._alerts.applied([look for look, result in zip(looks, applied, strict=True) if result is not None])
        others = [look for look, result in zip(looks, applied, strict=True) if result is None]
        if others and (left := self._catch_up(others)):
            self._apply_together(left)

    def _writer(self, looks: Sequence[Look]) -> Callable[[orm.Session], list[Applied | None]]:
        """Return what applies reports in a transaction."""
        if self._alerts is not None:
            return self._alerts.writer(looks)
        return functools.partial(reports.apply, reports=[look.report for _, _, look in looks])

    def _catch_up(self, looks: Sequence[Look]) -> list[tuple[BackendReport, BackendEntry]]:
        """Take over reports that others have applied, or what this scheduler missed before them.

        Returns those that nobody has applied yet: one before them had been missed here, so that it was not known what
        is new in them.
        """
        with self._database.reading(snapshot=True) as session:
            rows = {row.id: row for row in backends.load_backends(session, ids={each[1].id for each in looks})}
            same = [
                backend.id
                for message, backend, _ in looks
                if backend.id in rows
                and (rows[backend.id].epoch, rows[backend.id].report_seq) == (message.epoch, message.seq)
            ]
            marks = reports.marks(session, same) if same else {}
        now = self._clock()
        left = []
        for message, backend, look in looks:
            row = rows.get(backend.id)
            if row is None:
                continue
            mark = marks.get(backend.id)
            if mark is not None:
                self._take_over(message, backend, look, mark, now)
            elif row.epoch == message.epoch and row.report_seq > message.seq and backend.pools:
                # The newer one has been sent to this scheduler as well, and is compared with what is here then.
                backend.update_last_seen(row, now)
            elif (row.epoch, row.report_seq) != (backend.epoch, backend.seq):
                self._reload(backend)
                if row.epoch == message.epoch and row.report_seq < message.seq:
                    left.append((message, backend))
            self._hosts.update_status(backend, now)
        return left

    def _take_over(
        self, message: BackendReport, backend: BackendEntry, look: ReportDiff, mark: Applied, now: float
    ) -> None:
        """Take over a report that is the ledger's last: its figures came with it, what the ledger made of them not."""
        if all(name in mark.ids for name in look.stats):
            self._hosts.apply_report(backend, message, look, mark, now)
            self._hosts.set_counters(mark.counters)
        else:
            self._reload(backend)

    def _current(self, name: str, epoch: int) -> BackendEntry | None:
        """Return the backend if that epoch is its current one, None if it is over by the ledger.

        An epoch that this scheduler has not heard of was given by another one, or by a ledger that is no more; then the
        agent is asked to say hello, and :class:`~tonnage.capacity.errors.Unavailable` raised. One that seems to be over
        may be that of a backend that was removed and has come back.
        """
        backend = self._hosts.backend(name)
        if backend is None or backend.epoch != epoch:
            with self._database.reading() as session:
                row = backends.find(session, name)
                pools = backends.load_pools(session, backend=name)
            if row is None or row.epoch < epoch:
                self._agents.rejoin(name)
                raise _UnknownEpoch(f"the ledger does not know epoch {epoch} of backend {name}; it has to say hello")
            backend = self._hosts.put_backend(row, self._clock())
            self._hosts.put_pools(backend, pools, self._clock())
        return backend if backend.epoch == epoch else None

    def _reload(self, backend: BackendEntry) -> None:
        with self._database.reading() as session:
            row = backends.find(session, backend.name)
            pools = backends.load_pools(session, backend=backend.name)
        if row is not None:
            self._hosts.take_over(row, pools, self._clock())


def _caught(work: Callable[[Message], Result], message: Message) -> Result | Exception:
    """Return what the work returns or, so that others go on, the error that its sender shall have."""
    try:
        return work(message)
    except errors.TonnageError as error:
        LOG.log(loudness(error), "%s", error.message)
        return error
    except Exception as error:
        LOG.exception("A message could not be taken in")
        return error


def _opened(message: PackedReport) -> list[BackendReport]:
    """Return a report as it was before it was packed; nothing if it cannot be opened."""
    try:
        return [message.opened()]
    except errors.InvalidInput as error:
        LOG.warning("%s", error.message)
        return []


def _ending(outcome: Outcome) -> Ending:
    return Ending(
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
