# SPDX-License-Identifier: Apache-2.0
"""The reports that wait for the decision thread: the newest of each backend, in packed form.

A thousand agents may report within seconds, after a start of the schedulers for example. A packed report of a thousand
pools has some 50 kB, an unpacked one 3 MB. So a report is unpacked when its turn has come, and one that has been
superseded by then is not unpacked at all. Few reports wait unpacked: the remainders of those that are applied in parts,
which come before all others.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tonnage.capacity import errors
from tonnage.metrics import instruments
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.report_handler import ReportHandler
from tonnage.scheduler.cache.report_diff import ReportPart

LOG = logging.getLogger(__name__)

_Waiting: TypeAlias = PackedReport | BackendReport


class ReportInbox:
    """Holds the newest report of each backend until :meth:`apply` is called with the backend's name.

    ``submit`` has that call made by the decision thread. ``report_handler`` applies unpacked reports. :meth:`put` may
    be called by any thread.
    """

    def __init__(self, submit: Callable[[str], object], report_handler: ReportHandler) -> None:
        self._submit = submit
        self._report_handler = report_handler
        self._lock = threading.Lock()
        self._newest: dict[str, _Waiting] = {}

    def put(self, message: _Waiting) -> None:
        """Have a report, or the remainder of one, applied, or a newer one of the backend that comes before its turn.

        A report repeats the outcomes in the reports before it that are not acknowledged.
        """
        with self._lock:
            waiting = self._newest.get(message.backend)
            if waiting is None or (waiting.epoch, waiting.seq) < (message.epoch, message.seq):
                self._newest[message.backend] = message
        if waiting is None:
            self._submit(message.backend)
        else:
            instruments.REPORTS.labels("late").inc()

    def apply(self, backends: Sequence[str]) -> list[None]:
        """Apply the newest reports of backends, remainders first, until they have the pools of a part.

        The others wait for another turn. A malformed report is ignored with a warning.
        """
        with self._lock:
            waiting = sorted(backends, key=lambda backend: isinstance(self._newest[backend], PackedReport))
        pools = 0
        reports: list[BackendReport] = []
        while waiting and pools < self._report_handler.part_size:
            with self._lock:
                message = self._newest.pop(waiting.pop(0))
            report = _unpacked(message)
            if report is not None:
                reports.append(report)
                pools += len(report.pools) - (report.pools_read if isinstance(report, ReportPart) else 0)
        for backend in waiting:
            self._submit(backend)
        self._report_handler.reports(reports)
        return [None] * len(backends)


def _unpacked(message: _Waiting) -> BackendReport | None:
    """Return a report unpacked, None with a warning for a malformed one."""
    if isinstance(message, BackendReport):
        return message
    try:
        return message.unpack()
    except errors.InvalidInput as error:
        LOG.warning("%s", error.message)
        return None
