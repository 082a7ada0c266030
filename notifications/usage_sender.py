# SPDX-License-Identifier: Apache-2.0
"""The figures that are sent with every report, in a thread of their own.

They are worth something until the next report: of each backend only the newest wait, and what cannot be sent is left
out.
"""

import datetime
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.notifications import payloads
from tonnage.notifications.payloads import Usage

LOG = logging.getLogger(__name__)

#: Seconds of rest after something could not be sent, and those that whoever stops it waits.
_REST = 5.0
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """The pools of a backend as of a report."""

    backend: str
    pools: PoolTable
    calculation: Calculation
    reported_at: datetime.datetime


class UsageSender:
    """Sends figures with ``send``, which takes an id, the event type and a payload, and raises TonnageError.

    While ``only_changes`` is true it sends those that differ from what it sent last.
    """

    def __init__(self, send: Callable[[str, str, Mapping[str, Any]], None], *, only_changes: bool) -> None:
        self._send = send
        self.only_changes = only_changes
        self._waiting: dict[str, Report] = {}
        self._sent: dict[str, dict[str, Usage]] = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capacity-usage", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, report: Report) -> None:
        """Have the figures of a report sent. Takes no time."""
        with self._changed:
            self._waiting[report.backend] = report
            self._changed.notify()

    def stop(self) -> None:
        """End after the message that is on its way."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()

    def wait(self) -> None:
        """Wait for the end, but not for ever."""
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped.is_set())
                if self._stopped.is_set():
                    return
                report = self._waiting.pop(next(iter(self._waiting)))
            try:
                self.announce(report)
            except errors.TonnageError as error:
                LOG.warning("The figures of %s are not announced: %s", report.backend, error.message)
                self._stopped.wait(_REST)
            except Exception:
                LOG.exception("The figures of %s are not announced", report.backend)
                self._stopped.wait(_REST)

    def announce(self, report: Report) -> None:
        """Send what a report says. Raises :class:`~tonnage.capacity.errors.TonnageError` at the first that fails."""
        only_changes = self.only_changes
        sent = self._sent.get(report.backend, {}) if only_changes else {}
        current: dict[str, Usage] = {}
        self._sent[report.backend] = current
        for event_type, usage in self._of(report):
            if sent.get(usage.name) != usage:
                if self._stopped.is_set():
                    return
                self._send(str(uuid.uuid4()), event_type, usage.payload(report.reported_at))
            if only_changes:
                current[usage.name] = usage

    @staticmethod
    def _of(report: Report) -> Iterator[tuple[str, Usage]]:
        pools = payloads.usages(report.pools, report.calculation)
        yield from ((payloads.POOL, usage) for usage in pools if usage.known)
        yield payloads.BACKEND, payloads.of_backend(report.backend, pools)
