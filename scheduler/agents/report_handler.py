# SPDX-License-Identifier: Apache-2.0
"""The handler of the reports that agents send. Belongs to the decision thread."""

import logging
from collections.abc import Callable, Mapping, Sequence

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extension import attributed_to, failures_logged
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends, reports
from tonnage.ledger.inventory.reports import Applied
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.metrics import instruments
from tonnage.rpc.messages import BackendReport, Outcome
from tonnage.scheduler.agents.outcome_handler import OutcomeHandler
from tonnage.scheduler.agents.registration import Registration
from tonnage.scheduler.agents.report_observer import AppliedReport, ReportObserver
from tonnage.scheduler.cache.backend_state import BackendEntry
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.report_diff import ReportDiff
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.observers.audit_thread import AuditThread
from tonnage.scheduler.observers.driver_audit import AuditedReport

LOG = logging.getLogger(__name__)

#: Most pools with new figures in one transaction. Decisions wait for less than a second, and take their turn between
#: the parts of a large report.
PART_SIZE = 2500


class ReportHandler:
    """Applies reports, with the outcomes in them, to the ledger and then to the host manager.

    A report with new figures of more than ``part_size`` pools is applied in parts, each like a report of its own with
    the next number; in the earlier parts the other pools are *postponed*, which means that nothing about them changes.
    ``put_back`` queues the remainder of a report. With 5,000 new pools and a part size of 2,000, report 1024 is applied
    as 1024 (2,000 pools), 1025 (2,000) and 1026 (1,000); the agent's next report has the number 2048. If the scheduler
    ends in between, the next report has the rest.

    ``observers`` add statements to the transaction, and act after it. ``audit`` compares reports with listings.
    """

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        registration: Registration,
        dispatcher: Dispatcher,
        outcome_handler: OutcomeHandler,
        clock: Callable[[], float],
        put_back: Callable[[BackendReport], object],
        audit: AuditThread | None = None,
        observers: Sequence[ReportObserver] = (),
        part_size: int = PART_SIZE,
    ) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._hosts = cache_refresh.hosts
        self._registration = registration
        self._dispatcher = dispatcher
        self._outcome_handler = outcome_handler
        self._clock = clock
        self._put_back = put_back
        self.part_size = part_size
        self._audit = audit
        self.observers = observers

    def reports(self, messages: Sequence[BackendReport]) -> list[Exception | None]:
        """Apply the newest report of each backend. A late report, or one of a past epoch, changes nothing."""
        results: list[Exception | None] = [None] * len(messages)
        newest: dict[str, tuple[int, BackendEntry]] = {}
        outcomes: list[Outcome] = []
        for number, message in enumerate(messages):
            try:
                backend = self._registration.current(message.backend, message.epoch)
            except errors.TonnageError as error:
                LOG.log(log_level(error), "%s", error.message)
                results[number] = error
                continue
            if backend is None:
                LOG.debug("Report %d of %s is of epoch %d, which is over", message.seq, message.backend, message.epoch)
                continue
            outcomes += [outcome for outcome in message.ended if outcome.epoch == message.epoch]
            if message.seq <= backend.report_seq or message.covers < backend.report_covers:
                LOG.debug("Report %d of %s, epoch %d, came late", message.seq, message.backend, message.epoch)
            elif message.backend not in newest or messages[newest[message.backend][0]].seq < message.seq:
                newest[message.backend] = (number, backend)
        try:
            if outcomes:
                self._outcome_handler.end(outcomes)
        except errors.Unavailable as failure:
            text = "%d outcome(s) that came with reports could not be taken in: %s"
            LOG.log(log_level(failure), text, len(outcomes), failure.message)
            failed: Mapping[str, Exception] = dict.fromkeys(newest, failure)
        else:
            failed = self._apply([(messages[number], backend) for number, backend in newest.values()]) if newest else {}
        for name, problem in failed.items():
            results[newest[name][0]] = problem
        failures = sum(result is not None for result in results)
        used = len(newest) - len(failed)
        for result, number in (("applied", used), ("failed", failures), ("late", len(messages) - used - failures)):
            instruments.REPORTS.labels(result).inc(number)
        return results

    def _apply(self, messages: Sequence[tuple[BackendReport, BackendEntry]]) -> dict[str, Exception]:
        """Apply reports of different backends in one transaction; if that fails, each for itself.

        Return the errors, by backend.
        """
        try:
            if self._database.refusal is not None:
                # Reports have no stamps while none can be recorded. No remark on them helps anybody.
                self._database.require_writable()
            self._apply_together(messages)
        except errors.Unavailable as error:
            LOG.log(log_level(error), "%d report(s) could not be applied: %s", len(messages), error.message)
            return {message.backend: error for message, _ in messages}
        except Exception as error:
            if len(messages) == 1:
                is_own = isinstance(error, errors.TonnageError)
                text = "The report of %s could not be applied: %s"
                LOG.error(text, messages[0][0].backend, error, exc_info=not is_own)
                return {messages[0][0].backend: error}
            failed: dict[str, Exception] = {}
            for pair in messages:
                failed.update(self._apply([pair]))
            return failed
        return {}

    def _apply_together(self, messages: Sequence[tuple[BackendReport, BackendEntry]]) -> None:
        """Apply reports in one transaction, as far as it has room. The remainder is put back."""
        diffs: list[ReportDiff] = []
        size = 0
        for message, backend in messages:
            if size < self.part_size:
                diffs.append(self._hosts.diff_report(backend, message, self.part_size - size))
                size += len(diffs[-1].report.figures)
        for diff in diffs:
            if diff.unstamped:
                self._registration.request_stamps(diff.backend.name, diff.unstamped)
        for observer in self.observers:
            with attributed_to(observer):
                observer.received(diffs)
        try:
            results = self._database.run(self._write, diffs)
        except db_exc.DBDuplicateEntry:
            if len(messages) > 1:
                raise
            # Another scheduler has just inserted rows of the same pools, or of the same storage for another backend.
            results = self._database.run(self._write, diffs)
        self._take_over([(diff, result) for diff, result in zip(diffs, results, strict=True) if result is not None])
        for message, _ in messages:
            if message.in_hand:
                self._dispatcher.renew(message.in_hand)
        for message, _ in messages[len(diffs) :]:
            self._put_back(message)
        rejected = [diff for diff, result in zip(diffs, results, strict=True) if result is None]
        if rejected and (retried := self._refreshed(rejected)):
            self._apply_together(retried)

    def _take_over(self, applied: Sequence[tuple[ReportDiff, Applied]]) -> None:
        """Show decisions the reports that the ledger has applied, and put back their remainders."""
        counters: Mapping[int, Counters] = {}
        for diff, result in applied:
            self._hosts.apply_report(diff, result, self._clock())
            counters = result.counters
            if diff.remainder is not None:
                self._put_back(diff.remainder)
            elif self._audit is not None:
                message = diff.message
                report = AuditedReport(
                    backend=message.backend, pools=diff.pools, supports_auto_ratio=message.supports_auto_ratio
                )
                self._audit.report(diff.backend.id, report)
        self._hosts.set_counters(counters)
        for observer in self.observers:
            with failures_logged(observer):
                observer.applied([diff for diff, _ in applied])

    def _write(self, session: orm.Session, diffs: Sequence[ReportDiff]) -> list[Applied | None]:
        results = reports.apply(session, [diff.report for diff in diffs])
        applied = [
            AppliedReport(diff, result) for diff, result in zip(diffs, results, strict=True) if result is not None
        ]
        for observer in self.observers:
            with attributed_to(observer):
                observer.written(session, applied)
        return results

    def _refreshed(self, diffs: Sequence[ReportDiff]) -> list[tuple[BackendReport, BackendEntry]]:
        """Refresh the backends whose reports the ledger did not accept, and return the reports to be tried once more.

        The cache had missed an earlier report, so that the comparison with it was wrong; or the ledger has this report,
        or a newer one, from another scheduler.
        """
        with self._database.reading() as session:
            rows = backends.load_backends(session, ids={diff.backend.id for diff in diffs})
            missed = {row.id for row in rows if self._hosts.is_outdated(row)}
            self._cache_refresh.refresh(session, rows)
        return [
            (diff.message, diff.backend)
            for diff in diffs
            if diff.backend.id in missed
            and diff.backend.epoch == diff.message.epoch
            and diff.backend.report_seq < diff.message.seq
            and diff.backend.report_covers <= diff.message.covers
        ]
