# SPDX-License-Identifier: Apache-2.0
"""The coalescer: a queue whose items leave together, so that several share one call, message or transaction.

Each call costs more than an item in it. An item that comes alone leaves at once. Items that arrive during a call leave
together in the next one, and after a call with several items there is a rest, in which more of them gather.
"""

import collections
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

#: Most items for one destination in a turn.
BATCH_SIZE = 64

#: Seconds after which a call that has not ended no longer keeps items from leaving: its receiver may be gone.
PATIENCE = 1.0

#: The longest rest, as a multiple of the time of the last turn, and in seconds.
_REST_FACTOR = 9
_LONGEST_REST = 0.25

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class Turn(Generic[Item]):
    """Items that leave together: a batch for each destination. ``began`` is the time by the coalescer's clock.

    ``items`` are those of all batches; of a coalescer with one destination they are in order of arrival.
    """

    began: float
    batches: dict[str, list[Item]]
    items: list[Item]


class Coalescer(Generic[Item]):
    """Decides which of the items that wait leave together, and when.

    The user adds items, begins a turn when :meth:`pause` says so, makes the call and ends the turn. It has the threads,
    and a lock if several of them use the coalescer.

    A turn takes at most ``batch_size`` items for each destination; the order between destinations is that of their
    first items. Fewer than ``max_in_flight`` turns are under way when another one begins. But a turn that has been
    under way for ``patience`` seconds no longer counts, and an item that has waited for so long lets a turn begin in
    any case. If the coalescer ``rests``, each turn is followed by a rest of :func:`rest_after` seconds; a full batch
    ends it. ``batch_size`` and ``rests`` may be changed at any time. ``clock`` returns seconds.
    """

    def __init__(
        self,
        batch_size: int = BATCH_SIZE,
        max_in_flight: int = 1,
        patience: float = PATIENCE,
        *,
        rests: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.batch_size = batch_size
        self.patience = patience
        self.rests = rests
        self._max_in_flight = max_in_flight
        self._clock = clock
        # The items of each destination, each after the time of its arrival.
        self._queues: dict[str, collections.deque[tuple[float, Item]]] = {}
        self._in_flight: list[Turn[Item]] = []
        self._rest_end = -math.inf
        #: When the last turn began, by the clock.
        self.last_began = -math.inf

    @property
    def waiting(self) -> int:
        """The number of items that wait; may be read without the lock."""
        return sum(map(len, list(self._queues.values())))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no turn is under way."""
        return not self._queues and not self._in_flight

    @property
    def is_resting(self) -> bool:
        """Whether the rest after the last turn has not ended."""
        return self.rests and self._clock() < self._rest_end

    def add(self, *items: Item, destination: str = "") -> bool:
        """Queue items for a destination; return whether :meth:`pause` is shorter now.

        Without items the destination itself waits: the next turn has an empty batch for it.
        """
        is_first = not self._queues
        queue = self._queues.get(destination)
        if queue is None:
            queue = self._queues[destination] = collections.deque()
        length = len(queue)
        now = self._clock()
        for item in items:
            queue.append((now, item))
        return is_first or length < self.batch_size <= len(queue)

    def pause(self) -> float | None:
        """Return the seconds until the next turn may begin, 0 if it may now, None if nothing waits.

        The end of a turn may shorten the time.
        """
        if not self._queues:
            return None
        now = begin = self._clock()
        if self.rests and self._rest_end > now:
            is_full = any(len(queue) >= self.batch_size for queue in self._queues.values())
            begin = now if is_full else self._rest_end
        if len(self._in_flight) >= self._max_in_flight:
            starts = sorted(turn.began for turn in self._in_flight if turn.began + self.patience > now)
            if len(starts) >= self._max_in_flight:
                arrivals = [queue[0][0] for queue in self._queues.values() if queue]
                begin = max(begin, min(starts[-self._max_in_flight], *arrivals) + self.patience)
        return begin - now

    def begin(self) -> Turn[Item] | None:
        """Take the items of the next turn, None if it may not begin now."""
        if self.pause() != 0.0:
            return None
        self.last_began = self._clock()
        turn: Turn[Item] = Turn(self.last_began, {}, [])
        self.fill(turn)
        self._in_flight.append(turn)
        return turn

    def fill(self, turn: Turn[Item]) -> None:
        """Add the items that have arrived since the turn began, as far as its batches have room."""
        for destination, queue in list(self._queues.items()):
            batch = turn.batches.setdefault(destination, [])
            items = [queue.popleft()[1] for _ in range(min(self.batch_size - len(batch), len(queue)))]
            batch += items
            turn.items += items
            if not queue:
                del self._queues[destination]

    def end(self, turn: Turn[Item]) -> None:
        """Note that the call of a turn has ended; the rest begins."""
        self._in_flight.remove(turn)
        now = self._clock()
        self._rest_end = now + rest_after(len(turn.items), now - turn.began)

    def clear(self) -> list[Item]:
        """Remove all items that wait, and return them."""
        queues, self._queues = self._queues, {}
        return [item for queue in queues.values() for _, item in queue]


def rest_after(items: int, seconds: float) -> float:
    """Return the rest in seconds after a turn with so many items that took so long.

    Each turn costs more than an item in it. So the more items come, the more of them wait for the next turn; after a
    lone item there is no rest. The rest is at most nine times as long as the turn, and a quarter of a second.
    """
    return min(_LONGEST_REST, seconds * max(0, min(items - 1, _REST_FACTOR)))
