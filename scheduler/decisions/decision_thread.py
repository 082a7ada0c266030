# SPDX-License-Identifier: Apache-2.0
"""The decision thread: the one thread that decides.

It owns the pool table and everything that changes with it, so none of that needs a lock. Items that arrive while it is
busy are handed over together: all items for the same handler become one call, which makes a group commit. The order of
arrival has no meaning between different handlers: a caller that needs an order waits for the first answer.

A handler may be paced: after a call with several items it rests, the longer the more items there were, and then gets
all that arrived meanwhile. A whole batch ends the rest. So outcomes and reports of a busy installation travel in few
transactions, and the more these conflict with other schedulers, the fewer they are. An item that comes alone is handed
over at once, and so is the next one.

The handlers take turns, and the one whose last turn is longest ago comes first. So requests that wait have their turn
between two batches of reports, and between listings of agents, however many agents join at once.
"""

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tonnage import plugin
from tonnage.capacity import errors, plugin_errors
from tonnage.coalescer import Coalescer
from tonnage.ledger.db.db_errors import log_level

LOG = logging.getLogger(__name__)

#: Seconds after which no item with a caller is handed over any more: longer than callers wait, shorter than refusals
#: are kept. When the process was suspended for longer than that, nobody waits for the request any more. For a request
#: with a key that is certain only in the ledger, see :mod:`tonnage.ledger.claims.request_keys`.
LONGEST_WAIT = 600.0

#: Seconds between two looks at whether the thread was abandoned while its end is waited for.
_JOIN_PERIOD = 0.2

#: Seconds after which no further call begins in the turn of a handler that gets one item in a call.
_TURN = 0.5

#: How many batches are taken from the queue at a time.
_ROUND = 4

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Takes items in order of arrival and returns a result for each. A result that is an exception is raised to the caller.
Handler = Callable[[Sequence[Item]], Sequence[Result | Exception]]


@dataclass(frozen=True, slots=True)
class _Job(Generic[Item, Result]):
    handler: Handler[Item, Result]
    item: Item
    future: futures.Future[Result]
    expires: float = math.inf


