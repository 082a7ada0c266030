# SPDX-License-Identifier: Apache-2.0
"""Refusals are recorded with the decision, counted by day and reason, and kept for a while."""

import datetime
import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.decision import NearestMiss, Refusal, Rejection
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals
from tonnage.ledger.catalog.refusals import RefusalFilter, RefusedRequest
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, MigrateVolume
from tonnage.scheduler.requests.placement_requests import Move

POOL = f"{BACKEND}#p0"


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"p0": StoragePool(20, 2.0, thin=False, thick=True)}).started()
    yield world
    world.engine.dispose()


def load(world: World, wanted: RefusalFilter | None = None, limit: int | None = None) -> list[models.Refusal]:
    with world.database.reading() as session:
        return refusals.load(session, wanted or RefusalFilter(), limit)


def moment(text: str) -> datetime.datetime:
    """Return a time as the ledger has it: UTC without a zone."""
    return datetime.datetime.fromisoformat(text)


def test_a_refusal_is_recorded_with_its_reason(world: World) -> None:
    [answer] = world.create(30)
    assert answer.refusal is not None
    [row] = load(world)
    assert (row.verb, row.filter, row.code, row.pool) == ("create", "CapacityFilter", "no_capacity", POOL)
    assert (row.request, row.largest_size_gb, row.message) == ("30 GiB", 20, answer.refusal.message)
    assert row.volume_id == answer.volume_id


def test_the_body_of_a_refused_request_asks_it_again(world: World) -> None:
    with world.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType).values(id="type-1", name="gold"))
    hints = {"query": '["=", "$pool", "p0"]', "group": ["a", "b"]}
    wanted = {"volume_type": "type-1", "availability_zone": "north", "hints": hints}
    world.place(
        [CreateVolume(request_id="req-1", volume_id=str(uuid.uuid4()), size_gb=30, project_id="demo", **wanted)]
    )
    [row] = load(world)
    volume = {"size": 30, "volume_type": "gold", "availability_zone": "north"}
    assert row.request_body == {"volume": volume, "OS-SCH-HNT:scheduler_hints": hints}


def test_a_refused_group_has_no_body(world: World) -> None:
    member = CreateVolume(request_id="", volume_id=str(uuid.uuid4()), size_gb=30, project_id="demo")
    world.place([CreateGroup(request_id="req-g", volumes=[member])])
    [row] = load(world)
    assert (row.verb, row.request_body) == ("group", None)


def test_a_request_that_is_delivered_again_is_recorded_once(world: World) -> None:
    request = CreateVolume(request_id="req-1", volume_id=str(uuid.uuid4()), size_gb=30, project_id="demo")
    first, second = world.place([request]), world.place([request])
    assert first == second
    [row] = load(world)
    assert (row.request_id, row.project_id) == ("req-1", "demo")


def test_refusals_of_volumes_that_exist_name_them(world: World) -> None:
    [answer] = world.create(5)
    world.settle()
    world.place([ExtendVolume(request_id="req-e", volume_id=answer.volume_id, new_size_gb=40)])
    world.place([Move(MigrateVolume(request_id="req-m", volume_id=answer.volume_id))])
    # A drain tries again until it succeeds.
    world.place([Move(MigrateVolume(request_id="drain-1", volume_id=answer.volume_id), keyed=False)])
    assert [row.verb for row in load(world, RefusalFilter(volume_id=answer.volume_id))] == ["migrate", "extend"]


def test_refusals_are_selected_and_the_newest_is_first(world: World) -> None:
    world.create(30)
    world.create(40)
    assert [row.request for row in load(world, RefusalFilter(pool=POOL, code="no_capacity"))] == ["40 GiB", "30 GiB"]
    assert [row.request for row in load(world, limit=1)] == ["40 GiB"]
    for nothing in (RefusalFilter(pool="h@b#p"), RefusalFilter(code="x"), RefusalFilter(project_id="another")):
        assert load(world, nothing) == []


def test_refusals_are_counted_by_day_and_reason(world: World) -> None:
    world.create(30, 40)
    world.create(50)
    with world.engine.begin() as connection:
        newest = sa.select(sa.func.max(models.Refusal.id)).scalar_subquery()
        connection.execute(
            sa.update(models.Refusal)
            .where(models.Refusal.id == newest)
            .values(refused_at=moment("2030-01-02T23:59:00"))
        )
    with world.database.reading() as session:
        counted = refusals.count(session, RefusalFilter())
    assert [(row.day, row.code, row.number) for row in counted[:1]] == [("2030-01-02", "no_capacity", 1)]
    assert [row.number for row in counted] == [1, 2]


def test_old_refusals_are_purged(world: World) -> None:
    world.create(30, 40, 50)
    oldest = load(world)[-1].id
    with world.engine.begin() as connection:
        connection.execute(
            sa.update(models.Refusal).where(models.Refusal.id == oldest).values(refused_at=moment("2020-01-01"))
        )
    assert world.database.run(refusals.purge) == 1
    assert world.database.run(refusals.purge) == 0
    assert world.database.run(refusals.purge, kept=1) == 1
    assert [row.request for row in load(world)] == ["50 GiB"]


def test_texts_of_plug_ins_fit_the_columns(world: World) -> None:
    refusal = Refusal("1 GiB", 1, nearest=NearestMiss(POOL, "F", Rejection("code\0" * 100, "message\0")))
    refused = RefusedRequest(request_id="r", volume_id="v", project_id="p", verb="create", refusal=refusal)
    world.database.run(refusals.insert, [refused])
    [row] = load(world)
    assert row.code == ("code?" * 100)[:255]
