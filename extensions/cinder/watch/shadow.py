# SPDX-License-Identifier: Apache-2.0
"""The shadow beside Cinder's schedulers: it watches, decides the same requests, and records the differences.

One thread takes the messages from the tap, decodes them, counts reports and promises, judges, and records. It writes
neither to Cinder's bus nor to its database.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tonnage.capacity import errors
from tonnage.extensions.cinder.decoding import cinder_messages
from tonnage.extensions.cinder.decoding.cinder_messages import Command, Report, UnjudgedRequest
from tonnage.extensions.cinder.decoding.cinder_rows import Changes, CinderRows
from tonnage.extensions.cinder.quota.quota_drift import ResourceUse
from tonnage.extensions.cinder.watch import shadow_instruments
from tonnage.extensions.cinder.watch.allocated_drift import AllocatedDrift
from tonnage.extensions.cinder.watch.bus_tap import BusTap, Delivery
from tonnage.extensions.cinder.watch.findings import Category, Cause, Finding, Gap, Key
from tonnage.extensions.cinder.watch.over_commitments import OverCommitments
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity
from tonnage.extensions.cinder.watch.quota_counters import CounterDrift, QuotaCounters
from tonnage.extensions.cinder.watch.report_audit import ReportAudit
from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord
from tonnage.extensions.cinder.watch.verdicts import Decided, Judge, Verdict
from tonnage.scheduler.requests.pool_selection import Rules

LOG = logging.getLogger(__name__)

#: Most seconds without a look at the tap or at the end.
_TURN = 0.5

#: Seconds without a message after which all earlier messages have arrived, and most seconds of waiting for that.
_QUIET, _BUSY = 0.05, 2.0

#: Seconds between two records of the time until which the shadow has watched.
_PERIOD_INTERVAL = 10.0

#: Seconds between two removals of old records.
_PRUNE_INTERVAL = 3600.0

#: The subject of findings about gaps.
_WATCH = "watch"

_GAPS = {
    Cause.START: "the watch began, and earlier messages are not known",
    Cause.CONNECTION: "the connection to the message bus is lost, and messages with it",
    Cause.QUEUE: "the broker dropped messages, as the shadow was slower than the bus",
    Cause.DATABASE: "Cinder's database could not be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the shadow; times are seconds."""

    rules: Rules
    default_ratio: float | str
    poll_interval: float = 2.0
    full_poll_interval: float = 60.0
    service_down_time: float = 60.0
    stale_after: float = 180.0
    keep_days: int = 30


class Results(NamedTuple):
    """Decisions with verdicts, findings by key, and the keys of findings that have ended since."""

    decided: list[Decided]
    findings: dict[Key, Finding]
    ended: set[Key]

    def add(self, decided: Iterable[Decided], findings: Iterable[Finding], ended: Iterable[Key]) -> None:
        """Add later results. A finding that returns has not ended."""
        self.decided.extend(decided)
        for finding in findings:
            self.findings[finding.key] = finding
            self.ended.discard(finding.key)
        self.ended.update(ended)


def _no_results() -> Results:
    return Results([], {}, set())


