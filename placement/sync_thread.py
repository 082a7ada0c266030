# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps OpenStack Placement up to date. One scheduler at a time does, the others look on."""

import logging
import threading
import time
from collections.abc import Callable

from tonnage.capacity import errors
from tonnage.placement.allocation_writer import Writer
from tonnage.placement.client import Refused

LOG = logging.getLogger(__name__)

#: What schedulers agree by whose turn it is.
TURN = "placement"

#: Seconds between two looks at what is to be told. One reads all claims, so it may take a twentieth of the time.
_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_SHARE = 19

#: Seconds between two looks at what pools have, which ask Placement about each and may take as little of the time, and
#: until Placement is tried again that was away.
_SWEEP = 60.0
_AWAY = 5.0


class Keeper:
    """Writes in a thread of its own whenever ``has_turn`` says so of :data:`TURN`."""

    def __init__(self, writer: Writer, has_turn: Callable[[str], bool]) -> None:
        self._writer = writer
        self._has_turn = has_turn
        self._next_sweep = 0.0
        self._failing = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placement", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is being told now; the rest is told by who comes next."""
        self._stopped.set()
        self._thread.join()

    def turn(self) -> float:
        """Do what is due, and return the seconds until there may be more."""
        if not self._has_turn(TURN):
            # What is known of Placement may be old when it is this one's turn again.
            self._next_sweep = 0.0
            return _PAUSE
        begun = time.monotonic()
        try:
            if begun >= self._next_sweep:
                self._writer.providers.sweep(stopped=self._stopped.is_set)
                ended = time.monotonic()
                self._next_sweep = ended + max(_SWEEP, _SHARE * (ended - begun))
            seconds = self._writer.tell(stopped=self._stopped.is_set).seconds
        except (errors.Unavailable, Refused) as error:
            self._next_sweep = 0.0
            self._log(logging.WARNING, not self._failing, f"Allocations are written later: {error.message}")
            self._failing = True
            return _AWAY
        self._log(logging.INFO, self._failing, "Allocations are written to OpenStack Placement again")
        self._failing = False
        return min(_LONGEST_PAUSE, max(_PAUSE, _SHARE * seconds))

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                pause = self.turn()
            except Exception:
                LOG.exception("Allocations could not be written")
                pause = _AWAY

    @staticmethod
    def _log(level: int, really: bool, text: str) -> None:
        if really:
            LOG.log(level, "%s", text)
