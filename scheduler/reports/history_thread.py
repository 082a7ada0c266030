# SPDX-License-Identifier: Apache-2.0
"""The thread that writes the history of pools and volume types, in any one of the schedulers."""

import logging

from tonnage.capacity import errors
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.history.history_writer import HistoryWriter
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two looks for whether a sample is due.
_PERIOD = 60.0


class HistoryThread:
    """Writes a sample when one is due."""

    def __init__(self, writer: HistoryWriter) -> None:
        self._writer = writer
        self._worker = Worker("history", self.work, _PERIOD)

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def stop(self) -> None:
        """End; a sample that is being written is written to its end."""
        self._worker.stop()

    def work(self) -> None:
        """Write a sample if one is due."""
        try:
            self._writer.sample()
        except errors.Unavailable as error:
            LOG.log(log_level(error), "The history has a hole: %s", error.message)
