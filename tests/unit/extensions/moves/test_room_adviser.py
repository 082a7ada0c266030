# SPDX-License-Identifier: Apache-2.0
"""The advice to make room by moves."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.ledger.records import new_id
from tonnage.capacity.explanation import Explanation
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.room_adviser import RoomAdviser
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.decisions import resolution


@pytest.fixture
def cloud() -> Cloud:
    return Cloud().add("a", 100, [40, 15]).add("b", 100, [70, 10]).add("c", 30)


class Plans:
    """A planner whose plans are made beforehand: the ledger of a cloud belongs to one thread."""

    def __init__(self, cloud: Cloud) -> None:
        self._plans = {size: cloud.plan("fit", size=size) for size in (20, 60, 500)}
        self.queries: list[PlanQuery] = []

    def plan(self, query: PlanQuery) -> MovePlan:
        self.queries.append(query)
        return self._plans[query.arguments["size"]]


@pytest.fixture
def plans(cloud: Cloud) -> Plans:
    return Plans(cloud)


@pytest.fixture
def adviser(plans: Plans) -> Iterator[RoomAdviser]:
    made = RoomAdviser(plans)
    yield made
    made.close()


def create(size: int, **more: Any) -> CreateVolume:
    return CreateVolume(request_id="", volume_id=new_id(), project_id="demo", size_gb=size, **more)


def explain(cloud: Cloud, message: CreateVolume) -> Explanation:
    model = cloud.model()
    lookup = PlacedVolumes(cloud.database).lookup([message])
    return model.rules.explain(model.pools, resolution.resolve_create(message, lookup).request)


def advice(cloud: Cloud, adviser: RoomAdviser, message: CreateVolume) -> list[str]:
    return list(adviser.advise(message, explain(cloud, message)))


def test_moves_that_make_room_are_offered_with_their_command(cloud: Cloud, adviser: RoomAdviser, plans: Plans) -> None:
    assert advice(cloud, adviser, create(60)) == ["1 move of 15 GiB would make room: tonnage plan fit 60"]
    words = advice(cloud, adviser, create(60, availability_zone="nova"))
    assert words == ["1 move of 15 GiB would make room: tonnage plan fit 60 --zone nova"]
    assert plans.queries[-1] == PlanQuery(goal="fit", arguments={"size": 60, "zone": "nova"})


def test_nothing_is_offered_where_moves_make_no_room_or_room_is_not_what_lacks(
    cloud: Cloud, adviser: RoomAdviser
) -> None:
    assert advice(cloud, adviser, create(500)) == []
    assert advice(cloud, adviser, create(60, availability_zone="north")) == []
    assert advice(cloud, adviser, create(60, hints={"same_host": "v"})) == []
    assert advice(cloud, adviser, create(20)) == [], "it fits"


def test_an_explanation_does_not_wait_long_for_a_plan(cloud: Cloud) -> None:
    begun, end = threading.Event(), threading.Event()

    def plan(query: object) -> Any:
        begun.set()
        end.wait(60)

    slow: Any = SimpleNamespace(plan=plan)
    adviser = RoomAdviser(slow, timeout=0.05)
    assert advice(cloud, adviser, create(60)) == []
    assert begun.wait(10)
    adviser._timeout = 60
    assert advice(cloud, adviser, create(60)) == [], "the first plan is still being made"
    end.set()
    adviser.close()
    assert adviser._is_free.acquire(timeout=10)
    adviser._is_free.release()
    assert advice(cloud, adviser, create(60)) == [], "the scheduler ends"
