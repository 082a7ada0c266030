# SPDX-License-Identifier: Apache-2.0
"""Requests are decided one after another on one table, in which each placement counts for those after it."""

import uuid
from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.decisions.decider import Decider, RequestDecision
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.requests import placement_requests
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.requests.request_spec import Lookup

EMPTY = Lookup({}, {})


class Observer(DecisionObserver):
    """Records the free capacity that each decision saw, and what was decided."""

    def __init__(self) -> None:
        self.decisions: list[tuple[float, bool]] = []

    def decided(self, pools: PoolTable, rules: Rules, request: Request, decision: Decision, *, in_place: bool) -> None:
        self.decisions.append((float(pools.claimed[0]), isinstance(decision, Placement)))


@pytest.fixture
def world() -> World:
    """A pool with room for 10 GiB."""
    return World({"p0": StoragePool(10, 1.0, thin=False, thick=True)}).started()


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def decider(world: World, observer: Observer) -> Decider:
    return Decider(world.hosts.table, world.rules.current, observers=[observer])


def create(size: int, **values: Any) -> CreateVolume:
    return CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=size, project_id="demo", **values)


def placed(decided: RequestDecision) -> bool:
    return not isinstance(decided.result, Refusal)


def test_placements_count_for_the_requests_after_them(decider: Decider, observer: Observer) -> None:
    assert [placed(decider.decide(create(size), EMPTY)) for size in (6, 5, 4, 1)] == [True, False, True, False]
    assert observer.decisions == [(0, True), (6, False), (6, True), (10, False)]
    assert decider.counted == {f"{BACKEND}#p0"}


def test_requests_are_decided_alone_unless_they_count(world: World) -> None:
    decider = Decider(world.hosts.table, world.rules.current, counting=False)
    assert [placed(decider.decide(create(size), EMPTY)) for size in (6, 7)] == [True, True]
    assert decider.counted == set()


def test_a_refusal_can_be_compared_with_newer_figures(decider: Decider) -> None:
    decided = decider.decide(create(11), EMPTY)
    assert [request.size_gb for request in decided.stale_refusals] == [11]
    assert decided.request.startswith("11 GiB")


def test_a_group_is_placed_whole_or_not_at_all(decider: Decider) -> None:
    fitting = CreateGroup(request_id="g", volumes=[create(4), create(6)])
    too_large = CreateGroup(request_id="g", volumes=[create(4), create(7)])
    refused = decider.decide(too_large, EMPTY)
    assert (placed(refused), len(refused.stale_refusals), decider.counted) == (False, 2, set())
    decided = decider.decide(fitting, EMPTY)
    assert isinstance(decided.result, list)
    assert len(decided.result) == 2
    assert not placed(decider.decide(create(1), EMPTY))


def test_malformed_requests_raise_the_errors_of_their_resolution(decider: Decider) -> None:
    with pytest.raises(errors.InvalidInput):
        decider.decide(create(0), EMPTY)
    with pytest.raises(errors.NotFound):
        decider.decide(ExtendVolume(request_id="r", volume_id="absent", new_size_gb=5), EMPTY)


def test_a_volume_that_grows_takes_its_growth_alone(world: World, decider: Decider) -> None:
    volume_id = world.made(6)
    world.refresh()
    extend = ExtendVolume(request_id="r", volume_id=volume_id, new_size_gb=10)

    def decide(session: orm.Session, item: Work) -> RequestDecision:
        return decider.decide(item, resolution.read_references(session, placement_requests.by_volume([item])))

    with world.database.reading() as session:
        decided = decide(session, extend)
    assert placed(decided)
    assert decided.specs[0].request.size_gb == 4
