# SPDX-License-Identifier: Apache-2.0
"""The advice to make room by moves."""

import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.ledger.records import new_id
from tonnage.capacity.explanation import Explanation
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_records import NewPlan
from tonnage.extensions.moves.room_adviser import RoomAdviser
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
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
        self.held: list[Mapping[str, str]] = []

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        self.queries.append(query)
        self.held.append(held)
        return self._plans[query.arguments["size"]]


@pytest.fixture
def plans(cloud: Cloud) -> Plans:
    return Plans(cloud)


@pytest.fixture
def adviser(cloud: Cloud, plans: Plans) -> Iterator[RoomAdviser]:
    made = RoomAdviser(cloud.database, plans)
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


def test_the_command_names_a_type_by_its_name_unless_it_demands_nothing(
    cloud: Cloud, adviser: RoomAdviser, plans: Plans
) -> None:
    gold_id = new_id()
    with orm.Session(cloud.engine) as session, session.begin():
        is_default = models.VolumeType.name == volume_types.DEFAULT
        default_id = session.scalars(sa.select(models.VolumeType.id).where(is_default)).one()
        session.add(models.VolumeType(id=gold_id, name="gold class"))
    for reference in (volume_types.DEFAULT, default_id):
        assert advice(cloud, adviser, create(60, volume_type=reference))[0].endswith(": tonnage plan fit 60")
    line = advice(cloud, adviser, create(60, volume_type=gold_id))[0]
    assert line.endswith(": tonnage plan fit 60 --type 'gold class'")
    assert plans.queries[-1].arguments == {"size": 60, "volume_type": "gold class"}
    with orm.Session(cloud.engine) as session, session.begin():
        session.add(models.ExtraSpec(volume_type_id=default_id, key="provisioning:min_vol_size", value="1"))
    line = advice(cloud, adviser, create(60, volume_type=default_id))[0]
    assert line.endswith(": tonnage plan fit 60 --type __DEFAULT__")


def test_the_plan_leaves_the_pools_of_other_plans_alone(cloud: Cloud, adviser: RoomAdviser, plans: Plans) -> None:
    assert advice(cloud, adviser, create(60))
    assert plans.held == [{}]
    other = NewPlan(id=new_id(), goal="empty", arguments={}, limits=Limits())
    moves = cloud.plan("empty", target="h@b#p")
    assert moves.moves
    cloud.database.run(plan_records.insert, other, moves)
    advice(cloud, adviser, create(60))
    assert plans.held[-1]["h@b#p"] == other.id


def test_nothing_is_offered_where_moves_make_no_room_or_room_is_not_what_lacks(
    cloud: Cloud, adviser: RoomAdviser
) -> None:
    assert advice(cloud, adviser, create(500)) == []
    assert advice(cloud, adviser, create(60, availability_zone="north")) == []
    assert advice(cloud, adviser, create(60, hints={"same_host": "v"})) == []
    assert advice(cloud, adviser, create(20)) == [], "it fits"


def test_an_explanation_does_not_wait_long_for_a_plan(cloud: Cloud) -> None:
    begun, end = threading.Event(), threading.Event()

    def plan(query: object, held: object) -> Any:
        begun.set()
        end.wait(60)

    slow: Any = SimpleNamespace(plan_beside=plan)
    adviser = RoomAdviser(cloud.database, slow, timeout=0.05)
    assert advice(cloud, adviser, create(60)) == []
    assert begun.wait(10)
    adviser._timeout = 60
    assert advice(cloud, adviser, create(60)) == [], "the first plan is still being made"
    end.set()
    adviser.close()
    assert adviser._is_free.acquire(timeout=10)
    adviser._is_free.release()
    assert advice(cloud, adviser, create(60)) == [], "the scheduler ends"
