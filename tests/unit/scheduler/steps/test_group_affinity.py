# SPDX-License-Identifier: Apache-2.0
"""Volumes of one group, on one backend."""

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.catalog import group_types, groups, volume_types
from tonnage.ledger.claims import group_backends
from tonnage.ledger.inventory import backends
from tonnage.rpc.messages import CreateGroup, MigrateVolume, RetypeVolume, SimulatedRequest, WhatIf
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.request_spec import Group
from tonnage.scheduler.steps.group_affinity import GroupAffinity


@pytest.fixture
def world() -> World:
    """Three backends with two pools each, and a third that is larger than all others."""
    rooms = {"a@x#1": 10, "a@x#2": 10, "b@x#1": 10, "b@x#2": 10, "c@x#1": 25, "c@x#2": 4}
    made = World(
        {name: StoragePool(Storage(None, room), 1.0, thin=False, thick=True) for name, room in rooms.items()},
        schedulers=2,
    )
    made.report_all()
    return made


def group(world: World, *type_ids: str) -> str:
    """Make a group, of a type of its own, for volume types."""

    def make(session: orm.Session) -> str:
        kind = group_types.create(session, f"g{next(world.numbers)}")
        wanted = groups.NewGroup(
            project_id="demo", user_id="", name=None, description=None, group_type_id=kind.id, volume_type_ids=type_ids
        )
        return groups.create(session, wanted).id

    return str(world.schedulers[0].core.database.run(make))


def gold(world: World) -> str:
    return str(world.schedulers[0].core.database.run(volume_types.create, "gold").id)


def place(world: World, *sizes: int, scheduler: int = 0, **fields: Any) -> list[Any]:
    """Ask for volumes one by one in one batch."""
    messages = [world.create_message(size, **fields) for size in sizes]
    return world.place(world.schedulers[scheduler], *messages)


def where(answers: list[Any]) -> list[str]:
    return [backend_of(answer.pool or "") for answer in answers]


def test_the_first_member_chooses_the_backend_of_its_group(world: World) -> None:
    kind = gold(world)
    fields = {"volume_type": kind, "group_id": group(world, kind)}
    first = place(world, 3, 15, 5, **fields)
    assert where(first) == ["c@x"] * 3, "in one batch"
    world.settle()
    [refused] = place(world, 9, scheduler=1, **fields)
    assert refused.pool is None
    assert refused.refusal.message.startswith("No pool for 9 GiB: 2 pools; CapacityFilter refused 2, nearest c@x#")
    assert refused.refusal.pool == "c@x"
    assert where(place(world, 9, volume_type=kind)) == ["a@x"], "without the group there is room"
    asked = WhatIf(requests=[SimulatedRequest(create=world.create_message(1, **fields)) for _ in range(2)])
    assert [outlook.volumes[0].pool for outlook in world.schedulers[1].core.what_if(asked)] == ["c@x#2"] * 2


def test_members_created_together_are_placed_in_a_backend_with_room_for_all(world: World) -> None:
    kind = gold(world)
    fields = {"volume_type": kind, "group_id": group(world, kind)}
    request_id = world.request_id()
    # The first alone would go to the largest pool, and the others would not fit beside it.
    members = [world.create_message(9, request_id=request_id, **fields) for _ in range(2)]
    members.append(world.create_message(1, request_id=request_id, **fields))
    place(world, 13, volume_type=kind)
    [answer] = world.place(world.schedulers[0], CreateGroup(request_id=request_id, volumes=members))
    assert answer.refusal is None, answer.refusal.message
    assert len(set(where(answer.volumes))) == 1


