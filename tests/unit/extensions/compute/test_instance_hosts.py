# SPDX-License-Identifier: Apache-2.0
"""Volumes that shall be where an instance runs, from the message to the decision."""

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.agent.fakes import eventually
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity.request import Locality
from tonnage.extensions.compute import instance_hosts
from tonnage.extensions.compute.instance_hosts import InstanceHosts
from tonnage.filters.chain import FilterChain
from tonnage.filters.instance_locality import InstanceLocalityFilter
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.rpc.messages import CreateGroup, CreateVolume, SimulatedRequest, WhatIf
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import LocalVolume, Move, Retry

HERE, ELSEWHERE, NOWHERE = (str(uuid.uuid4()) for _ in range(3))
POOL = f"{BACKEND}#p0"


class Compute:
    """Nova, as far as it is asked. While ``away`` it does not answer."""

    timeout = 30.0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = ""
        self.away = threading.Event()
        self.back = threading.Event()

    def locality(self, instance: str, project_id: str) -> Locality:
        self.asked.append(instance)
        if self.refuses:
            return Locality(code=self.refuses, problem="says no")
        if self.away.is_set():
            assert self.back.wait(60)
        if project_id != "p":
            return Locality(code="instance_not_found", problem="it is of another project")
        if instance == NOWHERE:
            raise ValueError("nobody thought of this")
        return Locality({HERE: "host", ELSEWHERE: "other"}[instance])


@pytest.fixture
def nova() -> Iterator[Compute]:
    nova = Compute()
    yield nova
    nova.back.set()


@pytest.fixture
def local(core: SchedulerManager, nova: Any) -> Iterator[SchedulerManager]:
    """A scheduler that keeps volumes beside instances, and has Nova to ask."""
    core.decisions.preparations = [InstanceHosts(core.database, nova)]
    filters = FilterChain([InstanceLocalityFilter(SimpleNamespace())])
    rules = core.decisions.rules
    rules.apply(core.decisions.with_state_filter(replace(rules.current, filters=filters)))
    yield core
    nova.back.set()


def create(instance: str | None = None, **hints: Any) -> CreateVolume:
    if instance is not None:
        hints["local_to_instance"] = instance
    key = str(uuid.uuid4())
    return CreateVolume(request_id=key, volume_id=key, size_gb=1, project_id="p", hints=hints)


def add_volume(ledger: database.Database, volume_id: str, project_id: str, instance: str | None = None) -> None:
    hints = {} if instance is None else {"local_to_instance": instance}
    row = {"id": volume_id, "project_id": project_id, "size_gb": 1, "status": "creating", "hints": hints}
    with ledger.engine.begin() as connection:
        connection.execute(models.Volume.__table__.insert().values(row))  # type: ignore[attr-defined]


def test_a_volume_goes_where_its_instance_runs_or_nowhere(local: SchedulerManager) -> None:
    assert local.place(create(HERE)).pool == POOL
    refused = local.place(create(ELSEWHERE)).refusal
    assert refused is not None
    assert f"is on host host; instance {ELSEWHERE}" in refused.message
    assert local.place(create()).pool == POOL


def test_all_that_decide_or_ask_are_told(local: SchedulerManager, nova: Compute) -> None:
    group = local.place(CreateGroup(request_id="g", volumes=[create(HERE), create()]))
    assert [each.pool for each in group.volumes] == [POOL, POOL]
    assert [each.pool for each in local.handle_batch([create(HERE), create(ELSEWHERE), create()])] == [POOL, None, POOL]
    assert local.explain(create(HERE)).pool == POOL
    assert local.explain(create(ELSEWHERE)).pool is None
    both = CreateGroup(request_id="h", volumes=[create(HERE), create(ELSEWHERE)])
    [outlook] = local.what_if(WhatIf(requests=[SimulatedRequest(group=both)]))
    assert outlook.volumes[0].pool is None
    # Each is asked about anew, and once for all that came together.
    assert sorted(nova.asked) == sorted([HERE, HERE, ELSEWHERE, HERE, ELSEWHERE, HERE, ELSEWHERE])


def test_an_instance_is_asked_about_for_the_project_of_the_volume(local: SchedulerManager) -> None:
    both = [create(HERE), replace(create(HERE), project_id="q")]
    assert [each.pool for each in local.handle_batch(both)] == [POOL, None]
    assert local.place(CreateGroup(request_id="g", volumes=both)).refusal is not None


def test_while_nova_is_away_other_requests_do_not_wait(local: SchedulerManager, nova: Compute) -> None:
    nova.away.set()
    with futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(local.place, create(HERE))
        eventually(lambda: nova.asked)
        assert local.place(create()).pool == POOL
        assert not waiting.done()
        nova.back.set()
        assert waiting.result().pool == POOL
    nova.back.clear()
    nova.timeout = 0.2
    local.decisions.preparations = [InstanceHosts(local.database, nova)]  # type: ignore[arg-type]
    refusal = local.place(create(HERE)).refusal
    assert refusal is not None
    assert refusal.nearest.rejection.code == "compute_unavailable"
    assert "local_to_instance: Nova has not answered within 0.2 s" in refusal.message


