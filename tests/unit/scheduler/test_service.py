# SPDX-License-Identifier: Apache-2.0
"""A scheduler as a service on a message bus: when it starts, what it changes while it runs, and its end."""

import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.servers.base import wait_for
from tests.unit.rpc import bus as memory_bus
from tests.unit.rpc import patience
from tests.unit.scheduler.world import BACKEND, Agent, StoragePool
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.db.database import Database
from tonnage.rpc import contract, options
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import CreateVolume, Hello, PoolQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.transport import Transport
from tonnage.scheduler.configuration import settings as scheduler_settings
from tonnage.scheduler.service import SchedulerService


def configured(**values: Any) -> cfg.ConfigOpts:
    """Return a configuration of a scheduler on the host ``here``, without extensions unless they are named."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    scheduler_settings.register(conf)
    conf([], project="tonnage", default_config_files=[])
    for name, value in ({"host": "here", "enabled_extensions": []} | values).items():
        conf.set_override(name, value)
    return conf


@pytest.fixture
def bus() -> Iterator[Transport]:
    with memory_bus.memory_transport(response_timeout=60) as transport, pytest.MonkeyPatch.context() as patched:
        patience.with_schedulers(patched)
        yield transport


@pytest.fixture
def start(ledger: Database, bus: Transport) -> Iterator[Callable[..., SchedulerService]]:
    """A function that starts a scheduler with these options; the end of the test stops it."""
    running: list[SchedulerService] = []

    def started(**values: Any) -> SchedulerService:
        service = SchedulerService(configured(**values), ledger, bus)
        service.start()
        running.append(service)
        return service

    yield started
    for service in running:
        service.stop()


def report(client: SchedulerClient) -> None:
    """Let an agent with a pool of 20 GiB join and report, and wait until the report is applied."""
    agent = Agent({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    hello = Hello(backend=BACKEND, nonce="n", availability_zone="nova", driver="memory")
    agent.epoch = client.call(contract.HELLO, hello).epoch
    client.cast(contract.REPORT, PackedReport.of(agent.look()))
    wait_for(lambda: client.call(contract.GET_POOLS, PoolQuery()), "the scheduler knows the pool")


def heartbeats(ledger: Database) -> list[tuple[str, str | None]]:
    with ledger.reading() as session:
        rows = session.execute(sa.select(models.Service.host, models.Service.calculation))
        return [(host, calculation) for host, calculation in rows]


def request() -> CreateVolume:
    return CreateVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")


def test_a_database_without_a_schema_keeps_a_scheduler_from_being_built(tmp_path: pathlib.Path, bus: Transport) -> None:
    empty = database.create_engine(f"sqlite:///{tmp_path}/empty.sqlite")
    with pytest.raises(errors.TonnageError, match="tonnage-manage db sync"):
        SchedulerService(configured(), Database(empty), bus)
    empty.dispose()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scheduler_default_filters": ["NoFilter"]}, "'NoFilter'"),
        ({"max_over_subscription_ratio": "much"}, "much"),
        ({"enabled_extensions": ["reply"]}, "'reply'"),
    ],
)
def test_a_wrong_option_shows_before_anything_runs(
    ledger: Database, bus: Transport, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        SchedulerService(configured(**values), ledger, bus)
    assert heartbeats(ledger) == []


def test_a_started_scheduler_hears_agents_and_answers(
    start: Callable[..., SchedulerService], ledger: Database, bus: Transport
) -> None:
    service, client = start(), SchedulerClient(bus)
    assert service.reporting() == set()
    report(client)
    answer = client.call(contract.CREATE_VOLUME, request())
    assert answer.pool == f"{BACKEND}#p0"
    assert service.reporting() == {BACKEND}
    assert service.failure is None
    assert heartbeats(ledger) == [("here", "cinder")]


def test_filters_change_while_a_scheduler_runs_and_wrong_ones_change_nothing(
    start: Callable[..., SchedulerService], bus: Transport
) -> None:
    service, client = start(), SchedulerClient(bus)
    report(client)
    with pytest.raises(errors.ConfigurationError, match="'NoFilter'"):
        service.change(configured(scheduler_default_filters=["NoFilter"]))
    assert client.call(contract.CREATE_VOLUME, request()).pool == f"{BACKEND}#p0"
    service.change(configured(scheduler_default_filters=["DriverFilter"], scheduler_default_weighers=[]))
    explanation = client.call(contract.EXPLAIN, request())
    assert "DriverFilter" in explanation.filters
    assert "CapacityFilter" not in explanation.filters


def test_a_scheduler_that_leaves_is_up_no_longer_and_serves_until_it_stops(
    start: Callable[..., SchedulerService], ledger: Database, bus: Transport
) -> None:
    service, client = start(), SchedulerClient(bus)
    report(client)
    service.leave()
    assert heartbeats(ledger) == [("here", None)]
    assert client.call(contract.CREATE_VOLUME, request()).pool == f"{BACKEND}#p0"


def test_the_announcement_of_the_end_may_come_before_it_and_twice(
    start: Callable[..., SchedulerService], bus: Transport
) -> None:
    """The process announces it at the signal, and the service itself when it stops."""
    service, client = start(), SchedulerClient(bus)
    report(client)
    service.announce_stop()
    service.announce_stop()
    assert len(client.call(contract.GET_POOLS, PoolQuery())) == 1
