# SPDX-License-Identifier: Apache-2.0
"""Nodes, storage classes and expiry, from what agents report to what is decided and said: pods on three nodes."""

import datetime
import math
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers.base import wait_for
from tests.unit.scheduler import managers
from tests.unit.scheduler.conftest import Clock
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.rpc.messages import (
    BackendReport,
    CreateGroup,
    CreateVolume,
    Hello,
    MigrateVolume,
    Outcome,
    PoolQuery,
    SimulatedRequest,
    WhatIf,
)
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import Move

#: What the agents' pools have, by backend: local storage on three nodes, and an array for nodes of one zone.
POOLS: dict[str, dict[str, Any]] = {
    "n1@pmem": {"free_capacity_gb": 10, "node_name": "n1", "topology_labels": {"zone": "z1"}, "storage_class": "fast"},
    "n2@pmem": {"free_capacity_gb": 20, "node_name": "n2", "topology_labels": {"zone": "z2"}, "storage_class": "fast"},
    "n3@pmem": {"free_capacity_gb": 5, "node_name": "n3", "storage_class": "fast", "report_lifetime": 30},
    "array@san": {"free_capacity_gb": 99, "topology_labels": {"zone": "z1"}, "storage_class": ["safe", "<fallback>"]},
}


class World:
    """A scheduler and agents that do at once what they are told."""

    def __init__(self, core: SchedulerManager, ledger: database.Database, clock: Clock) -> None:
        self.core, self.ledger, self.clock = core, ledger, clock
        self.commands: list[Any] = []
        self.epochs: dict[str, int] = {}
        self.seq = 0
        self._began = time.monotonic()

    def run(self, backend: str, command: Any) -> None:
        self.commands.append((backend, command))

    def report(self, *backends: str, age: float = 0.0, **fields: Any) -> None:
        self.seq += 1
        for backend in backends or POOLS:
            figures = {"pool_name": "p", "total_capacity_gb": 100, "thick_provisioning_support": True}
            report = BackendReport(
                backend=backend,
                epoch=self.epochs[backend],
                seq=self.seq,
                covers=self.seq,
                pools=[{**figures, **POOLS[backend], **fields}],
                age=age,
            )
            self.core.report(PackedReport.of(report))

    def wait(self, seconds: int) -> None:
        """Let time pass, by the scheduler's clock and by that of the ledger, in which nobody reports.

        The decision thread does it: a refresh of its cache must not read the ledger before and the clock after it.
        """
        self.core._thread.call(self._advance, seconds)

    def _advance(self, items: Sequence[int]) -> list[None]:
        (seconds,) = items
        backend, pool = models.Backend, models.Pool
        with self.ledger.engine.begin() as connection:
            for column in (backend.last_report_at, pool.unheard_at, pool.figures_at):
                model = column.class_
                for id, moment in connection.execute(sa.select(model.id, column).where(column.is_not(None))).all():
                    earlier = moment - datetime.timedelta(seconds=seconds)
                    connection.execute(sa.update(model).where(model.id == id).values({column.key: earlier}))
        # In one leap, as if nobody could have heard: that is no excuse for figures.
        self.clock.now += seconds
        self.core.periodic_tasks.run()
        return [None]

    def shown_age(self, backend: str) -> float:
        """Return the age of the figures of a backend's pool, to the second."""
        return round(self.core.hosts.age(f"{backend}#p", self.clock()))

    def are_as_old_as(self, age: float, shown: float) -> bool:
        """Tell whether figures are shown to be of an age, give or take how long the test has run by the ledger's clock.

        A scheduler that starts anew goes by that one, which nobody can stop.
        """
        return math.floor(age) <= shown <= math.ceil(age + time.monotonic() - self._began)

    def expired(self, **wanted: Any) -> float:
        """Return the age of the figures for which nothing is placed by them any longer."""
        answer = self.ask(1, **wanted)
        told = re.search(r"has expired: its figures are (\d+) s old, and count for 30 s", answer)
        assert told, answer
        return float(told[1])

    def work(self) -> None:
        done, self.commands = self.commands, []
        self.core.outcomes(
            [
                Outcome(
                    backend=backend,
                    epoch=command.epoch,
                    claim_id=command.claim_id,
                    ok=True,
                    end_tick=100,
                    size_gb=float(command.size_gb),
                )
                for backend, command in done
            ]
        )

    def ask(self, size: int, **hints: Any) -> str:
        """Ask for a volume and return the backend that it goes to, or why there is none."""
        answer = self.core.place(message(size, **hints))
        return str(answer.refusal.message if answer.pool is None else answer.pool.partition("#")[0])


