# SPDX-License-Identifier: Apache-2.0
"""A bus with a scheduler on it, and agents that are stopped at the end."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.agent import fakes
from tests.unit.rpc import bus as memory_bus
from tests.unit.rpc import patience
from tonnage.agent.backend_agent import BackendAgent
from tonnage.agent.backoff import BackOff
from tonnage.agent.options import Settings
from tonnage.rpc import transport
from tonnage.rpc.scheduler_server import SchedulerServer


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers as long as a machine may stand still."""
    patience.with_schedulers(monkeypatch)


@pytest.fixture
def bus() -> Iterator[transport.Transport]:
    """A message bus within this process."""
    with memory_bus.memory_transport(response_timeout=30) as made:
        yield made


@pytest.fixture
def scheduler(bus: transport.Transport) -> Iterator[fakes.Scheduler]:
    """A scheduler that answers."""
    endpoint = fakes.Scheduler()
    server = SchedulerServer(bus, "one", endpoint)
    server.start()
    yield endpoint
    server.stop()
    server.wait()


@pytest.fixture
def driver() -> fakes.GatedDriver:
    """A driver that does what the test says."""
    return fakes.GatedDriver()


@pytest.fixture
def client(bus: transport.Transport) -> fakes.Calls:
    """What schedulers reach agents by."""
    return fakes.Calls(bus)


@pytest.fixture
def peer(bus: transport.Transport) -> transport.Peer:
    """What malformed messages reach agents by."""
    return transport.Peer(bus, transport.TOPIC_AGENT, "agent")


@pytest.fixture
def make(
    bus: transport.Transport, driver: fakes.GatedDriver, tmp_path: pathlib.Path
) -> Iterator[Callable[..., BackendAgent]]:
    """A function that makes agents. Unless told otherwise they report only when something happens."""
    agents = []

    def made(**settings: Any) -> BackendAgent:
        given = {
            "polling_interval": 600.0,
            "report_gap": 0.0,
            "quiet_wait": 0.0,
            "flush_seconds": 60.0,
            "backoff": BackOff(0.02, 0.1),
        } | settings
        agents.append(
            BackendAgent(
                driver.backend,
                driver,
                bus,
                Settings(availability_zone="nova", driver_name="gated", lock_folder=str(tmp_path / "locks"), **given),
            )
        )
        return agents[-1]

    yield made
    for agent in agents:
        agent.stop(timeout=5)


@pytest.fixture
def agent(make: Callable[..., BackendAgent], scheduler: fakes.Scheduler) -> BackendAgent:
    """An agent that has joined and sent its first report."""
    agent = make()
    agent.start()
    fakes.eventually(lambda: scheduler.reports, "first report")
    return agent