def test_only_so_many_wait(local: SchedulerManager, nova: Compute) -> None:
    local.decisions.preparations = [InstanceHosts(local.database, nova, waiting=1)]  # type: ignore[arg-type]
    nova.away.set()
    with futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(local.place, create(HERE))
        eventually(lambda: nova.asked)
        for _ in range(2):
            assert ": Nova is slow to answer" in local.place(create(HERE)).refusal.message
        nova.back.set()
        assert waiting.result().pool == POOL
    # The seat is free again.
    assert local.place(create(HERE)).pool == POOL


def test_an_error_that_nobody_meant_refuses_that_request_alone(
    local: SchedulerManager, caplog: pytest.LogCaptureFixture
) -> None:
    answers = local.handle_batch([create(NOWHERE), create(HERE)])
    assert [each.pool for each in answers] == [None, POOL]
    assert f"the compute service (Nova) cannot be asked where instance {NOWHERE} runs" in answers[0].refusal.message
    assert "nobody thought of this" in caplog.text


@pytest.mark.parametrize("value", ["web", 5, ["web"], {"id": HERE}])
def test_an_invalid_instance_id_is_not_looked_up(local: SchedulerManager, nova: Compute, value: Any) -> None:
    refused = local.place(create(value)).refusal
    assert refused.nearest.rejection.code == "bad_hint"
    assert "is no id of an instance" in refused.message
    assert nova.asked == []


@pytest.fixture
def later(ledger: database.Database, nova: Any) -> Iterator[Callable[..., Any]]:
    """Submit what nobody waits for, and return it as it was submitted."""
    asking = InstanceHosts(ledger, nova)
    add_volume(ledger, "local", "p", HERE)
    add_volume(ledger, "plain", "p")
    add_volume(ledger, "other", "q", HERE)

    def submit(work: Retry | Move, goes_on_waiting: Callable[[], object] | None = None) -> Any:
        submitted: futures.Future[Any] = futures.Future()
        asking.prepare_later(work, submitted.set_result)
        if goes_on_waiting is None:
            return submitted.result(60)
        eventually(goes_on_waiting)
        return submitted.done()

    yield submit
    asking.stop()


def test_a_volume_that_needs_another_pool(later: Callable[..., Any]) -> None:
    assert later(Retry("local")) == Retry("local", Locality("host"))
    assert later(Retry("plain")) == Retry("plain")
    assert later(Retry("gone")) == Retry("gone")
    assert later(Retry("other")).locality.code == "instance_not_found"


@pytest.mark.parametrize("code", ["compute_unavailable", "compute_not_permitted"])
def test_a_volume_waits_for_another_pool_until_nova_can_be_asked(
    later: Callable[..., Any], nova: Compute, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    nova.refuses = code
    said = "Volume local goes on waiting for another pool: says no"
    assert not later(Retry("local"), lambda: said in caplog.text)
    nova.refuses = ""
    assert later(Retry("local")) == Retry("local", Locality("host"))


def test_a_volume_that_waits_for_nova_is_not_asked_about_once_more(nova: Any, ledger: database.Database) -> None:
    """The sweep hands volumes over again and again, faster than a Nova that is away lets them go."""
    nova.away.set()
    add_volume(ledger, "local", "p", HERE)
    asking = InstanceHosts(ledger, nova)
    submitted: queue.SimpleQueue[object] = queue.SimpleQueue()
    for _ in range(3):
        asking.prepare_later(Retry("local"), submitted.put)
    nova.back.set()
    asking._retrying.shutdown()
    assert (submitted.qsize(), submitted.get()) == (1, Retry("local", Locality("host")))
    assert nova.asked == [HERE]
    asking.stop()


def test_a_located_message_is_the_message_with_more() -> None:
    message = create(HERE, other="hint")
    located = instance_hosts._with_locality(message, {instance_hosts._ProjectInstance("p", HERE): Locality("host")})
    assert isinstance(located, LocalVolume)
    assert (located.volume_id, located.hints, located.locality) == (message.volume_id, message.hints, Locality("host"))


def test_the_decision_thread_may_retry_to_its_end(local: SchedulerManager) -> None:
    """What it has in hand when the scheduler ends may be the failure of a volume."""

    def fails(items: Sequence[None]) -> list[None]:
        deadline = time.monotonic() + 10
        while not local._thread._stopping and time.monotonic() < deadline:
            time.sleep(0.01)
        return [local.decisions.place_later(Retry("v")) for _ in items]

    ending = local._thread.submit(fails, None)
    local.stop()
    assert ending.exception() is None