def message(size: int, **hints: Any) -> CreateVolume:
    identifier = str(uuid.uuid4())
    return CreateVolume(request_id=identifier, volume_id=identifier, size_gb=size, project_id="p", hints=hints)


def segments(*labels: dict[str, str]) -> dict[str, Any]:
    return {"accessibility_requirements": {"requisite": [{"segments": each} for each in labels]}}


def scheduler(ledger: database.Database, settings: Settings, clock: Clock, agents: Any) -> SchedulerManager:
    filters = (CapacityFilter, TopologyFilter, StorageClassFilter)
    return managers.manager(ledger, agents, settings, filters, clock=clock)


@pytest.fixture
def world(ledger: database.Database, settings: Settings, clock: Clock) -> Iterator[World]:
    agents: Any = SimpleNamespace(run=lambda *told: found.run(*told), report_now=lambda name: None)
    core = scheduler(ledger, settings, clock, agents)
    found = World(core, ledger, clock)
    core.start()
    for backend in POOLS:
        hello = Hello(backend=backend, nonce=backend, availability_zone="nova", driver="x")
        found.epochs[backend] = core.hello(hello).epoch
    found.report()
    wait_for(lambda: len(core.get_pools(PoolQuery())) == len(POOLS), "the pools are known")
    yield found
    found.core.stop()


def another(world: World, settings: Settings, clock: Clock) -> SchedulerManager:
    """Return a scheduler that has started on the same ledger."""
    core = scheduler(world.ledger, settings, clock, world.core._agents)
    core.start()
    return core


def test_volumes_are_placed_by_their_node_and_storage_class(world: World) -> None:
    assert world.ask(3, node_name="n1", storage_class="fast") == "n1@pmem"
    assert world.ask(3, storage_class="fast", **segments({"zone": "z3"}, {"zone": "z2", "rack": "r1"})) == "n2@pmem"
    assert world.ask(3, node_name="n9", storage_class="cold", **segments({"zone": "z1"})) == "array@san"
    assert world.ask(3) == "array@san"
    assert world.ask(6, node_name="n3", storage_class="fast") == (
        "No pool for 6 GiB: 4 pools; TopologyFilter refused 3; CapacityFilter refused 1, nearest n3@pmem#p has "
        "headroom 5.00 GiB (total 100, free 5, in flight 0, reserved 0 %, thick)"
    )
    assert world.ask(1, node_name="n9", storage_class="safe", **segments({"zone": "z2"})) == (
        "No pool for 1 GiB: 4 pools; TopologyFilter refused 4, nearest array@san#p can be reached from nodes with "
        "zone=z1, and the volume is needed on node n9 with zone=z2"
    )


def preferring(*zones: str, requisite: Sequence[str] = ("z1", "z2")) -> dict[str, Any]:
    requirements = {
        key: [{"segments": {"zone": zone}} for zone in listed]
        for key, listed in (("requisite", requisite), ("preferred", zones))
    }
    return {"accessibility_requirements": requirements}


def test_the_first_preferred_topology_with_room_is_selected(world: World) -> None:
    """Without strict topology all topologies are requisite, and the selected node's is the first preferred one."""
    assert world.ask(3, **preferring("z2", "z1")) == "n2@pmem"
    assert world.ask(3, **preferring("z1", "z2")) == "array@san"
    assert world.ask(18, **preferring("z2", "z1")) == "array@san", "z2 has no room"
    assert world.ask(3, **preferring("z9", "z2")) == "n2@pmem"
    assert world.ask(3, **preferring("z2", requisite=())) == "n2@pmem"
    group = CreateGroup(request_id=str(uuid.uuid4()), volumes=[message(3, **preferring("z2", "z1"))])
    assert [answer.pool for answer in world.core.place(group).volumes] == ["n2@pmem#p"]


