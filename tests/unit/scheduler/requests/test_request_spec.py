# SPDX-License-Identifier: Apache-2.0
"""What requests refer to, and what becomes of those whose references do not hold."""

from dataclasses import replace

import pytest

from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.ledger.catalog import qos_specs, volume_types
from tonnage.ledger.db import database
from tonnage.rpc.messages import Answer, Command, ExtendVolume, MigrateVolume, RetypeVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.steps import moves


@pytest.fixture
def world() -> World:
    world = World({f"host{number}@b#p": StoragePool(Storage(None, 40), 1.0, True, False) for number in range(2)})
    world.settle()
    return world


def place(world: World, size: int = 5, **more: object) -> Answer:
    [answer] = world.place(world.schedulers[0], world.create_message(size, **more))
    assert isinstance(answer, Answer)
    return answer


def move(world: World, volume_id: str, destination: str | None = None) -> object:
    message = MigrateVolume(request_id=world.request_id(), volume_id=volume_id, destination=destination)
    return world.place(world.schedulers[0], Move(message))[0]


def test_a_clone_is_placed_in_the_backend_of_its_source_and_its_data_are_in_flight(world: World) -> None:
    source = place(world)
    world.settle()
    clone = place(world, 8, source_volume_id=source.volume_id)
    assert clone.pool == source.pool
    assert world.rows(f"SELECT physical_gb FROM claims WHERE volume_id = '{clone.volume_id}'") == [(5,)]
    world.settle()
    checks.check_at_rest(world, (), (), {})


@pytest.mark.parametrize(("size", "problem"), [(4, "takes at least its 5")])
def test_a_clone_is_not_smaller_than_its_source(world: World, size: int, problem: str) -> None:
    source = place(world)
    world.settle()
    message = world.create_message(size, source_volume_id=source.volume_id)
    [refused] = world.place(world.schedulers[0], message)
    assert isinstance(refused, errors.InvalidInput)
    assert problem in refused.message


def test_a_clone_of_a_missing_or_busy_source_is_refused(world: World) -> None:
    [refused] = world.place(world.schedulers[0], world.create_message(5, source_volume_id="nothing"))
    assert isinstance(refused, errors.NotFound)
    source = place(world)
    [refused] = world.place(world.schedulers[0], world.create_message(5, source_volume_id=source.volume_id))
    assert isinstance(refused, errors.Conflict)


def test_a_retried_clone_is_in_error_if_its_source_was_deleted(world: World) -> None:
    source = place(world)
    world.settle()
    clone = place(world, source_volume_id=source.volume_id)
    backend = (clone.pool or "").partition("#")[0]
    agent = world.agents[backend]
    assert agent is not None
    for letter in list(world.bus):
        if isinstance(letter.content, Command):
            world.deliver(letter, world.schedulers[0])
    world.bus.clear()
    agent.work(Fate(fails=True, clean=True))
    with world.engine.begin() as connection:
        connection.exec_driver_sql(f"DELETE FROM volumes WHERE id = '{source.volume_id}'")
    world.deliver(world.bus.pop(), world.schedulers[0])
    world.schedulers[0].thread.turn()
    [(status, reason)] = world.rows(f"SELECT status, status_reason FROM volumes WHERE id = '{clone.volume_id}'")
    assert status == "error"
    assert source.volume_id in reason


def test_a_volume_is_migrated_to_another_pool_only(world: World) -> None:
    volume = place(world)
    world.settle()
    stays = move(world, volume.volume_id, volume.pool)
    assert isinstance(stays, Answer)
    assert stays.refusal is not None
    moved = move(world, volume.volume_id)
    assert isinstance(moved, Answer)
    assert moved.pool not in (None, volume.pool)
    again = move(world, volume.volume_id)
    assert isinstance(again, errors.Conflict)
    world.settle()
    checks.check_at_rest(world, (), (), {})


def test_a_volume_is_not_migrated_to_a_pool_with_an_old_copy_of_it(world: World) -> None:
    """The order to purge would meet the copy that comes."""
    volume = place(world)
    world.settle()
    moved = move(world, volume.volume_id)
    assert isinstance(moved, Answer)
    agent = world.agents[(moved.pool or "").partition("#")[0]]
    assert agent is not None
    for letter in list(world.bus):
        if isinstance(letter.content, Command):
            world.deliver(letter, world.schedulers[0])
    world.bus.clear()
    agent.work(Fate())
    world.deliver(world.bus.pop(), world.schedulers[0])
    back = move(world, volume.volume_id)
    assert isinstance(back, Answer)
    assert back.refusal is not None
    world.settle()
    back = move(world, volume.volume_id)
    assert isinstance(back, Answer)
    assert back.pool == volume.pool
    world.settle()
    checks.check_at_rest(world, (), (), {})


def test_hints_do_not_see_volumes_of_other_projects(world: World) -> None:
    volume = place(world)
    request = world.create_message(1, hints={"same_host": volume.volume_id, "different_host": [volume.volume_id]})
    with database.Database(world.engine).reading() as session:
        lookup = resolution.read_references(session, [request])
    own = resolution.resolve_create(request, lookup).request
    backend = (volume.pool or "").partition("#")[0]
    assert (own.same_backends, own.different_backends) == ({backend}, {backend})
    others = resolution.resolve_create(replace(request, project_id="other"), lookup).request
    assert (others.same_backends, others.different_backends) == (set(), set())


def test_a_request_has_the_qos_specs_of_its_type(world: World) -> None:
    ledger = database.Database(world.engine)
    ledger.run(lambda session: volume_types.create(session, "fast"))
    limits = {"maxIOPS": "500"}
    ledger.run(
        lambda session: qos_specs.associate(
            session,
            qos_specs.create(session, "limits", qos_specs.Consumer.FRONT_END, limits).id,
            volume_types.find(session, "fast").id,
        )
    )
    volume = place(world, volume_type="fast")
    plain = place(world)
    world.settle()
    create = world.create_message(1, volume_type="fast")
    growth = ExtendVolume(request_id="r", volume_id=volume.volume_id, new_size_gb=6)
    away = Move(MigrateVolume(request_id="r", volume_id=volume.volume_id))
    retyped = Move.for_type(RetypeVolume(request_id="r", volume_id=plain.volume_id, volume_type="fast"))
    with ledger.reading() as session:
        lookup = resolution.read_references(session, [create, growth, away, retyped])
    assert resolution.resolve_create(create, lookup).request.qos_specs == limits
    assert resolution.resolve_extend(growth, lookup).request.qos_specs == limits
    assert moves.resolve_move(away, lookup).request.qos_specs == limits
    assert moves.resolve_move(retyped, lookup).request.qos_specs == limits
    assert resolution.resolve_create(world.create_message(1), lookup).request.qos_specs == {}


def test_hints_apply_to_creation_only(world: World) -> None:
    """A query that held then need not hold for its growth, nor for where it is moved."""
    volume = place(world, hints={"query": '["=", 1, 1]'})
    world.settle()
    growth = ExtendVolume(request_id="r", volume_id=volume.volume_id, new_size_gb=6)
    away = Move(MigrateVolume(request_id="r", volume_id=volume.volume_id))
    with database.Database(world.engine).reading() as session:
        lookup = resolution.read_references(session, [growth, away])
    assert resolution.resolve_extend(growth, lookup).request.hints == {}
    assert moves.resolve_move(away, lookup).request.hints == {}
