# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of everything in the world of the scheduler's model, with plans that are carried out meanwhile.

The schedulers, their executors of plans, and the agents are the real ones. A scheduler may end before and after each
transaction of an executor, and others go on in between.
"""

import contextlib
import datetime
import uuid
from typing import Any

import sqlalchemy as sa

from tests.unit.extensions.moves.execution import plan_checks
from tests.unit.extensions.moves.execution.plan_world import TIMES
from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.play import Chances, Play
from tests.unit.scheduler.model.scheduler import Scheduler
from tonnage.capacity import errors
from tonnage.extensions.moves.execution.ledger_mover import LedgerMover
from tonnage.extensions.moves.execution.plan_executor import Clocks, PlanExecutor
from tonnage.extensions.moves.plan_messages import ApplyPlan
from tonnage.extensions.moves.plan_start import PlanStarter
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.scheduler.observers.extension_events import ExtensionEvents

#: Seconds without progress after which a plan fails: the time of the model goes in large steps.
_TIMEOUT = 2000.0

#: Rounds within which all plans have ended when nothing else happens.
_ROUNDS = 60


class PlanPlay(Play):
    """One run, with plans."""

    def __init__(self, seed: int, chances: Chances | None = None) -> None:
        super().__init__(seed, chances=chances)
        self._executors: dict[int, tuple[Scheduler, PlanExecutor]] = {}
        self._pass_time, self.world.pass_time = self.world.pass_time, self.pass_time  # type: ignore[method-assign]
        self.steps |= {self.apply: 6, self.carry_on: 24, self.change_plan: 1}
        # Plans need volumes that are at rest; there are few of them in a world that never is.
        self.depth += 1
        self.world.settle()
        for size in (12, 9, 7, 5, 4, 3, 3, 2):
            self.world.place(self.scheduler, self.world.create_message(size))
        self.world.settle()
        self.depth -= 1
        #: The targets of plans to empty pools, by the ids of the plans.
        self.emptied: dict[str, str] = {}

    def pass_time(self, seconds: float) -> None:
        """Let time pass for plans too."""
        self._pass_time(seconds)
        with self.world.engine.begin() as connection:
            for table, column in TIMES:
                earlier = f"strftime('%Y-%m-%d %H:%M:%f', {column}, '-{int(seconds)} seconds')"
                connection.execute(sa.text(f"UPDATE {table} SET {column} = {earlier}"))

    def executor(self, scheduler: Scheduler) -> PlanExecutor:
        """Return the executor of a scheduler process."""
        process = self._executors.get(id(scheduler))
        if process is None:
            day = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
            clocks = Clocks(local=lambda: day, monotonic=lambda: self.world.now)
            planner = Planner(scheduler.core.database, scheduler.core.decisions.snapshots)
            mover = LedgerMover(scheduler.core.database, scheduler.core.decisions.move)
            executor = PlanExecutor(scheduler.core.database, planner, mover, _TIMEOUT, clocks, ExtensionEvents())
            # With the scheduler itself, so that no other one gets its number.
            process = self._executors[id(scheduler)] = scheduler, executor
        return process[1]

    def apply(self) -> None:
        """An administrator starts a plan."""
        scheduler, draw = self.scheduler, self.draw
        pool = draw.choice(list(self.world.pools))
        goal, arguments = draw.choice(
            [
                ("empty", {"target": pool}),
                ("empty", {"target": pool}),
                ("empty", {"target": pool.partition("#")[0]}),
                ("relieve", {"pool": pool, "below": 30, "bound": "promised"}),
                ("balance", {"points": 5}),
                ("fit", {"size": draw.randint(5, 30)}),
            ]
        )
        limits = Limits(
            moves_per_backend=draw.randint(1, 3), moves=draw.randint(1, 4), failures=draw.choice([1, 3, 1000])
        )
        planner = Planner(scheduler.core.database, scheduler.core.decisions.snapshots)
        order = ApplyPlan(plan_id=str(uuid.uuid4()), query=PlanQuery(goal=goal, arguments=arguments))
        if goal == "empty":
            self.emptied[order.plan_id] = arguments["target"]
        try:
            PlanStarter(scheduler.core.database, planner, limits, ExtensionEvents()).apply(order)
        except (errors.Conflict, errors.InvalidInput, errors.NotFound):
            assert not self.world.rows(f"SELECT id FROM move_plans WHERE id = '{order.plan_id}'")

    def carry_on(self) -> None:
        """The executor of a scheduler takes its next steps, whether or not it is its turn."""
        self.executor(self.scheduler).work()
        plan_checks.check(self.world)

    def change_plan(self) -> None:
        """An administrator pauses, resumes or stops a plan."""
        plans = self.world.rows("SELECT id FROM move_plans ORDER BY created_at, id")
        if not plans:
            return
        change = self.draw.choice([plan_records.pause, plan_records.resume, plan_records.resume, plan_records.stop])
        with contextlib.suppress(errors.Conflict):
            self.scheduler.core.database.run(change, str(self.draw.choice(plans)[0]))

    def rest(self) -> None:
        """When nothing else happens all plans end, and each tells why."""
        self.depth += 1
        try:
            for (plan_id,) in self.world.rows("SELECT id FROM move_plans WHERE state = 'paused'"):
                self.world.schedulers[0].core.database.run(plan_records.resume, str(plan_id))
            running = {plan_id for (plan_id,) in self.world.rows("SELECT id FROM move_plans WHERE state = 'running'")}
            for number in range(_ROUNDS):
                for scheduler in self.world.schedulers[: 1 + number % 2]:
                    self.executor(scheduler).work()
                if not self.world.rows("SELECT plan_id FROM move_plan_pools"):
                    break
                self.world.settle()
                checks.check(self.world, self.by_hand)
            plan_checks.check(self.world)
            self._check_ended(running)
        finally:
            self.depth -= 1
        super().rest()

    def _check_ended(self, running: set[Any]) -> None:
        plan_checks.check_ended(self.world)
        for plan_id, state in self.world.rows("SELECT id, state FROM move_plans"):
            target = self.emptied.get(str(plan_id))
            if state == tables.FINISHED and target is not None and plan_id in running:
                plan_checks.check_empty(self.world, target)