def test_an_explanation_tells_of_the_preferred_topology(world: World) -> None:
    [outlook] = world.core.what_if(
        WhatIf(requests=[SimulatedRequest(create=message(3, **preferring("z2")))], detail=True)
    )
    assert outlook.volumes[0].message == (
        "3 GiB goes to n2@pmem#p, the best of 3 candidates, 1 of them in the preferred topology"
    )


def test_volumes_of_a_pod_are_fitted_together(world: World) -> None:
    def pod(*sizes: int) -> Any:
        volumes = [message(size, node_name="n1", storage_class="fast") for size in sizes]
        return world.core.place(CreateGroup(request_id=str(uuid.uuid4()), volumes=volumes))

    refusal = pod(6, 6).refusal
    assert refusal.message.startswith(
        "No pool for 6 GiB (volume 2 of 2, all or none): 4 pools; TopologyFilter refused 3; CapacityFilter refused 1, "
    )
    assert "nearest n1@pmem#p has headroom 4.00 GiB" in refusal.message
    assert [answer.pool for answer in pod(6, 4).volumes] == ["n1@pmem#p"] * 2
    assert world.ask(1, node_name="n1", storage_class="fast").startswith("No pool for 1 GiB")


def test_nodes_with_room_for_several_volumes_are_found(world: World) -> None:
    def pod(node: str, *sizes: int) -> SimulatedRequest:
        volumes = [message(size, node_name=node, storage_class="fast") for size in sizes]
        return SimulatedRequest(group=CreateGroup(request_id=str(uuid.uuid4()), volumes=volumes))

    asked = [pod(node, 6, 6) for node in ("n1", "n2", "n3", "n2")]
    for detail in (False, True):
        found = [outlook.volumes for outlook in world.core.what_if(WhatIf(requests=asked, detail=detail, apart=True))]
        assert [[each.pool for each in volumes] for volumes in found] == [[None], ["n2@pmem#p"] * 2] * 2
        assert "nearest n1@pmem#p has headroom 4.00 GiB" in found[0][0].message
        assert "nearest n3@pmem#p has headroom 5.00 GiB" in found[2][0].message
    alone = [SimulatedRequest(create=message(15, node_name="n2", storage_class="fast"))] * 2
    assert [each.volumes[0].pool for each in world.core.what_if(WhatIf(requests=alone, apart=True))] == [
        "n2@pmem#p"
    ] * 2
    assert [each.volumes[0].pool for each in world.core.what_if(WhatIf(requests=alone))] == ["n2@pmem#p", None]


@pytest.mark.parametrize("restarted", [False, True])
def test_the_age_of_figures_begins_with_their_collection(
    world: World, restarted: bool, settings: Settings, clock: Clock
) -> None:
    wanted = {"node_name": "n3", "storage_class": "fast"}
    world.report(age=25)
    wait_for(lambda: world.shown_age("n3@pmem") == 25, "the report has been applied")
    world.wait(4)
    assert world.ask(1, **wanted) == "n3@pmem"
    if restarted:
        # Another scheduler, or the same one after a restart, knows it from the ledger alone.
        world.core.stop()
        world.core = another(world, settings, clock)
    world.wait(2)
    assert world.are_as_old_as(31, world.expired(**wanted))
    if restarted:
        return
    assert world.core.hosts.silence("n3@pmem", clock()) < 10, "the agent was heard all the same"


@pytest.mark.parametrize("age", [math.nan, math.inf, 1e300, -1e300, -math.inf])
def test_reports_of_any_age_are_applied(world: World, age: float) -> None:
    world.report("n3@pmem", age=age)
    expected = 0.0 if age < 0 else 1e9
    wait_for(lambda: world.shown_age("n3@pmem") == expected, "what is no age counts as one that nobody should use")


