# SPDX-License-Identifier: Apache-2.0
"""Batching of calls that many threads make at the same moment.

An RPC costs more than the decision that it requests. So only a few calls are in flight at a time, and items that arrive
meanwhile wait for the next call and share it. A single item is sent at once. No item waits long for a call that does
not end, for example because its scheduler was killed: after a moment such a call no longer counts.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tonnage.capacity import errors
from tonnage.coalescer import BATCH_SIZE, PATIENCE, Coalescer, Turn

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Waiter(Generic[Item, Answer]):
    """A thread's item. The thread either makes the call of its turn, as the first of its items, or waits for it."""

    item: Item
    #: Set when there is an answer or an error, or when the thread is to make the call of ``turn``.
    ready: threading.Event = field(default_factory=threading.Event)
    turn: "Turn[_Waiter[Item, Answer]] | None" = None
    answers: list[Answer] = field(default_factory=list)
    error: BaseException | None = None


class CallBatcher(Generic[Item, Answer]):
    """Sends the items of many threads in calls of at most ``batch_size`` items, ``max_in_flight`` calls at a time.

    ``send`` makes one call: it returns an answer for each item, in the same order, or raises an error that applies to
    all of them. It runs in the thread of the first item. A call that has been in flight for ``patience`` seconds no
    longer counts. An item that has waited for so long is sent in any case, together with the other items that wait.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Sequence[Answer]],
        max_in_flight: int = 2,
        batch_size: int = BATCH_SIZE,
        patience: float = PATIENCE,
    ) -> None:
        self._send = send
        # Guards the items.
        self._lock = threading.Lock()
        self.items: Coalescer[_Waiter[Item, Answer]] = Coalescer(batch_size, max_in_flight, patience, rests=False)

    def call(self, item: Item) -> Answer:
        """Return the answer to the item. Raises the error that ``send`` raised."""
        waiter: _Waiter[Item, Answer] = _Waiter(item)
        with self._lock:
            self.items.add(waiter)
            turn = self.items.begin()
        _lead(turn)
        while not waiter.ready.wait(self.items.patience):
            with self._lock:
                turn = self.items.begin()
            _lead(turn)
        if waiter.turn is not None:
            self._send_turn(waiter.turn)
        # A new error for each thread: one object raised in several threads mixes their tracebacks.
        if isinstance(waiter.error, errors.TonnageError):
            raise type(waiter.error)(waiter.error.message)
        if waiter.error is not None:
            raise RuntimeError(f"the call failed with {type(waiter.error).__name__}") from waiter.error
        return waiter.answers[0]

    def _send_turn(self, turn: Turn[_Waiter[Item, Answer]]) -> None:
        with self._lock:
            # Threads with answers of the last call have come with new items while this one woke up.
            self.items.fill(turn)
        waiters = turn.items
        try:
            answers = self._send([waiter.item for waiter in waiters])
            if len(answers) != len(waiters):
                raise errors.Unavailable(f"{len(answers)} answers came to {len(waiters)} requests")
            for waiter, answer in zip(waiters, answers, strict=True):
                waiter.answers.append(answer)
        except BaseException as error:
            for waiter in waiters:
                waiter.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                self.items.end(turn)
                next_turn = self.items.begin()
            # The next call first, so that it is in flight while the other threads continue.
            _lead(next_turn)
            for waiter in waiters[1:]:
                waiter.ready.set()


def _lead(turn: Turn[_Waiter[Item, Answer]] | None) -> None:
    """Let the thread of the first item, which has waited longest, make the call of a turn."""
    if turn is not None:
        leader = turn.items[0]
        leader.turn = turn
        leader.ready.set()
