# SPDX-License-Identifier: Apache-2.0
"""Clones, and what is done with their sources meanwhile: a clone claims what its source has."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.scheduler import ledgers
from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.rpc.messages import Answer, ExtendVolume, MigrateVolume, UnmanageVolume
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.request_spec import Lookup


def world_of(*pools: str) -> World:
    world = World({name: StoragePool(Storage(None, 40), 2.0, thin=True, thick=False) for name in pools}, schedulers=2)
    world.settle()
    return world


@pytest.fixture
def world() -> World:
    """Two schedulers and a thin pool."""
    return world_of("thin@b#p")


def ask(world: World, work: Any, scheduler: int = 0) -> Any:
    return world.place(world.schedulers[scheduler], work)[0]


def made(world: World) -> str:
    answer = ask(world, world.create_message(5))
    assert isinstance(answer, Answer)
    world.settle()
    return answer.volume_id


def extend(volume_id: str, request_id: str = "req-e") -> ExtendVolume:
    return ExtendVolume(request_id=request_id, volume_id=volume_id, new_size_gb=8)


def test_a_volume_is_not_extended_while_it_is_cloned(world: World) -> None:
    source = made(world)
    clone = world.create_message(8, source_volume_id=source)
    assert ask(world, clone).pool == "thin@b#p"
    refused = ask(world, extend(source), 1)
    assert isinstance(refused, errors.Conflict)
    assert clone.volume_id in refused.message
    world.settle()
    assert ask(world, extend(source, "req-later"), 1).pool == "thin@b#p"
    world.settle()
    checks.check_at_rest(world, (), (), {})


def test_a_volume_is_not_extended_while_its_clone_waits_for_another_pool() -> None:
    world = world_of("thin@b#p", "thin@b#q")
    source = made(world)
    clone = world.create_message(8, source_volume_id=source)
    ask(world, clone)
    agent = world.agents["thin@b"]
    assert agent is not None
    [command] = world.bus
    world.deliver(command, world.schedulers[0])
    world.bus.clear()
    agent.work(Fate(fails=True, clean=True))
    [outcome] = world.bus
    world.deliver(outcome, world.schedulers[0])
    world.bus.clear()
    waiting = f"SELECT status, pool_id FROM volumes WHERE id = '{clone.volume_id}'"
    assert world.rows(waiting) == [("creating", None)]
    refused = ask(world, extend(source), 1)
    assert isinstance(refused, errors.Conflict)
    assert clone.volume_id in refused.message
    world.settle()
    assert [row[0] for row in world.rows("SELECT status FROM volumes")] == ["available", "available"]


def test_an_extend_is_refused_if_a_clone_was_booked_after_the_volume_was_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(world)
    ask(world, world.create_message(8, source_volume_id=source))
    looks = ledgers.change_after_look_up(monkeypatch, lambda _, found: replace(found, cloned={}))
    refused = ask(world, extend(source), 1)
    assert isinstance(refused, errors.Conflict)
    assert "is being cloned" in refused.message
    assert len(looks) == 2, "it is decided again"
    assert world.rows("SELECT size_gb, status FROM volumes ORDER BY size_gb") == [(5, "available"), (8, "creating")]


@pytest.mark.parametrize("change", ["size_gb = 6", "status = 'extending'", "pool_id = 3 - pool_id"])
def test_a_clone_is_not_booked_by_an_outdated_row_of_its_source(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    world = world_of("thin@b#p", "thin@b#q")
    source = made(world)

    def change_volumes(session: orm.Session, _: Lookup) -> None:
        session.connection().exec_driver_sql(f"UPDATE volumes SET {change}")

    looks = ledgers.change_after_look_up(monkeypatch, change_volumes)
    answer = ask(world, world.create_message(8, source_volume_id=source))
    # What changed it was rolled back with the decision, which was then made again.
    assert isinstance(answer, Answer)
    assert len(looks) == 2


def test_a_clone_of_an_unmanaged_source_copies_at_most_the_claimed_size(world: World) -> None:
    source = made(world)
    ask(world, world.create_message(8, source_volume_id=source))
    message = UnmanageVolume(request_id="req-u", volume_id=source)
    assert world.schedulers[1].core.operations.unmanage([message]) == [None]
    world.bus.clear()
    world.settle()
    assert world.pools["thin@b#p"].used_gb == 5
    checks.check_at_rest(world, (), {("thin@b#p", source)}, {})


def test_a_clone_is_refused_after_an_extend_in_its_batch(world: World) -> None:
    source = made(world)
    clone = world.create_message(8, source_volume_id=source)
    grown, cloned = world.place(world.schedulers[0], extend(source), clone)
    assert isinstance(grown, Answer)
    assert isinstance(cloned, errors.Conflict)
    assert "is extending" in cloned.message


def test_a_clone_is_refused_after_a_migration_in_its_batch() -> None:
    world = world_of("thin@b#p", "thin@c#q")
    source = made(world)
    clone = world.create_message(8, source_volume_id=source)
    moved, cloned = world.place(world.schedulers[0], Move(MigrateVolume(request_id="req-m", volume_id=source)), clone)
    assert isinstance(moved, Answer)
    assert isinstance(cloned, errors.Conflict)
    assert "is maintenance" in cloned.message
    world.settle()
    checks.check_at_rest(world, (), (), {})
