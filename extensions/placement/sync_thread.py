# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps OpenStack Placement up to date. Only one scheduler at a time writes to Placement."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from tonnage.capacity import errors
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.client import PlacementRefused
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Name of the task. The scheduler that has the turn of this task writes to Placement.
TASK = "placement"

#: Minimum and maximum seconds between two rounds. A round reads all claims, so the pause is at least ``PAUSE_FACTOR``
#: times as long as the reading: it takes at most a twentieth of the time.
MIN_PAUSE = 1.0
MAX_PAUSE = 300.0
PAUSE_FACTOR = 19

#: Minimum seconds between two updates of the providers, which read each provider from Placement and take at most the
#: same share of the time. Seconds until the next attempt after Placement was unavailable.
_RECONCILE_INTERVAL = 60.0
RETRY_PAUSE = 5.0


class Turns(Protocol):
    """The turns of schedulers."""

    def has_turn(self, work: str) -> bool:
        """Return whether this scheduler has the turn of some work, which only one scheduler does at a time."""


class SyncThread:
    """A thread that writes to Placement while :data:`TASK` is this scheduler's turn."""

    def __init__(self, writer: AllocationWriter, turns: Turns, clock: Callable[[], float] = time.monotonic) -> None:
        self._writer = writer
        self._turns = turns
        self._clock = clock
        self._next_reconcile = 0.0
        self._failing = False
        self._worker = Worker("placement", self.run_once, retry_pause=RETRY_PAUSE)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()
        self._worker.wake()

    def stop(self) -> None:
        """Stop after the current write. The next scheduler in turn writes the rest."""
        self._worker.stop()

    def run_once(self) -> float:
        """Write pending changes. Return the seconds until the next call."""
        if not self._turns.has_turn(TASK):
            # The cached providers may be outdated when this scheduler has its next turn.
            self._next_reconcile = 0.0
            return MIN_PAUSE
        started = self._clock()
        try:
            if started >= self._next_reconcile:
                self._writer.providers.reconcile(stopped=self._is_stopping)
                ended = self._clock()
                self._next_reconcile = ended + max(_RECONCILE_INTERVAL, PAUSE_FACTOR * (ended - started))
            seconds = self._writer.write_all(stopped=self._is_stopping).seconds
        except (errors.Unavailable, PlacementRefused) as error:
            self._next_reconcile = 0.0
            self._log(logging.WARNING, not self._failing, f"Allocations are written later: {error.message}")
            self._failing = True
            return RETRY_PAUSE
        self._log(logging.INFO, self._failing, "Allocations are written to OpenStack Placement again")
        self._failing = False
        return min(MAX_PAUSE, max(MIN_PAUSE, PAUSE_FACTOR * seconds))

    def _is_stopping(self) -> bool:
        return self._worker.stopping

    @staticmethod
    def _log(level: int, enabled: bool, text: str) -> None:
        if enabled:
            LOG.log(level, "%s", text)
