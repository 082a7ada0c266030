# SPDX-License-Identifier: Apache-2.0
"""Whether the message bus takes messages, for those who ask often and cannot wait."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent import futures

LOG = logging.getLogger(__name__)

#: For how many seconds an answer is good.
_FRESH = 5.0

#: Most seconds that a bus may take.
_PATIENCE = 1.0


class Pulse:
    """Finds out by a message that nobody gets, which ``send`` sends. Threads may share it.

    However many ask, there is one message within ``fresh`` seconds. A bus that takes longer than ``patience`` counts as
    away until it has taken the message after all.
    """

    def __init__(
        self,
        send: Callable[[], object],
        fresh: float = _FRESH,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._fresh = fresh
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._attempt: futures.Future[bool] | None = None
        self._began = 0.0

    def beats(self) -> bool:
        """Tell whether the bus takes messages."""
        with self._lock:
            now = self._clock()
            attempt = self._attempt
            if attempt is None or (attempt.done() and now - self._began > self._fresh):
                attempt = self._attempt = futures.Future()
                self._began = now
                self._start(attempt)
            left = self._began + self._patience - now
        try:
            return attempt.result(max(0.0, left))
        except TimeoutError:
            return False

    def _start(self, attempt: futures.Future[bool]) -> None:
        try:
            threading.Thread(target=self._try, args=[attempt], name="pulse", daemon=True).start()
        except RuntimeError as error:  # as many threads as there may be
            LOG.warning("Whether the message bus takes messages cannot be found out: %s", error)
            attempt.set_result(False)

    def _try(self, attempt: futures.Future[bool]) -> None:
        sent = False
        try:
            self._send()
            sent = True
        except Exception as error:  # libraries of the bus let theirs through
            LOG.debug("The message bus does not take messages: %s", error)
        finally:
            attempt.set_result(sent)  # without one nobody would try again
