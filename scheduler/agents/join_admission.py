# SPDX-License-Identifier: Apache-2.0
"""The admission of joining agents: few of their messages at a time, and for all others a time to come back.

A thousand agents may start at once. If all their messages waited for the decision thread, each would wait for so long
that its agent gives it up and sends it again, and the thread would handle what nobody waits for. So a message that
would have to wait is answered at once: with the number of seconds after which the agent shall come back, which grows
with the number of backends that have come before it.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from tonnage.capacity import errors

#: Most messages in hand with which a hello is admitted, and most with which a listing is: it ends a join, so it comes
#: before the hellos that begin others. Fewer than the threads of :mod:`tonnage.rpc.scheduler_server`, so that some of
#: these are free for answers.
_WITH_HELLO, _WITH_LISTING = 6, 12

#: Seconds of work for a message before the first has been measured, and the weight of a new measurement in the average.
_FIRST_WORK, _WEIGHT = 0.05, 0.1

#: Messages of a join: the hello and the listing.
_MESSAGES = 2

#: The shortest and the longest time in seconds until an agent comes back.
_SHORTEST, _LONGEST = 1.0, 60.0

#: Seconds after which a backend that does not come back has gone, or has joined through another scheduler.
_FORGOTTEN = 2 * _LONGEST


class JoinAdmission:
    """Admits messages of backends. Thread-safe.

    A backend keeps its place among those that come back. It has one message in hand at most: a second one is sent when
    the agent has waited in vain for the answer to the first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._in_hand: set[str] = set()
        # The backends that shall come back, in the order in which they came first, each with the time when it was last
        # told so.
        self._waiting: dict[str, float] = {}
        # Average seconds of the decision thread for a message.
        self._work = _FIRST_WORK

    @contextlib.contextmanager
    def hello(self, backend: str) -> Iterator[None]:
        """Handle a hello in this context. Raises :class:`~tonnage.capacity.errors.Busy` if it is not admitted."""
        with self._admitted(backend, _WITH_HELLO):
            yield

    @contextlib.contextmanager
    def listing(self, backend: str) -> Iterator[None]:
        """Handle a listing in this context. Raises :class:`~tonnage.capacity.errors.Busy` if it is not admitted."""
        with self._admitted(backend, _WITH_LISTING):
            yield

    @contextlib.contextmanager
    def _admitted(self, backend: str, most: int) -> Iterator[None]:
        with self._lock:
            if len(self._in_hand) >= most or backend in self._in_hand:
                raise self._refusal(backend)
            self._waiting.pop(backend, None)
            self._in_hand.add(backend)
            number = len(self._in_hand)
        began = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._in_hand.remove(backend)
                # The thread has worked for all that were in hand.
                self._work += _WEIGHT * ((self._clock() - began) / number - self._work)

    def _refusal(self, backend: str) -> errors.Busy:
        now = self._clock()
        self._waiting = {name: told for name, told in self._waiting.items() if now - told < _FORGOTTEN}
        self._waiting[backend] = now
        before = next(place for place, name in enumerate(self._waiting) if name == backend)
        seconds = (len(self._in_hand) + _MESSAGES * before) * self._work
        seconds = round(min(_LONGEST, max(_SHORTEST, seconds)), 1)
        return errors.Busy(f"the scheduler is busy with other backends, {before} of which came before", seconds)
