# SPDX-License-Identifier: Apache-2.0
"""Listings of all volumes, sent periodically and on request, beside the reports."""

import logging
import random
from typing import Protocol

from tonnage.agent.backoff import BackOff, FailureLog, until_invited
from tonnage.capacity import errors
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)


class ListingSender(Protocol):
    """The backend whose volumes are listed."""

    def send_listing(self) -> None:
        """List all volumes and send the list, which may take long."""


class ListingLoop:
    """Has the ``sender`` send a listing every ``interval`` seconds and on request, on its own thread.

    The first one comes up to another interval later, at random: agents that have started together list one after
    another. With an ``interval`` of 0 that is on request only. After an exception it is repeated after growing pauses.
    """

    def __init__(self, backend: str, sender: ListingSender, interval: float, backoff: BackOff) -> None:
        self._backend = backend
        self._sender = sender
        self._backoff = backoff
        self._failures = 0
        self._interval = interval
        # Whether the random time before the first listing is over.
        self._begun = False
        self._failure_log = FailureLog(LOG)
        self._worker = Worker(f"{backend} listings", self._list_once, interval or None)

    def start(self) -> None:
        """Start the thread; the first interval begins now."""
        self._worker.start()

    def request(self) -> None:
        """Send a listing as soon as possible."""
        self._begun = True
        self._worker.wake()

    def stop(self, timeout: float = 0.0) -> bool:
        """Send no further listing, and wait at most ``timeout`` seconds for the call under way; return if it has ended.

        Otherwise it ends by itself.
        """
        return self._worker.stop(timeout)

    def _list_once(self) -> float | None:
        if not self._begun:
            self._begun = True
            return self._interval * random.random()  # noqa: S311
        try:
            self._sender.send_listing()
        except errors.Busy as busy:
            LOG.debug("Backend %s sends its listing later: %s", self._backend, busy.message)
            self._worker.pause(until_invited(busy))
            return 0.0
        except Exception as error:
            self._failures += 1
            self._failure_log.failed(f"Backend {self._backend} could not send a listing of its volumes: {error}")
            # A request does not shorten this pause.
            self._worker.pause(self._backoff.after(self._failures))
            return 0.0
        self._failures = 0
        self._failure_log.recovered(f"Backend {self._backend} has sent a listing of its volumes again")
        return None
