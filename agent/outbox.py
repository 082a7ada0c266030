# SPDX-License-Identifier: Apache-2.0
"""Delivery of outcomes to the schedulers: each outcome is sent until a scheduler has acknowledged it.

Waiting outcomes travel together in one call. After a failed call the batches become smaller, down to one outcome, so
that no outcome keeps the others from arriving; after a successful call they grow again.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tonnage.agent.backoff import BackOff, FailureLog
from tonnage.rpc.messages import Outcome
from tonnage.worker import Worker, rest_after

LOG = logging.getLogger(__name__)

#: Largest number of calls in flight.
_WORKERS = 2

#: Seconds without an answer after which a second call may begin: the scheduler of the first one may be gone.
_STALE_SECONDS = 1.0

#: Largest number of outcomes in one call.
_MAX_BATCH = 64


#: The id of a claim, and whether its outcome is still unknown: a known outcome follows an unknown one.
_Key: TypeAlias = tuple[str, bool]


@dataclass(slots=True)
class _QueuedOutcome:
    key: _Key
    outcome: Outcome
    due: float = 0.0
    attempts: int = 0
    sending: bool = False


class OutcomeSender(Protocol):
    """The backend whose outcomes are sent."""

    def deliver(self, outcomes: Sequence[Outcome]) -> None:
        """Send outcomes in one call. Raises an exception if they have to be sent again."""


class Outbox:
    """Has outcomes sent by the ``sender``, and repeats failed calls after growing pauses.

    An outcome is sent at once if no call is in flight. Outcomes that arrive during a call, and in the rest after a call
    with several outcomes, gather and leave together in the next one; a full batch ends the rest. A call that has been
    in flight for ``stale_after`` seconds no longer keeps them.
    """

    def __init__(
        self,
        backend: str,
        sender: OutcomeSender,
        backoff: BackOff,
        stale_after: float = _STALE_SECONDS,
    ) -> None:
        self._backend = backend
        self._sender = sender
        self._backoff = backoff
        self._stale_after = stale_after
        self._failure_log = FailureLog(LOG)
        # Guards the fields below; notified when outcomes have left the outbox.
        self._changed = threading.Condition()
        self._max_batch = _MAX_BATCH
        # When the calls in flight began.
        self._calls: list[float] = []
        self._outcomes: dict[_Key, _QueuedOutcome] = {}
        # Entries (due, number, key); an entry whose outcome has another due time by now is ignored.
        self._queue: list[tuple[float, int, _Key]] = []
        self._numbers = itertools.count()
        # The end of the rest after the last call.
        self._rest_end = 0.0
        self._workers = [Worker(f"{backend} outbox {number}", self._deliver) for number in range(_WORKERS)]

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()

    def put(self, outcome: Outcome) -> None:
        """Send an outcome now, also one that waits for its next attempt."""
        with self._changed:
            now = time.monotonic()
            # Otherwise the workers know that outcomes wait.
            is_news = not self._queue or self._queue[0][0] > now
            key = outcome.claim_id, outcome.unknown
            queued = self._outcomes.get(key)
            if queued is None:
                queued = self._outcomes[key] = _QueuedOutcome(key, outcome)
            if not queued.sending:
                self._enqueue(queued, now)
            is_news = is_news or len(self._outcomes) == self._max_batch
        if is_news:
            for worker in self._workers:
                worker.wake()

    def clear(self) -> None:
        """Drop all outcomes: their epoch has ended."""
        with self._changed:
            self._outcomes.clear()
            self._queue.clear()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until each outcome is acknowledged; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._outcomes, timeout)

    def close(self) -> None:
        """Send nothing more. Calls that are under way end by themselves."""
        for worker in self._workers:
            worker.stop(timeout=0.0)

    def _enqueue(self, queued: _QueuedOutcome, due: float) -> None:
        queued.due = due
        heapq.heappush(self._queue, (due, next(self._numbers), queued.key))

    def _deliver(self) -> float | None:
        """Send the outcomes that are due; return the seconds until others are, None if none wait."""
        now = time.monotonic()
        batch, pause = self._take_due(now)
        if not batch:
            return pause
        failure: Exception | None = None
        try:
            self._sender.deliver([queued.outcome for queued in batch])
        except Exception as error:
            failure = error
        self._settle(batch, now, failure)
        return 0.0

    def _take_due(self, now: float) -> tuple[list[_QueuedOutcome], float | None]:
        """Return the outcomes to send now in one call or, if there are none, the seconds until the next look."""
        batch: list[_QueuedOutcome] = []
        with self._changed:
            if self._calls and self._calls[-1] + self._stale_after > now:
                return batch, self._calls[-1] + self._stale_after - now
            if now < self._rest_end and len(self._outcomes) < self._max_batch:
                return batch, self._rest_end - now
            while self._queue and len(batch) < self._max_batch:
                due, _, key = self._queue[0]
                if due > now:
                    break
                heapq.heappop(self._queue)
                queued = self._outcomes.get(key)
                if queued is not None and not queued.sending and queued.due == due:
                    queued.sending = True
                    batch.append(queued)
            if batch:
                self._calls.append(now)
            return batch, self._queue[0][0] - now if self._queue else None

    def _settle(self, batch: Sequence[_QueuedOutcome], began: float, failure: Exception | None) -> None:
        with self._changed:
            self._calls.remove(began)
            ended = time.monotonic()
            self._rest_end = ended + rest_after(len(batch), ended - began)
            recovers = failure is None and self._max_batch < _MAX_BATCH
            self._max_batch = min(_MAX_BATCH, self._max_batch * 2) if failure is None else max(1, len(batch) // 8)
            for queued in batch:
                queued.sending = False
                queued.attempts += 1
                if self._outcomes.get(queued.key) is not queued:
                    continue
                if failure is None:
                    del self._outcomes[queued.key]
                else:
                    self._enqueue(queued, time.monotonic() + self._backoff.after(queued.attempts))
            self._changed.notify_all()
        if recovers:
            self._failure_log.recovered(f"Backend {self._backend}: outcomes are delivered again")
        if failure is not None:
            for worker in self._workers:
                worker.wake()
            self._failure_log.failed(
                f"Backend {self._backend}: an outcome could not be delivered and is kept: {failure}"
            )