class DecisionThread:
    """Runs handlers one after another, and the periodic tasks about every ``period`` seconds in between.

    ``paced`` has the handlers that are paced, ``unbatched`` those that get one item in a call, because no two of their
    items share a transaction; a turn of theirs has calls for half a second. Both are set before the start.
    """

    def __init__(self, batch_size: int, period: float = 1.0) -> None:
        self.paced: Collection[object] = ()
        self.unbatched: Collection[object] = ()
        self._batch_size = batch_size
        self._period = period
        self._periodic_tasks: Callable[[], None] | None = None
        # The jobs of each handler that rests or has jobs that wait, in the order in which these were first asked for.
        self._coalescers: dict[object, Coalescer[_Job[Any, Any]]] = {}
        self._jobs: queue.SimpleQueue[_Job[Any, Any] | None] = queue.SimpleQueue()
        # When the call under way began, None without one.
        self._turn_began: float | None = None
        # The jobs of the call under way.
        self._in_hand: Sequence[_Job[Any, Any]] = ()
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)
        self._stopping = False
        # Nothing is queued behind the end: it would never be taken.
        self._ending = threading.Lock()

    def start(self, periodic_tasks: Callable[[], None] | None = None) -> None:
        """Start the thread."""
        self._periodic_tasks = periodic_tasks
        self._thread.start()

    def stop(self) -> None:
        """Finish the submitted items, then end. An item that is submitted later fails."""
        with self._ending:
            self._stopping = True
            self._jobs.put(None)
        while self._thread.is_alive() and not self._is_abandoned:
            self._thread.join(_JOIN_PERIOD)

    def abandon(self, patience: float) -> bool:
        """Fail all items if the call under way has lasted for ``patience`` seconds; return whether it has.

        The items of that call may take effect later; another scheduler may take the others. The thread cannot be ended.
        :meth:`stop` does not wait for it any more, so that the process can end.
        """
        seconds = self.turn_seconds()
        if seconds < patience:
            return False
        LOG.error("%s has not returned for %.0f s; the scheduler ends without it", self.obstacle(), seconds)
        with self._ending:
            self._stopping = self._is_abandoned = True
        waiting: list[_Job[Any, Any] | None] = [
            job for coalescer in list(self._coalescers.values()) for job in coalescer.clear()
        ]
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.append(self._jobs.get_nowait())
        for job in self._in_hand:
            _fail(job, errors.Unavailable("the scheduler ended before its answer; the request may have been accepted"))
        for waiting_job in waiting:
            if waiting_job is not None:
                _fail(waiting_job, errors.Declined("the scheduler is stopping; ask another one, or again in a moment"))
        return True

    def obstacle(self) -> str:
        """Return the obstacle of the call under way in words: the plug-in that it runs, else the database."""
        plugin_name = plugin.running_in(self._thread)
        return "The database" if plugin_name is None else f"Plug-in {plugin_name}"

    def submit(self, handler: Handler[Item, Result], item: Item, timeout: float = math.inf) -> futures.Future[Result]:
        """Queue an item for a handler; the future is done once the handler has returned.

        An item that has not been handed over after ``timeout`` seconds fails.
        """
        future: futures.Future[Result] = futures.Future()
        with self._ending:
            if not self._stopping:
                self._jobs.put(_Job(handler, item, future, time.monotonic() + timeout))
                return future
        future.set_exception(errors.Declined("the scheduler is stopping; ask another one, or again in a moment"))
        return future

    def call(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Submit for a caller, and wait for the result."""
        return self.submit(handler, item, LONGEST_WAIT).result()

    def waiting(self) -> int:
        """Return the number of items that have not been handed over to their handlers."""
        return self._jobs.qsize() + sum(coalescer.waiting for coalescer in list(self._coalescers.values()))

    def turn_seconds(self) -> float:
        """Return for how many seconds the thread has been in one call of a handler or of the periodic tasks."""
        began = self._turn_began
        return 0.0 if began is None else time.monotonic() - began

    def _run(self) -> None:
        due = time.monotonic()
        stopped = False
        while not stopped:
            if time.monotonic() >= due:
                self._turn_began = time.monotonic()
                self._run_periodic_tasks()
                self._turn_began = None
                due = time.monotonic() + self._period
            jobs = self._take(min([max(0.0, due - time.monotonic()), *self._pauses()]))
            stopped = None in jobs
            self._hand_over([job for job in jobs if job is not None], everything=stopped)

    def _pauses(self) -> Iterable[float]:
        """Return the seconds until the jobs of each handler that rests may be handed over."""
        pauses = (coalescer.pause() for coalescer in self._coalescers.values())
        return (pause for pause in pauses if pause is not None)

    def _take(self, timeout: float) -> list[_Job[Any, Any] | None]:
        """Wait for a job and return all jobs that have arrived by then; None among them is the end."""
        jobs: list[_Job[Any, Any] | None] = []
        try:
            jobs.append(self._jobs.get(timeout=timeout))
            while len(jobs) < _ROUND * self._batch_size and jobs[-1] is not None:
                jobs.append(self._jobs.get_nowait())
        except queue.Empty:
            pass
        return jobs

    def _hand_over(self, jobs: Iterable[_Job[Any, Any]], *, everything: bool) -> None:
        """Give each handler a turn with the jobs, of these and of those that have waited, that are due; others wait.

        The handler that was called last comes last: between two parts of a report, requests that wait have their turn.
        With ``everything`` no handler rests, and turns follow until no job waits.
        """
        for job in jobs:
            coalescer = self._coalescers.get(job.handler)
            if coalescer is None:
                batch_size = 1 if job.handler in self.unbatched else self._batch_size
                coalescer = Coalescer(batch_size, rests=job.handler in self.paced)
                self._coalescers[job.handler] = coalescer
            coalescer.add(job)
        self._give_turns(everything)
        while everything and self._coalescers:
            self._give_turns(everything)
        self._turn_began = None

    def _give_turns(self, everything: bool) -> None:
        """Give each handler with jobs that are due one turn."""
        for handler, coalescer in sorted(self._coalescers.items(), key=lambda pair: pair[1].last_began):
            if everything:
                coalescer.rests = False
            end = time.monotonic() + _TURN
            while (turn := coalescer.begin()) is not None:
                self._turn_began, self._in_hand = turn.began, turn.items
                try:
                    self._work(turn.items)
                finally:
                    coalescer.end(turn)
                    self._in_hand = ()
                if handler not in self.unbatched or time.monotonic() >= end:
                    break
            if coalescer.waiting == 0 and not coalescer.is_resting:
                del self._coalescers[handler]

    @staticmethod
    def _work(batch: Sequence[_Job[Item, Result]]) -> None:
        now = time.monotonic()
        for job in batch:
            if job.expires < now:
                _fail(job, errors.Declined("the request has waited too long: the scheduler is busy, or was suspended"))
        batch = [job for job in batch if job.expires >= now]
        if not batch:
            return
        results: Sequence[Result | Exception]
        try:
            results = batch[0].handler([job.item for job in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results for {len(batch)} items")
        except errors.Unavailable as error:
            LOG.log(log_level(error), "%d item(s) have to wait: %s", len(batch), error.message)
            results = [error] * len(batch)
        except Exception as error:
            LOG.exception("%d item(s) failed in %s", len(batch), batch[0].handler)
            results = [error] * len(batch)
        except BaseException as error:
            # Plugins may raise anything. Without this thread nothing would be decided any more, without a sign of it.
            LOG.exception("%d item(s) failed in %s", len(batch), batch[0].handler)
            results = [RuntimeError(plugin_errors.described(error))] * len(batch)
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                _fail(job, result)
            elif not job.future.done():
                job.future.set_result(result)

    def _run_periodic_tasks(self) -> None:
        try:
            if self._periodic_tasks is not None:
                self._periodic_tasks()
        except BaseException:
            LOG.exception("housekeeping failed; it is tried again")


def _fail(job: _Job[Any, Any], error: Exception) -> None:
    """Raise an error to the caller of a job, unless the job was abandoned."""
    if not job.future.done():
        job.future.set_exception(error)
