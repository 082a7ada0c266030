# SPDX-License-Identifier: Apache-2.0
"""The thread that writes the history of pools and volume types and makes the forecasts, in one of the schedulers."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tonnage.capacity import errors
from tonnage.extensions.history.history_writer import HistoryWriter
from tonnage.ledger.db.db_errors import log_level
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two looks for whether a sample is due.
_PERIOD = 60.0

#: The rest after some forecasts, as a multiple of their time: decisions are more urgent.
_REST = 4.0

#: The name of the work among schedulers that take turns.
_FORECASTS = "forecasts"


class Turns(Protocol):
    """The schedulers, which share work among them."""

    def has_turn(self, work: str) -> bool:
        """Return whether it is this scheduler's turn to do some work."""


class Forecasts(Protocol):
    """Makes forecasts."""

    def work(self, go_on: Callable[[], bool]) -> object:
        """Make the forecasts that are due; call ``go_on`` now and then, and end if it returns False."""


class HistoryThread:
    """Writes a sample when one is due, and lets the scheduler whose turn it is make the forecasts that are due."""

    def __init__(self, writer: HistoryWriter, forecasters: Sequence[Forecasts], turns: Turns) -> None:
        self._writer, self._forecasters, self._turns = writer, forecasters, turns
        self._began = 0.0
        self._worker = Worker("history", self.work, _PERIOD)

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def stop(self) -> None:
        """End. A sample that is being written is written to its end; forecasts go on in another scheduler."""
        self._worker.stop()

    def work(self) -> None:
        """Write a sample if one is due, and make the forecasts that are due."""
        self._sample()
        if not self._turns.has_turn(_FORECASTS):
            return
        for forecaster in self._forecasters:
            self._began = time.monotonic()
            try:
                forecaster.work(self._rest)
            except errors.TonnageError as error:
                LOG.log(log_level(error), "The forecasts wait: %s", error.message)

    def _sample(self) -> None:
        try:
            self._writer.sample()
        except errors.Unavailable as error:
            LOG.log(log_level(error), "The history has a hole: %s", error.message)

    def _rest(self) -> bool:
        """Rest after some forecasts, and write a sample if one is due; return False if this thread has to end."""
        goes_on = self._worker.pause(_REST * (time.monotonic() - self._began))
        if goes_on:
            self._sample()
        self._began = time.monotonic()
        return goes_on