class Observations:
    """The observers of one Cinder, with their state in memory. Each message and each read gives results.

    ``earlier`` are the open findings of the shadow before this one.
    """

    def __init__(self, settings: Settings, earlier: Sequence[Finding] = ()) -> None:
        self.promised = PromisedCapacity(settings.default_ratio, settings.service_down_time)
        self.judge = Judge(self.promised, settings.rules)
        self.over_commitments = OverCommitments(self.promised, settings.rules.calculation, earlier)
        self.drift = AllocatedDrift(self.promised)
        self.counter_drift = CounterDrift()
        self.audit = ReportAudit(self.promised, settings.stale_after, settings.service_down_time)
        self._open = {finding.key for finding in earlier}
        self._gap_at = float("-inf")
        self._results = _no_results()

    def take_results(self) -> Results:
        """Return the results since the last call."""
        results, self._results = self._results, _no_results()
        return results

    def _add(
        self, decided: Iterable[Decided] = (), findings: Sequence[Finding] = (), ended: Iterable[Key] = ()
    ) -> None:
        """Add results. Only the keys of open findings in ``ended`` count."""
        closed = self._open.intersection(ended)
        self._open -= closed
        for finding in findings:
            if finding.key not in self._open:
                LOG.warning("%s %s: %s", finding.category, finding.subject, finding.text)
                shadow_instruments.FINDINGS.labels(finding.category.value).inc()
                self._open.add(finding.key)
        self._results.add(decided, findings, closed)

    def message(self, message: cinder_messages.Message, now: float) -> None:
        """Take a message that arrived at ``now``, a monotonic time."""
        if isinstance(message, Report):
            self._report(message, now)
        elif isinstance(message, Command):
            self._command(message, now)
        elif isinstance(message, UnjudgedRequest):
            self._add([self.judge.unjudged(message)])
            if message.verb == cinder_messages.MANAGE:
                self.promised.manage(message.volume_id)
        else:
            self.judge.request(message, now)

    def gap(self, gap: Gap, now: float) -> None:
        """Take the loss of messages or rows: no decision is judged until all rows have been read again."""
        self._gap_at = now
        text = f"{_GAPS[gap.cause]}; no decision is judged until all rows have been read again"
        numbers = {"dropped_at_least": float(gap.dropped)} if gap.dropped else {}
        finding = Finding(category=Category.GAP, subject=_WATCH, code=gap.cause.value, text=text, numbers=numbers)
        if finding.key not in self._open:
            shadow_instruments.GAPS.labels(gap.cause.value).inc()
        self._add(self.judge.pause(_GAPS[gap.cause]), [finding])

    def rows(self, changes: Changes, began: float, now: float) -> None:
        """Take all that rows show. Their read began at ``began``; messages that were sent before have been taken."""
        before = self.promised.volumes.copy()
        self.promised.apply_rows(changes, began)
        for volume_id in before.keys() - self.promised.volumes.keys():
            self.drift.note_gone(before[volume_id])
        self._add(self.judge.settle(self.promised.volumes, began))
        if changes.complete and self._gap_at < began:
            self.judge.resume()
            gaps = self._open.intersection((Category.GAP.value, _WATCH, cause.value) for cause in Cause)
            self._add(ended=gaps)
            if gaps:
                for backend in self.promised.backends.values():
                    backend.heard_at = now  # its reports may be among the lost messages
        counted_by_rows = [name for name in self.promised.table.names if self._has_no_provisioned(name)]
        for findings, ended in (
            self.over_commitments.check(counted_by_rows),
            self.drift.compare(changes.read_at),
            self.audit.audit(began, self._open),
            self.audit.silent(now),
        ):
            self._add(findings=findings, ended=ended)

    def quotas(self, uses: Sequence[ResourceUse]) -> None:
        """Take the use of quotas."""
        findings, ended = self.counter_drift.compare(uses, self._open)
        self._add(findings=findings, ended=ended)

    def _report(self, report: Report, now: float) -> None:
        checked, is_used = self.promised.apply_report(report, now)
        if not is_used:
            return
        pools = self.promised.backends[report.backend].pools
        self.audit.note_report(report, checked, now)
        findings, ended = self.over_commitments.check(name for name in pools if not self._has_no_provisioned(name))
        self._add(findings=findings, ended=ended)
        self.drift.note_report(pools, self.promised.backends[report.backend].sent_at)

    def _command(self, command: Command, now: float) -> None:
        decided = self.judge.command(command, now)
        if decided is not None:
            self._add([decided])
        row = self.promised.volumes.get(command.volume_id)
        self.drift.note_command(command, None if row is None else row.pool)
        self.promised.promise(command, now)
        self.over_commitments.note(command)

    def _has_no_provisioned(self, name: str) -> bool:
        pool = self.promised.table.get(name)
        return pool is not None and pool.provisioned != pool.provisioned and pool.thin