def test_a_refusal_names_figures_that_are_too_old(world: World) -> None:
    wanted = {"node_name": "n3", "storage_class": "fast"}
    world.wait(29)
    assert world.ask(1, **wanted) == "n3@pmem"
    world.wait(2)
    assert world.ask(1, **wanted) == (
        "No pool for 1 GiB: 4 pools; TopologyFilter refused 3; BackendStateFilter refused 1, nearest n3@pmem#p has "
        "expired: its figures are 31 s old, and count for 30 s (report_lifetime)"
    )
    assert {pool.name: pool.capabilities.get("expired") for pool in world.core.get_pools(PoolQuery())} == {
        "n1@pmem#p": None,
        "n2@pmem#p": None,
        "n3@pmem#p": True,
        "array@san#p": None,
    }
    world.report()
    wait_for(lambda: world.ask(1, **wanted) == "n3@pmem", "the next report counts")


@pytest.mark.parametrize("restarted", [False, True])
def test_figures_age_while_reports_are_invalid(world: World, restarted: bool, settings: Settings, clock: Clock) -> None:
    wanted = {"node_name": "n3", "storage_class": "fast"}
    for seconds in (9, 10, 10):
        world.wait(seconds)
        world.report(free_capacity_gb="many")
        heard = world.core.hosts.backend("n3@pmem")
        assert heard is not None
        wait_for(lambda heard=heard: heard.report_seq == world.seq, "the report has been applied")  # type: ignore[misc]
    assert world.ask(1, **wanted) == "n3@pmem"
    if restarted:
        world.core.stop()
        world.core = another(world, settings, clock)
    world.wait(2)
    assert world.are_as_old_as(31, world.expired(**wanted))
    world.report("n1@pmem")
    wait_for(lambda: world.shown_age("n1@pmem") == 0, "this backend has sent some that can be used")
    shown = {pool.name: pool.capabilities["figures_age_seconds"] for pool in world.core.get_pools(PoolQuery())}
    assert shown.keys() == {f"{backend}#p" for backend in POOLS}
    for pool, age in shown.items():
        assert world.are_as_old_as(0 if pool == "n1@pmem#p" else 31, age), pool
    world.report("n3@pmem")
    wait_for(lambda: world.ask(1, **wanted) == "n3@pmem", "the next one that can be used counts")


def test_a_migrated_volume_stays_accessible_from_its_node(world: World) -> None:
    wanted = message(1, node_name="n1", **segments({"zone": "z1"}))
    assert world.core.place(wanted).pool == "array@san#p"
    world.work()
    away = MigrateVolume(request_id="r-move", volume_id=wanted.volume_id, destination="n2@pmem")
    refusal = world.core.place(Move(away)).refusal
    assert "can be reached from node n2, and the volume is needed on node n1 with zone=z1" in refusal.message
    assert world.core.place(Move(replace(away, request_id="r-2", destination=None))).pool == "n1@pmem#p"


def test_an_ignored_hint_is_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """To whoever runs this, and to whoever asks for an explanation."""
    wanted = {"node_name": "n1", "storage_class": "fast", "query": '["=", "$free_capacity_gb", 1]', "same_host": ""}
    words = "the hint query has no effect: scheduler_default_filters does not name JsonFilter"
    assert [world.ask(1, **wanted) for _ in range(2)] == ["n1@pmem"] * 2
    group = CreateGroup(request_id=str(uuid.uuid4()), volumes=[message(1, **wanted)])
    world.core.place(group)
    assert caplog.text.count(words) == caplog.text.count("has no effect") == 1
    asked = [
        SimulatedRequest(create=message(1, **wanted)),
        SimulatedRequest(create=message(1, node_name="n1")),
        SimulatedRequest(group=group),
    ]
    found = [outlook.volumes[0].ignored_hints for outlook in world.core.what_if(WhatIf(requests=asked))]
    assert found == [(words,), (), (words,)]
