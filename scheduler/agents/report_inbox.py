# SPDX-License-Identifier: Apache-2.0
"""The reports that wait for the decision thread: the newest of each backend, in packed form.

A thousand agents may report within seconds, after a start of the schedulers for example. A packed report of a thousand
pools has some 50 kB, an unpacked one 3 MB. So a report is unpacked when its turn has come, and one that has been
superseded by then is not unpacked at all.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from tonnage.capacity import errors
from tonnage.metrics import instruments
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.packed_reports import PackedReport

LOG = logging.getLogger(__name__)

#: Most bytes of packed pools in the reports that are unpacked together; a longer report is unpacked alone.
_MOST_BYTES = 1024 * 1024


class ReportInbox:
    """Holds the newest report of each backend until :meth:`apply` is called with the backend's name.

    ``submit`` has that call made by the decision thread. ``apply_reports`` applies unpacked reports. :meth:`put` may be
    called by any thread.
    """

    def __init__(
        self,
        submit: Callable[[str], object],
        apply_reports: Callable[[Sequence[BackendReport]], object],
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._submit = submit
        self._apply_reports = apply_reports
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._newest: dict[str, PackedReport] = {}

    def put(self, message: PackedReport) -> None:
        """Have a report applied, or a newer one of the backend that comes before its turn.

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
        """Apply the newest reports of backends, as many as may be unpacked together; the others wait for another turn.

        A malformed report is ignored with a warning.
        """
        size = 0
        messages = []
        with self._lock:
            for position, backend in enumerate(backends):
                size += len(self._newest[backend].pools)
                if position and size > self._most_bytes:
                    break
                messages.append(self._newest.pop(backend))
        for backend in backends[len(messages) :]:
            self._submit(backend)
        self._apply_reports(list(unpacked(messages)))
        return [None] * len(backends)


def unpacked(messages: Iterable[PackedReport]) -> Iterator[BackendReport]:
    """Unpack reports. A malformed one is left out with a warning."""
    for message in messages:
        try:
            yield message.unpack()
        except errors.InvalidInput as error:
            LOG.warning("%s", error.message)
