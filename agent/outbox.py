# SPDX-License-Identifier: Apache-2.0
"""Outcomes on their way to a scheduler. None is lost: each is sent until it was acknowledged.

What waits travels together. Where that fails, smaller companies try it, down to each alone, so that none keeps others
from arriving; where it goes well they grow again.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tonnage.agent.backoff import Complaints, Pauses
from tonnage.rpc.messages import Outcome

LOG = logging.getLogger(__name__)

#: A call that nobody answers takes some seconds; this many may do so before others have to wait.
#: While they are under way, what else has ended gathers for the next.
_THREADS = 2

#: Most outcomes that travel in one call.
_MOST = 64


#: Seconds between two calls in which outcomes that end meanwhile gather. Nobody waits for them.
_COMPANY = 0.2


@dataclass(slots=True)
class _Letter:
    outcome: Outcome
    due: float
    attempts: int = 0
    sending: bool = False


class Outbox:
    """Sends outcomes, the ones that fail again after growing pauses. ``send`` raises whatever keeps them back.

    One after a quiet time goes at once; those that follow wait a moment for each other, as a call costs more than all
    that it carries.
    """

    def __init__(self, backend: str, send: Callable[[Sequence[Outcome]], None], pauses: Pauses) -> None:
        self._backend = backend
        self._send = send
        self._pauses = pauses
        self._complaints = Complaints(LOG)
        self._changed = threading.Condition()
        self._closed = False
        self._most = _MOST
        self._departed = -_COMPANY
        self._letters: dict[str, _Letter] = {}
        # (due, number, claim id); entries that the letter has outlived are passed over.
        self._queue: list[tuple[float, int, str]] = []
        self._numbers = itertools.count()
        self._threads = [
            threading.Thread(target=self._deliver, name=f"{backend} outbox {number}", daemon=True)
            for number in range(_THREADS)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def put(self, outcome: Outcome) -> None:
        """Send an outcome now; one that waits for its next attempt does not wait any longer."""
        with self._changed:
            letter = self._letters.get(outcome.claim_id)
            if letter is None:
                letter = self._letters[outcome.claim_id] = _Letter(outcome, 0.0)
            if not letter.sending:
                self._enqueue(letter, max(time.monotonic(), self._departed + _COMPANY))

    def clear(self) -> None:
        """Forget all outcomes: their epoch is over."""
        with self._changed:
            self._letters.clear()
            self._queue.clear()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until every outcome was acknowledged; tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._letters, timeout)

    def close(self) -> None:
        """Send nothing more. Calls that are under way end by themselves."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _enqueue(self, letter: _Letter, due: float) -> None:
        letter.due = due
        heapq.heappush(self._queue, (due, next(self._numbers), letter.outcome.claim_id))
        self._changed.notify_all()

    def _deliver(self) -> None:
        while letters := self._next():
            failure: Exception | None = None
            try:
                self._send([letter.outcome for letter in letters])
            except Exception as error:
                failure = error
            self._settle(letters, failure)

    def _next(self) -> list[_Letter]:
        """Wait for letters that are due and return them; none once closed."""
        with self._changed:
            while not self._closed:
                letters: list[_Letter] = []
                now = time.monotonic()
                pause = None
                while self._queue and len(letters) < self._most:
                    due, _, claim_id = self._queue[0]
                    if due > now:
                        pause = due - now
                        break
                    heapq.heappop(self._queue)
                    letter = self._letters.get(claim_id)
                    if letter is not None and not letter.sending and letter.due == due:
                        letter.sending = True
                        letters.append(letter)
                if letters:
                    self._departed = now
                    return letters
                self._changed.wait(pause)
            return []

    def _settle(self, letters: list[_Letter], failure: Exception | None) -> None:
        with self._changed:
            self._most = min(_MOST, self._most * 2) if failure is None else max(1, len(letters) // 8)
            for letter in letters:
                letter.sending = False
                letter.attempts += 1
                if self._letters.get(letter.outcome.claim_id) is not letter:
                    continue
                if failure is None:
                    del self._letters[letter.outcome.claim_id]
                else:
                    self._enqueue(letter, time.monotonic() + self._pauses.after(letter.attempts))
            self._changed.notify_all()
        if failure is None:
            self._complaints.over(f"Backend {self._backend}: outcomes arrive again")
        else:
            self._complaints.about(f"Backend {self._backend}: an outcome could not be delivered and is kept: {failure}")
