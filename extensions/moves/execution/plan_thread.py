# SPDX-License-Identifier: Apache-2.0
"""The thread that carries plans out, in the scheduler whose turn it is."""

from typing import Protocol

from tonnage.capacity import errors
from tonnage.extensions.moves.execution.plan_executor import PlanExecutor
from tonnage.worker import Worker

#: Seconds between two looks at plans: while a plan has not ended, and without one.
_ACTIVE, _IDLE = 0.5, 2.0

#: The name of the work among schedulers that take turns.
_PLANS = "plans of moves"


class Turns(Protocol):
    """The schedulers, which share work among them."""

    def has_turn(self, work: str) -> bool:
        """Return whether it is this scheduler's turn to do some work."""


class PlanThread:
    """Carries plans out if it is this scheduler's turn. While another one still does so, no move is made twice."""

    def __init__(self, executor: PlanExecutor, turns: Turns) -> None:
        self._executor, self._turns = executor, turns
        self._worker = Worker("plans", self.work, _IDLE, expected_errors=(errors.Unavailable,))

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def stop(self) -> None:
        """End after the steps that are being started; another scheduler goes on."""
        self._worker.stop()

    def work(self) -> float:
        """Take the next steps of all plans, and return the seconds until the next look."""
        return _ACTIVE if self._turns.has_turn(_PLANS) and self._executor.work() else _IDLE
