# SPDX-License-Identifier: Apache-2.0
"""The admission of joining agents: few of their messages at a time, and for all others a time to come back.

A thousand agents may start at once. If all their messages waited for the decision thread, each would wait for so long
that its agent gives it up and sends it again, and the thread would handle abandoned messages. So a message that
would have to wait for long is answered at once: with the number of seconds after which the agent shall come back, which
grows with the number of backends that have come before it.

That number is a forecast and reserves nothing: any message that comes while there is room is admitted.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tonnage.capacity import errors
from tonnage.rpc.messages import Hello, Listing, Receipt, Welcome

Answer = TypeVar("Answer")

#: Seconds of work for a message before the first has been measured, and the weight of a new measurement in the average.
_FIRST_WORK, _WEIGHT = 0.05, 0.1

#: Messages of a join: the hello and the listing.
_MESSAGES = 2

#: The shortest and the longest time in seconds until an agent comes back.
_SHORTEST, _LONGEST = 1.0, 60.0

#: An agent comes back up to a fifth later than it was told, and its message may wait on the bus for so many seconds. A
#: backend that has not come by then has gone, or has joined through another scheduler.
_LATEST, _TRANSIT = 1.2, 10.0


@dataclass(slots=True)
class _Line:
    """Messages of one kind.

    One is admitted if, with those in hand, it makes at most ``most`` messages and ``seconds`` of work, and in any case
    if none is in hand. ``waiting`` are the backends that shall come back with one, in the order in which they came
    first, each with the time until which it is expected.
    """

    most: int
    seconds: float
    waiting: dict[str, float] = field(default_factory=dict)

    def forget_missing(self, now: float) -> None:
        """Forget the backends that have not come back."""
        self.waiting = {name: until for name, until in self.waiting.items() if now < until}


@dataclass(slots=True, eq=False)
class _InHand:
    """A message in hand, the future of its answer, and whether a copy of it waits for that answer, too."""

    identity: Hashable
    answer: futures.Future[Any] = field(default_factory=futures.Future)
    has_copy: bool = False


class JoinAdmission:
    """Admits messages of backends. Thread-safe.

    A backend has one message in hand at most. A copy of that message, which comes from an agent that has given the
    first one up, gets the same answer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._in_hand: dict[str, _InHand] = {}
        # A listing ends a join, so it comes before the hellos that begin others. The messages in hand and their copies
        # are fewer than the threads of :mod:`tonnage.rpc.scheduler_server`, and some of these are free for refusals. A
        # hello is answered long before its agent gives it up.
        self._hellos, self._listings = _Line(6, 2.0), _Line(12, 4.0)
        # Average seconds of the decision thread for a message.
        self._work = _FIRST_WORK

    def hello(self, message: Hello, work: Callable[[], Welcome]) -> Welcome:
        """Return the result of ``work``, which handles a hello.

        Raises the errors of ``work``, and :class:`~tonnage.capacity.errors.Busy` if the hello is not admitted.
        """
        identity = message.nonce, tuple(sorted(message.ledger_marks.items()))
        return self._handle(self._hellos, message.backend, identity, work)

    def listing(self, message: Listing, work: Callable[[], Receipt]) -> Receipt:
        """Return the result of ``work``, which handles a listing.

        Raises the errors of ``work``, and :class:`~tonnage.capacity.errors.Busy` if the listing is not admitted.
        """
        return self._handle(self._listings, message.backend, (message.epoch, message.tick), work)

    def _handle(self, line: _Line, backend: str, identity: Hashable, work: Callable[[], Answer]) -> Answer:
        with self._lock:
            first = self._in_hand.get(backend)
            if first is not None and first.identity == identity and not first.has_copy:
                first.has_copy = True
            elif first is not None or not self._has_room(line):
                raise self._refusal(line, backend)
            else:
                self._hellos.waiting.pop(backend, None)
                self._listings.waiting.pop(backend, None)
                admitted = self._in_hand[backend] = _InHand(identity)
                number = len(self._in_hand)
        if first is not None:
            answer: Answer = first.answer.result()
            return answer
        began = self._clock()
        try:
            answer = work()
        except BaseException as error:
            admitted.answer.set_exception(error)
            raise
        else:
            admitted.answer.set_result(answer)
            return answer
        finally:
            with self._lock:
                del self._in_hand[backend]
                # The thread has worked for all that were in hand.
                self._work += _WEIGHT * ((self._clock() - began) / number - self._work)

    def _has_room(self, line: _Line) -> bool:
        number = len(self._in_hand) + 1
        return number == 1 or (number <= line.most and number * self._work <= line.seconds)

    def _refusal(self, line: _Line, backend: str) -> errors.Busy:
        now = self._clock()
        for waiting_line in (self._hellos, self._listings):
            waiting_line.forget_missing(now)
        line.waiting.setdefault(backend, now)
        before = next(place for place, name in enumerate(line.waiting) if name == backend)
        others = before if line is self._listings else len(self._listings.waiting) + _MESSAGES * before
        seconds = round(min(_LONGEST, max(_SHORTEST, (len(self._in_hand) + others) * self._work)), 1)
        line.waiting[backend] = now + _LATEST * seconds + _TRANSIT
        return errors.Busy(f"the scheduler is busy with other backends, {before} of which came before", seconds)
