# SPDX-License-Identifier: Apache-2.0
"""Lists that are told now and then, or because somebody asked, beside the reports."""

import logging
import threading
import time
from collections.abc import Callable

from tonnage.agent.backoff import Complaints, Pauses

LOG = logging.getLogger(__name__)


class Lister:
    """Calls ``tell`` every ``interval`` seconds (0: only when asked), on a thread of its own; it may take long.

    If it raises, it is called again after growing pauses.
    """

    def __init__(self, backend: str, tell: Callable[[], None], interval: float, pauses: Pauses) -> None:
        self._backend = backend
        self._tell = tell
        self._interval = interval
        self._pauses = pauses
        self._complaints = Complaints(LOG)
        self._changed = threading.Condition()
        self._asked = False
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name=f"{backend} lister", daemon=True)

    def start(self) -> None:
        """Start the thread; the first interval begins now."""
        self._thread.start()

    def soon(self) -> None:
        """Tell as soon as possible."""
        with self._changed:
            self._asked = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Tell nothing more. A call that is under way ends by itself."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _main(self) -> None:
        failures = 0
        while self._wait(self._pauses.after(failures) if failures else self._interval or None, bool(failures)):
            try:
                self._tell()
            except Exception as error:
                failures += 1
                self._complaints.about(f"Backend {self._backend} could not tell what volumes it has: {error}")
            else:
                failures = 0
                self._complaints.over(f"Backend {self._backend} has told what volumes it has")

    def _wait(self, seconds: float | None, failed: bool) -> bool:
        """Wait until it is time; tell whether there is anything more to do."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while not self._stopping and not (self._asked and not failed):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            self._asked = False
            return not self._stopping
