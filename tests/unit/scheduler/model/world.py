# SPDX-License-Identifier: Apache-2.0
"""The world of the model: storages, their agents, schedulers with one ledger, and a bus in between."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler import ledgers
from tests.unit.scheduler.model.agent import Agent
from tests.unit.scheduler.model.scheduler import Interruptions, Scheduler
from tests.unit.scheduler.model.storage import Fate, ModelDriver, StoragePool
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import backend_of, short_name
from tonnage.rpc.messages import BackendReport, Command, CreateVolume, Listing, Outcome, SharedStorages, StampQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.report_handler import PART_SIZE

#: Columns that hold times of the database's clock, which cannot be turned.
_TIMES = (
    ("claims", "created_at"),
    ("volumes", "updated_at"),
    ("backends", "last_report_at"),
    ("services", "last_seen_at"),
    ("request_keys", "counted_from"),
)

_EARLIER = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {column}, '-{seconds} seconds')",
    "postgresql": "{column} - interval '{seconds} seconds'",
    "mysql": "{column} - interval {seconds} second",
    "mariadb": "{column} - interval {seconds} second",
}


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on the bus. ``to`` is the backend of a command, or the host of the scheduler that a report goes to."""

    content: Command | SharedStorages | Outcome | BackendReport | Listing
    to: str = ""