def test_a_retried_member_stays_in_the_backend_of_its_group(world: World) -> None:
    kind = gold(world)
    fields = {"volume_type": kind, "group_id": group(world, kind)}
    place(world, 8, **fields)
    world.settle()
    [second, third] = place(world, 3, 3, **fields)
    assert (second.pool, third.pool) == ("c@x#1", "c@x#1")
    while world.bus:
        world.deliver(world.bus.pop(0), world.schedulers[0])
    agent = world.agents["c@x"]
    assert agent is not None
    for _ in range(2):
        agent.work(Fate(fails=True, clean=True))
    world.settle()
    found = world.rows(
        "SELECT v.size_gb, v.status, p.name FROM volumes v LEFT JOIN pools p ON p.id = v.pool_id "
        "ORDER BY v.size_gb DESC, v.status"
    )
    # There is room for one of them in the other pool, and elsewhere for both.
    assert found == [(8, "available", "c@x#1"), (3, "available", "c@x#2"), (3, "error", None)]


def test_no_operation_moves_a_member_to_another_backend(world: World) -> None:
    kind, other = gold(world), world.schedulers[0].core.database.run(volume_types.create, "other").id
    fields = {"volume_type": kind, "group_id": group(world, kind)}
    [answer] = place(world, 3, **fields)
    world.settle()
    moves = (
        Move(MigrateVolume(request_id="m", volume_id=answer.volume_id)),
        RetypeVolume(request_id="r", volume_id=answer.volume_id, volume_type=other),
    )
    for error in world.place(world.schedulers[0], *moves):
        assert isinstance(error, errors.Conflict)
        assert "is in group" in error.message
    world.schedulers[0].core.database.run(backends.set_state, "c@x", enabled=False, draining=True, reason=None)
    world.settle()
    assert world.rows("SELECT p.name FROM pools p JOIN volumes v ON v.pool_id = p.id") == [("c@x#1",)]


def test_a_member_is_not_booked_in_another_backend_than_its_group(world: World) -> None:
    kind = gold(world)
    group_id = group(world, kind)
    place(world, 3, volume_type=kind, group_id=group_id)
    ledger = world.schedulers[0].core.database
    ids = dict(world.rows("SELECT name, id FROM backends"))
    ledger.run(group_backends.lock_for_members, [(group_id, ids["c@x"])])
    for joining in ([(group_id, ids["a@x"])], [(group_id, ids["c@x"]), (group_id, ids["a@x"])]):
        with pytest.raises(errors.Conflict, match="changed by another request"):
            ledger.run(group_backends.lock_for_members, joining)
    ledger.run(groups.reset_status, group_id, groups.ERROR)
    with pytest.raises(errors.Conflict, match="changed by another request"):
        ledger.run(group_backends.lock_for_members, [(group_id, ids["c@x"])])


def test_the_backend_of_a_group_must_suit_all_its_types() -> None:
    table = PoolTable(
        [
            Pool(name=name, total=100.0, free=100.0, thick=True, capabilities=capabilities)
            for name, capabilities in {
                "a@x#ssd": {"media": "ssd", "groups": True},
                "b@x#ssd": {"media": "ssd", "groups": True},
                "b@x#hdd": {"media": "hdd"},
                "c@x#ssd": {"media": "ssd"},
                "c@x#hdd": {"media": "hdd"},
            }.items()
        ]
    )
    asks = [
        Request("", 0, extra_specs=specs) for specs in ({"groups": "<is> True"}, {"media": "ssd"}, {"media": "hdd"})
    ]
    affinity = GroupAffinity(table, FilterChain([CapabilitiesFilter(SimpleNamespace())]))

    def confined(*asks: Request, backend: str | None = None) -> Request:
        return affinity.confined(Request("r", 1), Group(id="g", backend=backend, asks=asks))

    assert confined(*asks).backends == {"b@x"}
    assert confined(asks[1]).backends == {"a@x", "b@x", "c@x"}
    assert confined(*asks, backend="a@x").backends == {"a@x"}, "it is where its volumes are"
    nowhere = confined(asks[0], Request("", 0, extra_specs={"media": "tape"}))
    filters = FilterChain([])
    assert not filters.candidates(table, nowhere).any()
    refusal = filters.refusal(table, nowhere, filters.run(table, nowhere))
    assert refusal.message == "No pool for 1 GiB: a backend for all types of its group is not reported at present"
    affinity.record_placement(Group(id="g", backend=None, asks=()), "c@x#hdd")
    assert confined(*asks).backends == {"c@x"}
