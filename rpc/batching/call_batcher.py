# SPDX-License-Identifier: Apache-2.0
"""Calls that many threads make at the same moment, travelling together.

An RPC costs more than the decision that it asks for. So only a few calls are under way at a time; what comes meanwhile
waits for the next and goes with it. Nobody waits for company: a lone call goes out at once. And nobody waits long for a
call that does not end, as when a scheduler was killed that had taken it: soon it does not count any more.
"""

import collections
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tonnage.capacity import errors

Cargo = TypeVar("Cargo")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Passenger(Generic[Cargo, Answer]):
    cargo: Cargo
    #: Set when there is an answer or an error, or when it is this one's turn to make a call.
    turn: threading.Event = field(default_factory=threading.Event)
    answers: list[Answer] = field(default_factory=list)
    error: BaseException | None = None
    leads: bool = False


class Convoy(Generic[Cargo, Answer]):
    """Makes calls with what many threads bring, at most ``flights`` at a time with at most ``seats`` aboard.

    ``send`` makes one call: it returns an answer for each, in the same order, or raises an error that is everybody's.
    It runs in the thread of one of those aboard. A call that has been under way for ``hurry`` seconds does not count;
    who has waited for so long makes one whatever others do, and takes along who else is waiting.
    """

    def __init__(
        self,
        send: Callable[[list[Cargo]], Sequence[Answer]],
        flights: int = 2,
        seats: int = 64,
        hurry: float = 1.0,
    ) -> None:
        self._send = send
        self._flights = flights
        self._seats = seats
        self._hurry = hurry
        self._lock = threading.Lock()
        # When the calls that are under way began, by who leads them.
        self._under_way: dict[_Passenger[Cargo, Answer], float] = {}
        self._waiting: collections.deque[_Passenger[Cargo, Answer]] = collections.deque()

    def call(self, cargo: Cargo) -> Answer:
        """Return the answer to this one. Raises what ``send`` raised."""
        me: _Passenger[Cargo, Answer] = _Passenger(cargo)
        with self._lock:
            if self._may_begin():
                self._begin(me)
            else:
                self._waiting.append(me)
        if not me.leads:
            self._wait(me)
        if me.leads:
            self._fly(me)
        # A new one for each: raising one object in several threads mixes their tracebacks.
        if isinstance(me.error, errors.TonnageError):
            raise type(me.error)(me.error.message)
        if me.error is not None:
            raise RuntimeError(f"the call failed with {type(me.error).__name__}") from me.error
        return me.answers[0]

    def _may_begin(self) -> bool:
        stale = time.monotonic() - self._hurry
        return sum(began > stale for began in self._under_way.values()) < self._flights

    def _begin(self, leader: _Passenger[Cargo, Answer]) -> None:
        leader.leads = True
        self._under_way[leader] = time.monotonic()

    def _wait(self, me: _Passenger[Cargo, Answer]) -> None:
        if me.turn.wait(self._hurry):
            return
        with self._lock:
            if me in self._waiting:
                self._waiting.remove(me)
                self._begin(me)
                return
        # Aboard, or about to lead.
        me.turn.wait()

    def _fly(self, me: _Passenger[Cargo, Answer]) -> None:
        with self._lock:
            aboard = [me, *(self._waiting.popleft() for _ in range(min(self._seats - 1, len(self._waiting))))]
        try:
            answers = self._send([passenger.cargo for passenger in aboard])
            if len(answers) != len(aboard):
                raise errors.Unavailable(f"{len(answers)} answers came to {len(aboard)} requests")
            for passenger, answer in zip(aboard, answers, strict=True):
                passenger.answers.append(answer)
        except BaseException as error:
            for passenger in aboard:
                passenger.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._land(aboard)

    def _land(self, aboard: list[_Passenger[Cargo, Answer]]) -> None:
        with self._lock:
            del self._under_way[aboard[0]]
            following = self._waiting.popleft() if self._waiting and self._may_begin() else None
            if following is not None:
                self._begin(following)
        # First, so that the next call is on its way while these go on.
        for passenger in ([] if following is None else [following]) + aboard[1:]:
            passenger.turn.set()
