# SPDX-License-Identifier: Apache-2.0
"""One scheduler process: the real one, with its thread taking turns and its transactions watched."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler import managers
from tests.unit.scheduler.model import admission
from tests.unit.scheduler.model.turns import Turns
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.ledger.db.database import Database
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.scheduler.agents.report_handler import PART_SIZE
from tonnage.scheduler.periodic.periodic_tasks import BackendMonitor
from tonnage.scheduler.periodic.sweep import Sweep

P = ParamSpec("P")
T = TypeVar("T")

LEASE = 60.0
DOWN_TIME = 60.0


class Interruptions(Protocol):
    """What may happen around a transaction of a scheduler."""

    def before(self, scheduler: "Scheduler") -> None: ...

    def after(self, scheduler: "Scheduler") -> bool:
        """Return whether the connection was lost after the commit, so that the transaction is run again."""
        ...


class WatchedDatabase(Database):
    """A database whose transactions others get between, and whose bookings are judged from outside."""

    scheduler: "Scheduler"

    def __init__(self, engine: sa.Engine, calculation: Calculation, interruptions: Interruptions | None) -> None:
        super().__init__(engine)
        self._calculation = calculation
        self._interruptions = interruptions

    def run(self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def judged(session: orm.Session) -> T:
            if getattr(work, "__name__", "") != "_decide_and_book":
                return work(session, *args, **kwargs)
            rows = admission.snapshot(session)
            result = work(session, *args, **kwargs)
            assert isinstance(result, tuple)
            admission.replay(rows, result[0].bookings, self._calculation)
            return result

        if self._interruptions is None:
            return super().run(judged)
        self._interruptions.before(self.scheduler)
        result = super().run(judged)
        if self._interruptions.after(self.scheduler):
            result = super().run(judged)
        return result

    def reading(self, *, snapshot: bool = False) -> Any:
        if self._interruptions is not None:
            self._interruptions.before(self.scheduler)
        return super().reading(snapshot=snapshot)


class Scheduler:
    """A scheduler process, on the ledger as it finds it."""

    def __init__(
        self,
        host: str,
        engine: sa.Engine,
        calculation: Calculation,
        agents: AgentMessages,
        clock: Callable[[], float],
        interruptions: Interruptions | None = None,
        attempts: int = 3,
        part_size: int = PART_SIZE,
    ) -> None:
        filters = [CapabilitiesFilter, CapacityFilter, SameBackendFilter, DifferentBackendFilter]
        database = WatchedDatabase(engine, calculation, interruptions)
        database.scheduler = self
        settings = managers.settings(
            host=host,
            calculation=calculation,
            service_down_time=DOWN_TIME,
            max_attempts=attempts,
            claim_lease=LEASE,
            drain_concurrency=2,
        )
        self.host = host
        self.clock = clock
        self.thread = Turns()
        self.core = managers.manager(database, agents, settings, filters, clock=clock, thread=self.thread)
        self.core._report_inbox._report_handler.part_size = part_size
        # Nothing is audited: a ledger in memory belongs to one thread, and is lost with the connections of others.
        self.core.load()

    @property
    def busy(self) -> bool:
        """In the middle of something."""
        return self.thread.busy

    @property
    def hosts(self) -> Any:
        return self.core.hosts

    def run_periodic_tasks(self) -> None:
        """Look for claims that nobody works on, and do what else is to be done now and then."""
        for task in self.core.periodic_tasks.tasks:
            if isinstance(task, Sweep):
                task.timer.request()
            if isinstance(task, BackendMonitor):
                # It has been listening all the time.
                task.last_round = self.clock()
        self.thread.busy = True
        try:
            self.core.periodic_tasks.run()
        finally:
            self.thread.busy = False
