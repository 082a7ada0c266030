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
from tonnage.coalescer import BATCH_SIZE, PATIENCE, Coalescer, Turn
from tonnage.rpc.messages import Outcome
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Number of threads: a second call may begin while one has no answer, because its scheduler may be gone.
_WORKERS = 2

#: The id of a claim, and whether its outcome is still unknown: a known outcome follows an unknown one.
_Key: TypeAlias = tuple[str, bool]


@dataclass(slots=True, eq=False)
class _QueuedOutcome:
    """An outcome that is not acknowledged. ``retry_at`` is the time of its next attempt after a failed one."""

    key: _Key
    outcome: Outcome
    attempts: int = 0
    retry_at: float | None = None


class OutcomeSender(Protocol):
    """The backend whose outcomes are sent."""

    def deliver(self, outcomes: Sequence[Outcome]) -> None:
        """Send outcomes in one call. Raises an exception if they have to be sent again."""


class Outbox:
    """Has outcomes sent by the ``sender``, and repeats failed calls after growing pauses.

    The outcomes that are due leave by a :class:`~tonnage.coalescer.Coalescer`: a lone one at once, those that arrive
    during a call, or in the rest after one, together. A call that has been in flight for ``patience`` seconds no longer
    keeps them.
    """

    def __init__(self, backend: str, sender: OutcomeSender, backoff: BackOff, patience: float = PATIENCE) -> None:
        self._backend = backend
        self._sender = sender
        self._backoff = backoff
        self._failure_log = FailureLog(LOG)
        # Guards the fields below; notified when outcomes have left the outbox.
        self._changed = threading.Condition()
        self._outcomes: dict[_Key, _QueuedOutcome] = {}
        self._due: Coalescer[_QueuedOutcome] = Coalescer(patience=patience)
        # Entries (retry_at, number, outcome); an entry whose outcome has another time by now is ignored.
        self._retries: list[tuple[float, int, _QueuedOutcome]] = []
        self._numbers = itertools.count()
        self._workers = [Worker(f"{backend} outbox {number}", self._deliver) for number in range(_WORKERS)]

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()

    def put(self, outcome: Outcome) -> None:
        """Send an outcome now, also one that waits for its next attempt."""
        with self._changed:
            key = outcome.claim_id, outcome.unknown
            queued = self._outcomes.get(key)
            if queued is None:
                queued = self._outcomes[key] = _QueuedOutcome(key, outcome)
            elif queued.retry_at is None:
                return
            queued.retry_at = None
            is_news = self._due.add(queued)
        if is_news:
            self._wake()

    def clear(self) -> None:
        """Drop all outcomes: their epoch has ended."""
        with self._changed:
            self._outcomes.clear()
            self._due.clear()
            self._retries.clear()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until each outcome is acknowledged; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._outcomes, timeout)

    def close(self) -> None:
        """Send nothing more. Calls that are under way end by themselves."""
        for worker in self._workers:
            worker.stop(timeout=0.0)

    def _wake(self) -> None:
        for worker in self._workers:
            worker.wake()

    def _deliver(self) -> float | None:
        """Send the outcomes of a turn, if it may begin; return the seconds until the next look, None if none wait."""
        with self._changed:
            next_retry = self._take_retries()
            turn = self._due.begin()
            if turn is None:
                return min((pause for pause in (self._due.pause(), next_retry) if pause is not None), default=None)
        failure: Exception | None = None
        try:
            self._sender.deliver([queued.outcome for queued in turn.items])
        except Exception as error:
            failure = error
        self._settle(turn, failure)
        return 0.0

    def _take_retries(self) -> float | None:
        """Add the failed outcomes that are due again; return the seconds until others are, None without any."""
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now:
            retry_at, _, queued = heapq.heappop(self._retries)
            if queued.retry_at == retry_at:
                queued.retry_at = None
                self._due.add(queued)
        return self._retries[0][0] - now if self._retries else None

    def _settle(self, turn: Turn[_QueuedOutcome], failure: Exception | None) -> None:
        with self._changed:
            self._due.end(turn)
            items = turn.items
            size = self._due.batch_size
            recovers = failure is None and size < BATCH_SIZE
            self._due.batch_size = min(BATCH_SIZE, size * 2) if failure is None else max(1, len(items) // 8)
            for queued in items:
                queued.attempts += 1
                if self._outcomes.get(queued.key) is not queued:
                    continue
                if failure is None:
                    del self._outcomes[queued.key]
                else:
                    queued.retry_at = time.monotonic() + self._backoff.after(queued.attempts)
                    heapq.heappush(self._retries, (queued.retry_at, next(self._numbers), queued))
            self._changed.notify_all()
        if recovers:
            self._failure_log.recovered(f"Backend {self._backend}: outcomes are delivered again")
        if failure is not None:
            self._wake()
            self._failure_log.failed(
                f"Backend {self._backend}: an outcome could not be delivered and is kept: {failure}"
            )
