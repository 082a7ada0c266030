# SPDX-License-Identifier: Apache-2.0
"""The bus within one process, ``kombu+memory://``, without polling.

kombu's memory transport looks for messages at an interval, which oslo.messaging sets to nothing: each listening thread
of an idle process would spin. This one waits until something has been put.
"""

import queue
import threading
import time
from typing import Any

import kombu.transport
from kombu.transport import memory


class _Arrivals(threading.Condition):
    """A count of the messages on the bus, which wakes the threads that wait for more."""

    count = 0

    def add(self) -> None:
        with self:
            self.count += 1
            self.notify_all()


_ARRIVALS = _Arrivals()


class Channel(memory.Channel):
    """kombu's channel, which counts new messages."""

    def _put(self, *args: Any, **kwargs: Any) -> None:
        super()._put(*args, **kwargs)  # type: ignore[no-untyped-call]
        _ARRIVALS.add()

    def _put_fanout(self, *args: Any, **kwargs: Any) -> None:
        super()._put_fanout(*args, **kwargs)  # type: ignore[no-untyped-call]
        _ARRIVALS.add()


class Transport(memory.Transport):
    """kombu's transport, which waits instead of polling."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Deliver one message; raise TimeoutError if none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # Read first: a message that arrives while the queues are checked ends the wait at once.
            count_before = _ARRIVALS.count
            try:
                self.cycle.get(self._deliver, timeout=timeout)  # type: ignore[union-attr]
                return
            except queue.Empty:
                remaining = None if deadline is None else deadline - time.monotonic()
                with _ARRIVALS:
                    if _ARRIVALS.count == count_before and not _ARRIVALS.wait(remaining):
                        raise TimeoutError from None


def install() -> None:
    """Make ``memory://`` mean this transport in this process."""
    kombu.transport.TRANSPORT_ALIASES["memory"] = f"{__name__}:{Transport.__name__}"
