# SPDX-License-Identifier: Apache-2.0
"""Sender of the figures in every report, with a thread of its own.

The next report makes figures obsolete. So the queue has only the newest report of each backend, and figures that cannot
be sent are dropped.
"""

import datetime
import logging
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.announcements import payloads
from tonnage.extensions.announcements.bus import Bus
from tonnage.extensions.announcements.payloads import Usage
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds without further attempts after a failure, and seconds to wait at the end for the message that is being sent.
_FAILURE_PAUSE = 5.0
_STOP_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The pools of a backend with the figures of a report."""

    backend: str
    pools: PoolTable
    calculation: Calculation
    reported_at: datetime.datetime


class UsageSender:
    """Sends the figures of reports over the bus. If ``only_changes`` is true, only those that differ from the last."""

    def __init__(self, bus: Bus, *, only_changes: bool) -> None:
        self._bus = bus
        self.only_changes = only_changes
        self._waiting: dict[str, UsageReport] = {}
        self._sent: dict[str, dict[str, Usage]] = {}
        self._lock = threading.Lock()
        self._worker = Worker("capacity-usage", self._send_waiting)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def put(self, report: UsageReport) -> None:
        """Queue the figures of a report for sending. Does not block."""
        with self._lock:
            self._waiting[report.backend] = report
        self._worker.wake()

    def stop(self) -> None:
        """Stop after the current message."""
        self._worker.stop(timeout=0.0)

    def wait(self) -> None:
        """Wait for the end of the thread, at most ``_STOP_TIMEOUT`` seconds."""
        self._worker.stop(_STOP_TIMEOUT)

    def _send_waiting(self) -> None:
        while not self._worker.stopping:
            with self._lock:
                if not self._waiting:
                    return
                report = self._waiting.pop(next(iter(self._waiting)))
            try:
                self.send_report(report)
            except errors.TonnageError as error:
                LOG.warning("The figures of %s are not announced: %s", report.backend, error.message)
                self._worker.pause(_FAILURE_PAUSE)
            except Exception:
                LOG.exception("The figures of %s are not announced", report.backend)
                self._worker.pause(_FAILURE_PAUSE)

    def send_report(self, report: UsageReport) -> None:
        """Send the figures of a report. Raises :class:`~tonnage.capacity.errors.TonnageError` at the first failure."""
        only_changes = self.only_changes
        sent = self._sent.get(report.backend, {}) if only_changes else {}
        current: dict[str, Usage] = {}
        self._sent[report.backend] = current
        for event_type, usage in self._messages(report):
            if sent.get(usage.name) != usage:
                if self._worker.stopping:
                    return
                self._bus.send(str(uuid.uuid4()), event_type, usage.payload(report.reported_at))
            if only_changes:
                current[usage.name] = usage

    @staticmethod
    def _messages(report: UsageReport) -> Iterator[tuple[str, Usage]]:
        pools = payloads.usages(report.pools, report.calculation)
        yield from ((payloads.POOL, usage) for usage in pools if usage.is_finite)
        yield payloads.BACKEND, payloads.backend_usage(report.backend, pools)
