# SPDX-License-Identifier: Apache-2.0
"""Threads that go on only when it is their turn: what stands in for those of schedulers and agents."""

import math
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

from tonnage.capacity import errors
from tonnage.scheduler.decisions.decision_thread import DecisionThread, _Job


class Killed(BaseException):
    """A scheduler process has come to its end in the middle of something."""


class Later(futures.Future[Any]):
    """A future; whoever waits for it lets the thread that it belongs to go on."""

    def __init__(self, turn: Callable[[], None]) -> None:
        super().__init__()
        self._turn = turn

    def result(self, timeout: float | None = None) -> Any:
        self._wait()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait()
        return super().exception(0)

    def _wait(self) -> None:
        if not self.done():
            self._turn()


class Turns(DecisionThread):
    """A decision thread that works when :meth:`turn` is called. An error that nobody foresaw is raised there."""

    def __init__(self) -> None:
        super().__init__(64)
        self.jobs: list[_Job] = []
        self.busy = False

    def start(self, periodic_tasks: Callable[[], None] | None = None) -> None: ...

    def stop(self) -> None: ...

    def submit(self, handler: Any, item: Any, timeout: float = math.inf) -> Any:
        job = _Job(handler, item, Later(self.turn))
        self.jobs.append(job)
        return job.future

    def turn(self) -> None:
        """Do what waits, all that is for one handler in one call."""
        assert not self.busy, "a scheduler has one decision thread"
        jobs, self.jobs = self.jobs, []
        self.busy = True
        try:
            self._hand_over(jobs, everything=True)
        except Killed:
            self._coalescers.clear()  # what waited is lost with the process
            raise
        finally:
            self.busy = False
        for job in jobs:
            error = job.future.exception()
            if error is not None and not isinstance(error, errors.TonnageError):
                raise error

    def _work(self, batch: Sequence[_Job]) -> None:
        """Answer the jobs of a batch, none if the process ends in the middle: the thread itself survives anything."""
        killed: list[Killed] = []

        def watched(items: Sequence[Any]) -> Sequence[Any]:
            try:
                return batch[0].handler(items)
            except Killed as error:
                killed.append(error)
                raise

        answered = [_Job(watched, job.item, futures.Future()) for job in batch]
        super()._work(answered)
        if killed:
            raise killed[0]
        for job, answer in zip(batch, answered, strict=True):
            error = answer.future.exception()
            if error is None:
                job.future.set_result(answer.future.result())
            else:
                job.future.set_exception(error)


class Workers:
    """An executor whose tasks run when :meth:`next` is called."""

    def __init__(self) -> None:
        self.tasks: list[tuple[futures.Future[Any], Callable[..., Any], Sequence[Any]]] = []

    def submit(self, work: Callable[..., Any], *args: Any) -> futures.Future[Any]:
        future: futures.Future[Any] = futures.Future()
        self.tasks.append((future, work, args))
        return future

    def next(self, number: int = 0) -> None:
        """Run one of the tasks that wait."""
        future, work, args = self.tasks.pop(number)
        future.set_result(work(*args))
