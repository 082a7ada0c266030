# SPDX-License-Identifier: Apache-2.0
"""The handler of the reports and outcomes that agents send. Belongs to the decision thread."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence

from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends, reports
from tonnage.rpc.messages import BackendReport, Outcome, Receipt
from tonnage.scheduler.claims.outcome_handler import OutcomeHandler
from tonnage.scheduler.reports.audit_thread import AuditThread
from tonnage.scheduler.reports.backend_state import BackendEntry
from tonnage.scheduler.reports.cache_refresh import CacheRefresh
from tonnage.scheduler.reports.capacity_alerts import CapacityAlerts
from tonnage.scheduler.reports.registration import Registration
from tonnage.scheduler.reports.report_diff import ReportDiff

LOG = logging.getLogger(__name__)


class ReportHandler:
    """Applies reports and outcomes to the ledger and then to the host manager.

    ``registration`` knows the current epochs, ``alerts`` announces pools that begin or cease to hold too much, and
    ``audit`` checks the reports for faults of the drivers.
    """

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        registration: Registration,
        outcome_handler: OutcomeHandler,
        clock: Callable[[], float],
        alerts: CapacityAlerts | None = None,
        audit: AuditThread | None = None,
    ) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._hosts = cache_refresh.hosts
        self._registration = registration
        self._outcome_handler = outcome_handler
        self._clock = clock
        self._alerts = alerts
        self._audit = audit

    def reports(self, messages: Sequence[BackendReport]) -> list[Exception | None]:
        """Apply the newest report of each backend. A late report, or one of a past epoch, changes nothing."""
        results: list[Exception | None] = [None] * len(messages)
        newest: dict[str, tuple[int, BackendEntry]] = {}
        outcomes: list[Outcome] = []
        for number, message in enumerate(messages):
            try:
                backend = self._current(message.backend, message.epoch)
            except errors.TonnageError as error:
                LOG.log(log_level(error), "%s", error.message)
                results[number] = error
                continue
            if backend is None:
                LOG.debug("Report %d of %s is of epoch %d, which is over", message.seq, message.backend, message.epoch)
                continue
            outcomes += [outcome for outcome in message.ended if outcome.epoch == message.epoch]
            if message.seq <= backend.seq or message.covers < backend.covers:
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
        return results

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt | Exception]:
        """Apply the outcomes of operations, all of them in one transaction."""
        receipts: list[Receipt | Exception] = []
        current = []
        for message in messages:
            try:
                accepted = self._current(message.backend, message.epoch) is not None
                receipts.append(Receipt(accepted=accepted))
            except errors.Unavailable as error:
                receipts.append(error)
            else:
                current += [message] if accepted else []
        failed = self._outcome_handler.end(current)
        return [failed.get(message.claim_id, receipt) for message, receipt in zip(messages, receipts, strict=True)]

    def renew(self, claim_ids: Sequence[str]) -> None:
        """Renew the leases of claims that an agent has in hand."""
        self._outcome_handler.renew(claim_ids)

    def _current(self, name: str, epoch: int) -> BackendEntry | None:
        """Return the backend if that epoch is its current one. Raises as :meth:`Registration.current`."""
        backend = self._hosts.backend(name)
        return backend if backend is not None and backend.epoch == epoch else self._registration.current(name, epoch)

    def _apply(self, messages: Sequence[tuple[BackendReport, BackendEntry]]) -> dict[str, Exception]:
        """Apply reports of different backends in one transaction; if that fails, each for itself.

        Return the errors, by backend.
        """
        try:
            self._apply_together(messages)
        except errors.Unavailable as error:
            LOG.log(log_level(error), "%d report(s) could not be applied: %s", len(messages), error.message)
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
        diffs = [self._hosts.diff_report(backend, message) for message, backend in messages]
        for diff in diffs:
            if diff.unstamped:
                self._registration.request_stamps(diff.backend.name, diff.unstamped)
        alerts = self._alerts if self._alerts is not None and self._alerts.active else None
        writes = [diff.report for diff in diffs]
        write = functools.partial(reports.apply, reports=writes) if alerts is None else alerts.writer(diffs)
        try:
            results = self._database.run(write)
        except db_exc.DBDuplicateEntry:
            if len(messages) > 1:
                raise
            # Another scheduler has just inserted rows of the same pools, or of the same storage for another backend.
            results = self._database.run(write)
        applied = [(diff, result) for diff, result in zip(diffs, results, strict=True) if result is not None]
        counters: Mapping[int, Counters] = {}
        for diff, result in applied:
            self._hosts.apply_report(diff, result, self._clock())
            counters = result.counters
            if self._audit is not None:
                self._audit.report(diff.backend.id, diff.message)
        self._hosts.set_counters(counters)
        for message, _ in messages:
            if message.in_hand:
                self._outcome_handler.renew(message.in_hand)
        if alerts is not None:
            alerts.applied([diff for diff, _ in applied])
        others = [diff for diff, result in zip(diffs, results, strict=True) if result is None]
        if others and (retried := self._refreshed(others)):
            self._apply_together(retried)

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
            and diff.backend.seq < diff.message.seq
            and diff.backend.covers <= diff.message.covers
        ]
