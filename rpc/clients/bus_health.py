# SPDX-License-Identifier: Apache-2.0
"""A cached health probe of the message bus, for callers that ask often and cannot wait."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent import futures

from tonnage.rpc.transport import Transport

LOG = logging.getLogger(__name__)

#: Seconds for which a result is reused.
_FRESH_SECONDS = 5.0

#: Most seconds that a probe may take.
_PROBE_TIMEOUT = 1.0


class BusHealth:
    """Tests the bus with a message that has no receiver. Thread-safe.

    There is at most one message within ``fresh`` seconds, however many callers ask. A bus that needs longer than
    ``timeout`` seconds counts as away until it has accepted the message.
    """

    def __init__(
        self,
        transport: Transport,
        fresh: float = _FRESH_SECONDS,
        timeout: float = _PROBE_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._fresh = fresh
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._attempt: futures.Future[bool] | None = None
        self._began = 0.0

    def probe(self) -> bool:
        """Return whether the bus accepts messages."""
        with self._lock:
            now = self._clock()
            attempt = self._attempt
            if attempt is None or (attempt.done() and now - self._began > self._fresh):
                attempt = self._attempt = futures.Future()
                self._began = now
                self._start(attempt)
            remaining = self._began + self._timeout - now
        try:
            return attempt.result(max(0.0, remaining))
        except TimeoutError:
            return False

    def _start(self, attempt: futures.Future[bool]) -> None:
        # A thread for each probe, since one that hangs must not keep the next one waiting.
        try:
            threading.Thread(target=self._try, args=[attempt], name="bus-probe", daemon=True).start()
        except RuntimeError as error:  # the process has too many threads
            LOG.warning("The message bus cannot be probed: %s", error)
            attempt.set_result(False)

    def _try(self, attempt: futures.Future[bool]) -> None:
        sent = False
        try:
            self._transport.probe()
            sent = True
        except Exception as error:  # the libraries of the bus let their own exceptions through
            LOG.debug("The message bus does not accept messages: %s", error)
        finally:
            attempt.set_result(sent)  # without a result no caller would probe again
