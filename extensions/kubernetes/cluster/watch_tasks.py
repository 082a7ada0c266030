# SPDX-License-Identifier: Apache-2.0
"""Rounds of a background task that follow a watch: one after each change, and one from time to time."""

import abc
import logging
import time

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.object_watch import WatchThread
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds until the next round after a failed one.
_RETRY_SECONDS = 5.0


class WatchedRounds(abc.ABC):
    """A thread for rounds, and a watch that wakes it. The subclass sets ``_watch``, which calls :meth:`_wake`."""

    #: The name of the thread, and the text of the log for a failed round.
    thread_name: str
    failure: str
    #: Seconds between two rounds without a change, and for which changes are collected before a round.
    interval: float
    debounce: float

    _watch: WatchThread

    def __init__(self) -> None:
        self._worker = Worker(self.thread_name, self._turn, retry_pause=_RETRY_SECONDS)
        self._last_failure = ""
        self._processor_seconds = 0.0

    @abc.abstractmethod
    def _round(self) -> None:
        """Run one round. Raises :class:`~tonnage.capacity.errors.TonnageError` if it has to be repeated."""

    def start(self) -> None:
        """Start the threads."""
        self._watch.start()
        self._worker.start()
        self._worker.wake()

    def stop(self) -> None:
        """Stop the threads, if they were started."""
        if self._worker.alive:
            self._interrupt()
            self._watch.stop()
            self._worker.stop()

    def _interrupt(self) -> None:  # noqa: B027
        """End the current round soon."""

    def _wake(self) -> None:
        self._worker.wake()

    def _turn(self) -> float | None:
        """Run one round, and return the seconds to wait for the next one without a change."""
        # Python uses one processor: beside long rounds, as of thousands of claims, three quarters of it are for others.
        if not self._worker.pause(max(self.debounce, 3 * self._processor_seconds)):
            return None
        began = time.thread_time()
        try:
            self._round()
        except errors.TonnageError as error:
            if self._last_failure != error.message:
                LOG.warning("%s: %s", self.failure, error.message)
            self._last_failure = error.message
            return _RETRY_SECONDS
        finally:
            self._processor_seconds = time.thread_time() - began
        self._last_failure = ""
        return self.interval