class Shadow:
    """The pipeline: tap, messages, observations, record."""

    def __init__(
        self, tap: BusTap, rows: CinderRows, quotas: QuotaCounters, record: ShadowRecord, settings: Settings
    ) -> None:
        self._tap, self._rows, self._quotas, self._record, self._settings = tap, rows, quotas, record, settings
        # Counters begin at 0, so that the first event is an increase.
        for cause in Cause:
            shadow_instruments.GAPS.labels(cause.value)
        for category in Category:
            shadow_instruments.FINDINGS.labels(category.value)
        self._ending = threading.Event()
        self._complete_at = self._pruned_at = self._extended_at = float("-inf")
        self._problem = ""
        self._results = _no_results()

    def run(self) -> None:
        """Watch until :meth:`end` is called."""
        observations = Observations(self._settings, self._record.load_open())
        # The bus may be away for long, and the record tells so.
        observations.gap(Gap(Cause.START), time.monotonic())
        read_at = float("-inf")
        try:
            while not self._ending.is_set():
                for delivery in self._tap.receive(min(_TURN, self._settings.poll_interval)):
                    self._take(observations, delivery)
                now = time.monotonic()
                if self._tap.is_connected and now - read_at >= self._settings.poll_interval:
                    read_at = now
                    self._read(observations, now)
                self._write(observations)
            self._extended_at = float("-inf")
            self._write(observations)
        finally:
            self._tap.close()

    def end(self) -> None:
        """Let :meth:`run` return."""
        self._ending.set()

    def _take(self, observations: Observations, delivery: Delivery | Gap) -> None:
        if isinstance(delivery, Gap):
            observations.gap(delivery, time.monotonic())
            self._complete_at = float("-inf")
            return
        try:
            message = cinder_messages.decode(delivery.exchange, delivery.routing_key, delivery.body)
        except ValueError as error:
            shadow_instruments.MESSAGES.labels("unknown").inc()
            LOG.warning("%s", error)
            return
        if message is not None:
            shadow_instruments.MESSAGES.labels(type(message).__name__.lower()).inc()
            observations.message(message, time.monotonic())

    def _read(self, observations: Observations, now: float) -> None:
        """Read the rows, then take the messages that were sent before that, then take over the rows.

        Otherwise rows would show the end of an operation whose command has not been taken.
        """
        complete = now - self._complete_at >= self._settings.full_poll_interval
        try:
            changes = self._rows.read(complete=complete)
        except errors.TonnageError as error:
            if error.message != self._problem:
                LOG.warning("Cinder's database cannot be read: %s", error.message)
            self._problem = error.message
            observations.gap(Gap(Cause.DATABASE), now)
            self._complete_at = float("-inf")
        else:
            self._problem = ""
            if complete:
                self._complete_at = now
            self._catch_up(observations)
            observations.rows(changes, now, time.monotonic())
        uses = self._quotas.read(now)
        if uses is not None:
            observations.quotas(uses)

    def _catch_up(self, observations: Observations) -> None:
        """Take messages until the bus is quiet for a moment; a busy one is followed for some seconds."""
        until = time.monotonic() + _BUSY
        while time.monotonic() < until and (deliveries := self._tap.receive(_QUIET)):
            for delivery in deliveries:
                self._take(observations, delivery)

    def _write(self, observations: Observations) -> None:
        """Record the results. If the record cannot be written they are kept for the next turn."""
        results = observations.take_results()
        for decision in results.decided:
            _count(decision)
        self._results.add(results.decided, results.findings.values(), results.ended)
        try:
            self._record.write(self._results.decided, tuple(self._results.findings.values()), self._results.ended)
            self._results = _no_results()
            if time.monotonic() - self._extended_at >= _PERIOD_INTERVAL:
                self._extended_at = time.monotonic()
                self._record.extend_period()
            if time.monotonic() - self._pruned_at >= _PRUNE_INTERVAL:
                self._pruned_at = time.monotonic()
                self._record.prune(self._settings.keep_days)
        except errors.Unavailable as error:
            LOG.warning("%d decision(s) are not recorded yet: %s", len(self._results.decided), error.message)


def _count(decided: Decided) -> None:
    shadow_instruments.DECISIONS.labels(decided.verb, decided.verdict.value).inc()
    shadow_instruments.DECISION_DURATION.labels("tonnage").observe(decided.tonnage_seconds)
    if decided.cinder_seconds is not None:
        shadow_instruments.DECISION_DURATION.labels("cinder").observe(decided.cinder_seconds)
    if decided.verdict in (Verdict.WRONG_PLACEMENT, Verdict.WRONG_REFUSAL, Verdict.OTHER_POOL):
        LOG.info(
            "%s of volume %s, %d GiB: %s; Cinder: %s, Tonnage: %s",
            decided.verb,
            decided.volume_id,
            decided.size_gb,
            decided.verdict,
            decided.pool or "refused",
            decided.tonnage_pool or decided.reason,
        )
