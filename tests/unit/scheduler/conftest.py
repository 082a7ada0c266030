# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import ledger_schema
from tests.unit.scheduler import managers
from tests.unit.scheduler.world import BACKEND, Agent, StoragePool
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.messages import Hello
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.extension_parts import PartsBuilder
from tonnage.scheduler.manager import SchedulerManager


class Clock:
    """A clock that stands still, or goes on by ``step`` seconds each time that it is read."""

    now = 0.0
    step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings() -> Settings:
    return managers.settings()


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    yield database.Database(engine, patience=database.Patience(write_interval=0.0))
    engine.dispose()


@pytest.fixture
def thread() -> DecisionThread:
    """The decision thread of a scheduler, which keeps house only when it starts."""
    return DecisionThread(batch_size=64, period=3600.0)


@pytest.fixture
def builders() -> Mapping[str, PartsBuilder]:
    """The builders of the parts of extensions: none."""
    return {}


@pytest.fixture
def core(
    ledger: database.Database,
    settings: Settings,
    clock: Clock,
    builders: Mapping[str, PartsBuilder],
    thread: DecisionThread,
) -> Iterator[SchedulerManager]:
    """A scheduler with one backend, which has reported once."""
    agents: Any = SimpleNamespace(run=lambda *given: None)
    core = managers.manager(ledger, agents, settings, weighers=(), clock=clock, builders=builders, thread=thread)
    core.start()
    agent = Agent({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    agent.epoch = core.hello(Hello(backend=BACKEND, nonce="n", availability_zone="nova", driver="memory")).epoch
    core.report(PackedReport.of(agent.look()))
    yield core
    core.stop()


@pytest.fixture
def run_periodic_tasks(core: SchedulerManager, thread: DecisionThread) -> Callable[[], None]:
    """Return a function that has the thread keep house now."""

    def work(items: Sequence[None]) -> list[None]:
        core.run_periodic_tasks()
        return [None] * len(items)

    return lambda: thread.call(work, None)


@pytest.fixture
def join(ledger: database.Database) -> Callable[..., None]:
    """Return a function that has another scheduler, which applies the same rules, give a heartbeat."""

    def heartbeat(host: str = "other") -> None:
        other = heartbeats.SchedulerProcess(
            binary=heartbeats.SCHEDULER, host=host, default_ratio="20.0", calculation="cinder"
        )
        ledger.run(heartbeats.heartbeat, other)

    return heartbeat