class World:
    """Everything there is. ``pools`` are all pools by their full names ``host@backend#pool``."""

    def __init__(
        self,
        pools: Mapping[str, StoragePool],
        calculation: Calculation = Calculation.CINDER,
        schedulers: int = 1,
        engine: sa.Engine | None = None,
        interruptions: Interruptions | None = None,
        part_size: int = PART_SIZE,
    ) -> None:
        self.engine = engine or ledgers.in_memory(self)
        ledger_schema.create(self.engine)
        self.calculation = calculation
        self.pools = pools
        self.interruptions = interruptions
        #: Most pools whose new figures a scheduler applies at a time. What remains of a report waits for its next turn.
        self.part_size = part_size
        self.now = 0.0
        self.numbers = itertools.count()
        self.bus: list[Letter] = []
        self.stamps_fail = False
        self.drivers = {
            name: ModelDriver(
                name, {short_name(pool): pools[pool] for pool in pools if backend_of(pool) == name}, pools
            )
            for name in sorted({backend_of(pool) for pool in pools})
        }
        #: The agent process of each backend, None while there is none.
        self.agents: dict[str, Agent | None] = dict.fromkeys(self.drivers)
        self.schedulers: list[Scheduler] = []
        for number in range(schedulers):
            self.schedulers.append(self._scheduler(f"s{number}"))

    def start_scheduler(self, number: int = 0) -> None:
        """Replace a scheduler by one that knows nothing but the ledger."""
        self.schedulers[number] = self._scheduler(self.schedulers[number].host)

    def _scheduler(self, host: str) -> Scheduler:
        return Scheduler(
            host,
            self.engine,
            self.calculation,
            self,
            lambda: self.now,
            self.interruptions,
            part_size=self.part_size,
        )

    # What schedulers tell agents.

    def run(self, backend: str, command: Command) -> None:
        self.bus.append(Letter(command, backend))

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        self.bus.append(Letter(SharedStorages(storage_ids=list(storage_ids)), backend))

    def rejoin(self, backend: str) -> None:
        raise AssertionError(f"{backend} was asked to rejoin, and the ledger knows every epoch")

    # Agents.

    def start_agent(self, backend: str) -> Agent:
        """Start an agent process in place of the one that was there."""
        agent = self.agents[backend] = Agent(
            self.drivers[backend], lambda outcome: self.bus.append(Letter(outcome)), self
        )
        return agent

    def join(self, agent: Agent, scheduler: Scheduler) -> None:
        """Take the next step of joining."""
        if agent.epoch is None:
            welcome = scheduler.core.hello(agent.hello())
            if self.agents[agent.backend] is agent:
                agent.snapshots.add_shared_storages(welcome.shared_storages)
                agent.welcome(welcome.epoch)
        elif agent.listing is None:
            agent.listing = agent.list()
        else:
            receipt = scheduler.core.listing(agent.listing)
            if self.agents[agent.backend] is agent:
                assert receipt.accepted, "there is one agent process at a time"
                agent.joined = True

    def report(self, agent: Agent) -> None:
        """Have an agent look and send its report to all schedulers."""
        report = agent.look()
        self.bus += [Letter(report, scheduler.host) for scheduler in self.schedulers]

    def idle_scheduler(self) -> Scheduler:
        """Return a scheduler that is not in the middle of something."""
        return next(scheduler for scheduler in self.schedulers if not scheduler.busy)

    def stamps(self, query: StampQuery) -> Mapping[str, int]:
        """Answer an agent as the schedulers do."""
        if self.stamps_fail:
            return {}
        return self.idle_scheduler().core.stamps(StampQuery(backend="", storage_ids=query.storage_ids))

    # The bus.

    def deliver(self, letter: Letter, scheduler: Scheduler, answer_lost: bool = False) -> None:
        """Let a message arrive; one that goes to any scheduler does so at this one."""
        content = letter.content
        if isinstance(content, Command):
            agent = self.agents[letter.to]
            if agent is not None:
                agent.take(content)
        elif isinstance(content, SharedStorages):
            agent = self.agents[letter.to]
            if agent is not None:
                agent.snapshots.add_shared_storages(content.storage_ids)
        elif isinstance(content, BackendReport):
            host = next(each for each in self.schedulers if each.host == letter.to)
            host.core.report(PackedReport.of(content))
            host.thread.turn()
        elif isinstance(content, Listing):
            self._accepted(content.backend, content.epoch, scheduler.core.listing(content).accepted)
        else:
            [receipt] = scheduler.core.outcomes([content])
            self._accepted(content.backend, content.epoch, receipt.accepted)
            agent = self.agents[content.backend]
            if receipt.accepted and agent is not None and not answer_lost:
                agent.operations.acknowledge(content.claim_id)

    def _accepted(self, backend: str, epoch: int, accepted: bool) -> None:
        agent = self.agents[backend]
        if agent is not None and agent.epoch is not None and agent.epoch.number == epoch:
            assert accepted, "there is one agent process at a time"

    # Time.

    def pass_time(self, seconds: float) -> None:
        """Let time pass, for every clock there is."""
        self.now += seconds
        with self.engine.begin() as connection:
            for table, column in _TIMES:
                earlier = _EARLIER[self.engine.dialect.name].format(column=column, seconds=int(seconds))
                connection.execute(sa.text(f"UPDATE {table} SET {column} = {earlier}"))

    # Requests.

    def create_message(self, size_gb: int, **more: Any) -> CreateVolume:
        """Return a request for a new volume, never made before."""
        return CreateVolume(
            request_id=more.pop("request_id", None) or self.request_id(),
            volume_id=more.pop("volume_id", None) or str(uuid.uuid4()),
            size_gb=size_gb,
            project_id="demo",
            **more,
        )

    def request_id(self) -> str:
        """Return the id of a request that was never made before."""
        return f"req-{next(self.numbers)}"

    def place(self, scheduler: Scheduler, *work: Any) -> list[Any]:
        """Ask a scheduler for several things at once; errors that users may see are among the answers."""
        waiting = [scheduler.thread.submit(scheduler.core.decisions.placer.place, item) for item in work]
        scheduler.thread.turn()
        return [each.exception() or each.result() for each in waiting]

    # Rest.

    def start_agents(self) -> None:
        """Start all agents, and let them join."""
        for backend in self.agents:
            agent = self.start_agent(backend)
            while not agent.joined:
                self.join(agent, self.schedulers[0])

    def report_all(self) -> None:
        """Start all agents, and let the schedulers know the volumes of each."""
        self.start_agents()
        # By the second report each agent has been told which storages it shares.
        for _ in range(2):
            for each in self.agents.values():
                assert each is not None
                self.report(each)
            self._flush()

    def settle(self, least_rounds: int = 3) -> None:
        """Let everything come to rest: all agents up, nothing lost, nothing fails, until nothing is left to do.

        More than ``least_rounds`` rounds pass, so that waiting steps are tried again.
        """
        self.stamps_fail = False
        before: list[object] = []
        for rounds in range(100):
            # What could not be moved is left alone for some minutes.
            self.pass_time(20 if rounds < 3 else 200)
            for backend, known in self.agents.items():
                agent = known or self.start_agent(backend)
                while not agent.joined:
                    self.join(agent, self.schedulers[rounds % len(self.schedulers)])
                self.report(agent)
                for outcome in agent.operations.unacknowledged():
                    self.bus.append(Letter(outcome))
                self.bus.append(Letter(agent.list()))
            self._flush()
            for scheduler in self.schedulers:
                scheduler.run_periodic_tasks()
                scheduler.thread.turn()
            self._flush()
            before.append(self.rows("SELECT id, pool_id, status FROM volumes ORDER BY id"))
            draining = self._draining()
            quiet = 4 + draining // 2 if draining else 1
            if rounds >= least_rounds + quiet and not self._unsettled() and before[-1] == before[-quiet]:
                break
        else:
            raise AssertionError(f"the world does not come to rest: {self._unsettled()}")
        for _ in range(2):
            for agent in self.agents.values():
                assert agent is not None
                self.report(agent)
                self._flush()

    def _flush(self) -> None:
        while self.bus or any(agent is not None and agent.workers.tasks for agent in self.agents.values()):
            letters, self.bus = self.bus, []
            for letter in letters:
                self.deliver(letter, self.schedulers[0])
            for agent in self.agents.values():
                while agent is not None and agent.workers.tasks:
                    agent.work(Fate())
        for scheduler in self.schedulers:
            while scheduler.thread.jobs:
                scheduler.thread.turn()

    def _unsettled(self) -> Sequence[tuple[Any, ...]]:
        waiting = self.rows("SELECT id, verb, state, volume_id FROM claims WHERE state IN ('pending', 'abandoned')")
        return waiting + self.rows(
            "SELECT id, status, pool_id, status_reason FROM volumes "
            "WHERE status IN ('creating', 'deleting', 'extending', 'maintenance', 'retyping')"
        )

    def _draining(self) -> int:
        """Return how many volumes are to leave their backends; they take turns."""
        [(count,)] = self.rows(
            "SELECT COUNT(*) FROM volumes v JOIN pools p ON p.id = v.pool_id JOIN backends b ON b.id = p.backend_id "
            "WHERE b.draining"
        )
        return int(count)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Read the ledger with plain SQL."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]
