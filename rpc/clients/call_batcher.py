# SPDX-License-Identifier: Apache-2.0
"""Batching of calls that many threads make at the same moment.

An RPC costs more than the decision that it requests. So only a few calls are in flight at a time, and items that arrive
meanwhile wait for the next call and share it. A single item is sent at once. No item waits long for a call that does
not end, for example because its scheduler was killed: after a moment such a call no longer counts.
"""

import collections
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tonnage.capacity import errors

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Waiter(Generic[Item, Answer]):
    """A thread's item. The thread either makes a call itself, as the leader of its batch, or waits for its answer."""

    item: Item
    #: Set when there is an answer or an error, or when the waiter is to lead a batch.
    ready: threading.Event = field(default_factory=threading.Event)
    answers: list[Answer] = field(default_factory=list)
    error: BaseException | None = None
    leads: bool = False


class CallBatcher(Generic[Item, Answer]):
    """Sends the items of many threads in calls of at most ``max_batch`` items, ``max_in_flight`` calls at a time.

    ``send`` makes one call: it returns an answer for each item, in the same order, or raises an error that applies to
    all of them. It runs in the thread of one of the items. A call that has been in flight for ``stale_after`` seconds
    no longer counts. An item that has waited for so long is sent in any case, together with the other items that wait.
    ``waiting`` has these items, ``in_flight`` the start times of the calls by their leaders.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Sequence[Answer]],
        max_in_flight: int = 2,
        max_batch: int = 64,
        stale_after: float = 1.0,
    ) -> None:
        self._send = send
        self._max_in_flight = max_in_flight
        self._max_batch = max_batch
        self.stale_after = stale_after
        self._lock = threading.Lock()
        # The start times of the calls in flight, by their leaders.
        self.in_flight: dict[_Waiter[Item, Answer], float] = {}
        self.waiting: collections.deque[_Waiter[Item, Answer]] = collections.deque()

    def call(self, item: Item) -> Answer:
        """Return the answer to the item. Raises the error that ``send`` raised."""
        waiter: _Waiter[Item, Answer] = _Waiter(item)
        with self._lock:
            if not self._lead(waiter):
                self.waiting.append(waiter)
        if not waiter.leads:
            self._wait(waiter)
        if waiter.leads:
            self._send_batch(waiter)
        # A new error for each thread: one object raised in several threads mixes their tracebacks.
        if isinstance(waiter.error, errors.TonnageError):
            raise type(waiter.error)(waiter.error.message)
        if waiter.error is not None:
            raise RuntimeError(f"the call failed with {type(waiter.error).__name__}") from waiter.error
        return waiter.answers[0]

    def _lead(self, waiter: _Waiter[Item, Answer], *, in_any_case: bool = False) -> bool:
        """Make a waiter the leader of a call if there may be another one; return whether it is."""
        now = time.monotonic()
        fresh = sum(began > now - self.stale_after for began in self.in_flight.values())
        if in_any_case or fresh < self._max_in_flight:
            waiter.leads = True
            self.in_flight[waiter] = now
        return waiter.leads

    def _wait(self, waiter: _Waiter[Item, Answer]) -> None:
        if waiter.ready.wait(self.stale_after):
            return
        with self._lock:
            if waiter in self.waiting:
                self.waiting.remove(waiter)
                self._lead(waiter, in_any_case=True)
                return
        # In a batch already, or about to lead one.
        waiter.ready.wait()

    def _send_batch(self, leader: _Waiter[Item, Answer]) -> None:
        with self._lock:
            followers = [self.waiting.popleft() for _ in range(min(self._max_batch - 1, len(self.waiting)))]
        batch = [leader, *followers]
        try:
            answers = self._send([waiter.item for waiter in batch])
            if len(answers) != len(batch):
                raise errors.Unavailable(f"{len(answers)} answers came to {len(batch)} requests")
            for waiter, answer in zip(batch, answers, strict=True):
                waiter.answers.append(answer)
        except BaseException as error:
            for waiter in batch:
                waiter.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._end(batch)

    def _end(self, batch: list[_Waiter[Item, Answer]]) -> None:
        with self._lock:
            del self.in_flight[batch[0]]
            following = [self.waiting.popleft()] if self.waiting and self._lead(self.waiting[0]) else []
        # The next leader first, so that its call is in flight while the other threads continue.
        for waiter in following + batch[1:]:
            waiter.ready.set()
