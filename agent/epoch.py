# SPDX-License-Identifier: Apache-2.0
"""The clock of one epoch.

No wall clock orders what happens on a backend. Within an epoch, which the ledger gives, the agent counts ticks: a
report takes one before the driver looks, an operation takes one after it has ended. So an operation with a lower tick
than a report's had ended before the driver looked, and is contained in its figures.
"""

import itertools
import threading


class Epoch:
    """Ticks and numbers of reports. Each is given once and they only grow, whichever thread asks."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._ticks = itertools.count(1)
        self._reports = itertools.count(1)
        self._lock = threading.Lock()

    def tick(self) -> int:
        """Take the next tick."""
        with self._lock:
            return next(self._ticks)

    def begin_report(self) -> tuple[int, int]:
        """Return the number of the next report and the tick that it covers; call this before the driver looks."""
        with self._lock:
            return next(self._reports), next(self._ticks)
