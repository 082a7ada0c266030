# SPDX-License-Identifier: Apache-2.0
"""The world of the scheduler's model, with an executor of plans in each scheduler process."""

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler.model.scheduler import Interruptions, Scheduler
from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import Letter, World
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.moves.execution.ledger_mover import LedgerMover
from tonnage.extensions.moves.execution.plan_executor import Clocks, PlanExecutor
from tonnage.extensions.moves.plan_messages import ApplyPlan
from tonnage.extensions.moves.plan_start import PlanStarter
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.rpc.messages import BackendState, SetBackendState
from tonnage.scheduler.observers.extension_events import ExtensionEvent, ExtensionEvents
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecasts

#: Columns of the extension that hold times of the database's clock.
TIMES = (
    ("move_plans", "progress_at"),
    ("move_plans", "next_plan_at"),
    ("move_steps", "ended_at"),
)

PLAN = "11111111-1111-4111-8111-111111111111"

#: Seconds without progress after which a plan fails.
TIMEOUT = 120.0


def pool(total: int, *, ratio: float = 1.0, thin: bool = True, **more: Any) -> StoragePool:
    """Return a pool on a storage of its own."""
    return StoragePool(Storage(None, total), ratio, thin=thin, thick=not thin, **more)


class RecordedEvents(ExtensionEvents):
    """Events that are recorded, with the number of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[ExtensionEvent] = []
        self.commits = 0

    def write(self, session: orm.Session, *events: ExtensionEvent) -> None:
        self.written += events

    def commit(self) -> None:
        self.commits += 1


class PlanWorld(World):
    """A world in which schedulers carry plans out. ``hour`` is the local time of the day.

    ``forecasts`` are those of planners, for executors that begin later.
    """

    def __init__(
        self,
        pools: Mapping[str, StoragePool],
        calculation: Calculation = Calculation.CINDER,
        schedulers: int = 1,
        interruptions: Interruptions | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.hour = 12
        #: Without a source no plan can keep room for forecasts.
        self.forecasts = GrowthForecasts()
        self.executors: dict[str, PlanExecutor] = {}
        self.events = RecordedEvents()
        super().__init__(pools, calculation, schedulers, None, interruptions)

    def _scheduler(self, host: str) -> Scheduler:
        self.executors.pop(host, None)
        return super()._scheduler(host)

    def planner(self, scheduler: Scheduler) -> Planner:
        """Return the planner of a scheduler."""
        return Planner(scheduler.core.database, scheduler.core.decisions.snapshots, self.forecasts)

    def executor(self, scheduler: Scheduler) -> PlanExecutor:
        """Return the executor of a scheduler process, which begins with the process."""
        if scheduler.host not in self.executors:
            day = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
            clocks = Clocks(local=lambda: day.replace(hour=self.hour), monotonic=lambda: self.now)
            self.executors[scheduler.host] = PlanExecutor(
                scheduler.core.database,
                self.planner(scheduler),
                LedgerMover(scheduler.core.database, scheduler.core.decisions.move),
                TIMEOUT,
                clocks,
                self.events,
            )
        return self.executors[scheduler.host]

    def apply(self, goal: str, plan_id: str = PLAN, limits: Mapping[str, Any] | None = None, **more: Any) -> MovePlan:
        """Start a plan."""
        scheduler = self.idle_scheduler()
        starter = PlanStarter(scheduler.core.database, self.planner(scheduler), self.limits, self.events)
        return starter.apply(
            ApplyPlan(plan_id=plan_id, query=PlanQuery(goal=goal, arguments=more), limits=limits or {})
        )

    def fill(self, sizes: Mapping[str, list[int]]) -> dict[str, list[str]]:
        """Create volumes in pools, and return their ids by pool, once reports contain them."""
        ids: dict[str, list[str]] = {}
        for name, gb in sizes.items():
            # All other pools are closed meanwhile.
            messages = [self.create_message(size) for size in gb]
            for other in self.pools:
                self._open(other, other == name)
            answers = self.place(self.schedulers[0], *messages)
            assert [answer.pool for answer in answers] == [name] * len(gb), answers
            ids[name] = [message.volume_id for message in messages]
        for other in self.pools:
            self._open(other, True)
        self.report_everything()
        return ids

    def _open(self, name: str, is_open: bool) -> None:
        state = BackendState.ENABLED if is_open else BackendState.DISABLED
        scheduler = self.schedulers[0]
        scheduler.core.operations.set_backend_state([SetBackendState(backend=backend_of(name), state=state)])

    def report_everything(self) -> None:
        """Let all messages arrive, and all agents do their work and report."""
        self._flush()
        for agent in self.agents.values():
            assert agent is not None
            for outcome in agent.operations.unacknowledged():
                self.bus.append(Letter(outcome))
        self._flush()
        for agent in self.agents.values():
            assert agent is not None
            self.report(agent)
        self._flush()

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        with self.engine.begin() as connection:
            for table, column in TIMES:
                earlier = f"strftime('%Y-%m-%d %H:%M:%f', {column}, '-{int(seconds)} seconds')"
                connection.execute(sa.text(f"UPDATE {table} SET {column} = {earlier}"))

    def carry_on(self, rounds: int = 30) -> str:
        """Let the plan go on until it has ended, and return its state."""
        for _ in range(rounds):
            self.executor(self.idle_scheduler()).work()
            self.report_everything()
            self.pass_time(20)
            if self.state() not in tables.UNFINISHED:
                break
        return self.state()

    def state(self, plan_id: str = PLAN) -> str:
        """Return the state of a plan."""
        [(state,)] = self.rows(f"SELECT state FROM move_plans WHERE id = '{plan_id}'")
        return str(state)

    def message(self, plan_id: str = PLAN) -> str:
        """Return the message of a plan."""
        [(message,)] = self.rows(f"SELECT message FROM move_plans WHERE id = '{plan_id}'")
        return str(message)

    def steps(self) -> list[tuple[Any, ...]]:
        """Return the number, generation, size and state of each step."""
        return self.rows("SELECT number, generation, size_gb, state FROM move_steps ORDER BY plan_id, number")

    def places(self) -> dict[str, str]:
        """Return the pool of each volume."""
        rows = self.rows("SELECT v.id, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
        return {str(volume): str(name) for volume, name in rows}

    def change(self, action: str, plan_id: str = PLAN) -> None:
        """Pause, resume or stop a plan."""
        self.schedulers[0].core.database.run(getattr(plan_records, action), plan_id)
