# SPDX-License-Identifier: Apache-2.0
"""Requests that are delivered once more, to this scheduler or another: they are answered and not carried out again."""

import datetime
import uuid
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.scheduler import ledgers
from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.storage import Copy, Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.catalog import volume_types
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    DeleteVolume,
    ExtendVolume,
    ManageVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    UnmanageVolume,
)
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.request_spec import Lookup


@pytest.fixture
def world() -> World:
    """Two schedulers, one thin pool and one thick one, and a type for each."""
    pools = {
        "thin@b#p": StoragePool(Storage(None, 40), 1.0, thin=True, thick=False),
        "thick@b#p": StoragePool(Storage(None, 40), 1.0, thin=False, thick=True),
    }
    world = World(pools, schedulers=2)
    for name, wanted in (("thin", "<is> True"), ("thick", "<is> False")):
        specs = {"thin_provisioning_support": wanted}
        world.schedulers[0].core.database.run(
            lambda session, name=name, specs=specs: volume_types.create(session, name, specs=specs)
        )
    world.report_all()
    return world


def made(world: World, kind: str = "thin") -> str:
    [answer] = world.place(world.schedulers[0], world.create_message(5, volume_type=kind))
    assert isinstance(answer, Answer)
    world.settle()
    return answer.volume_id


def retype(volume_id: str, kind: str, policy: MigrationPolicy = MigrationPolicy.ON_DEMAND) -> RetypeVolume:
    return RetypeVolume(request_id="req-type", volume_id=volume_id, volume_type=kind, migration_policy=policy)


def ask(world: World, work: Any, scheduler: int = 0) -> Any:
    return world.place(world.schedulers[scheduler], work)[0]


def status(world: World) -> Any:
    [row] = world.rows("SELECT v.status, t.name FROM volumes v JOIN volume_types t ON t.id = v.volume_type_id")
    return row


@pytest.mark.parametrize("verb", ["create", "group", "extend", "migrate", "retype", "delete", "unmanage", "manage"])
def test_a_request_has_no_effect_long_after_it_was_sent(world: World, verb: str) -> None:
    """Its scheduler was suspended, for any time by its own clocks, and the answers of others are no longer kept."""
    volume, core = made(world), world.schedulers[0].core
    placer, operations = core.decisions.placer.place, core.operations
    key = {"request_id": "late"}
    message, work, carry_out = {
        "create": (world.create_message(1, **key), None, placer),
        "group": (CreateGroup(**key, volumes=[world.create_message(1)]), None, placer),
        "extend": (ExtendVolume(**key, volume_id=volume, new_size_gb=6), None, placer),
        "migrate": (MigrateVolume(**key, volume_id=volume), Move, placer),
        "retype": (RetypeVolume(**key, volume_id=volume, volume_type="thick"), None, placer),
        "delete": (DeleteVolume(**key, volume_id=volume), None, operations.delete),
        "unmanage": (UnmanageVolume(**key, volume_id=volume), None, operations.unmanage),
        "manage": (
            ManageVolume(**key, volume_id=str(uuid.uuid4()), pool="thin@b#p", reference="x", project_id="demo"),
            None,
            operations.manage,
        ),
    }[verb]

    def ask_at(at: datetime.datetime) -> Any:
        dated = replace(message, asked_at=at)
        [result] = carry_out([dated if work is None else work(dated)])
        return result

    def tables() -> list[Any]:
        return [world.rows(f"SELECT * FROM {name} ORDER BY 1") for name in ("volumes", "claims", "request_keys")]

    before = tables()
    now = core.database.recent_time()
    late = ask_at(now - datetime.timedelta(minutes=11))
    assert isinstance(late, errors.Unavailable)
    assert "sent more than 0:10:00" in late.message
    assert tables() == before
    answer = ask_at(now - datetime.timedelta(minutes=9))
    assert not isinstance(answer, errors.Unavailable)
    assert tables() != before
    # The answer that it was given in time is kept.
    again = ask_at(now - datetime.timedelta(hours=1))
    assert (type(again), str(again)) == (type(answer), str(answer))


def test_a_retype_that_moves_the_volume_is_answered_again_while_it_moves_and_after(world: World) -> None:
    message = retype(made(world), "thick")
    first = ask(world, message)
    assert first.pool == "thick@b#p"
    assert status(world) == ("retyping", "thin")
    assert ask(world, message) == ask(world, message, 1) == first
    world.settle()
    assert status(world) == ("available", "thick")
    assert ask(world, message, 1) == first
    assert status(world) == ("available", "thick")
    checks.check_at_rest(world, (), (), {})


def test_a_retype_in_place_is_answered_again_and_does_not_undo_a_later_one(world: World) -> None:
    volume = made(world)
    world.schedulers[0].core.database.run(lambda session: volume_types.create(session, "any"))
    message = retype(volume, "any", MigrationPolicy.NEVER)
    first = ask(world, message)
    assert first == Answer(volume_id=volume, pool="thin@b#p", provisioning="thin")
    assert status(world) == ("available", "any")
    back = RetypeVolume(request_id="req-back", volume_id=volume, volume_type="thin")
    assert ask(world, back, 1).pool == "thin@b#p"
    assert ask(world, message) == first
    assert status(world) == ("available", "thin")
    assert world.rows("SELECT COUNT(*) FROM claims WHERE state = 'pending'") == [(0,)]


def test_a_refused_retype_is_refused_again(world: World) -> None:
    message = retype(made(world), "thick", MigrationPolicy.NEVER)
    first = ask(world, message)
    assert "CapabilitiesFilter" in first.refusal.message or "support" in first.refusal.message
    assert ask(world, message, 1) == first
    assert status(world) == ("available", "thin")


def test_a_retype_and_a_migration_do_not_share_a_request_id(world: World) -> None:
    volume = made(world)
    ask(world, retype(volume, "thick"))
    answer = ask(world, Move(MigrateVolume(request_id="req-type", volume_id=volume)))
    assert isinstance(answer, errors.KeyReused)
    assert f"req-type has been used for another request (retype of volume {volume})" in answer.message


def test_a_retype_by_an_outdated_row_leaves_the_volume_unchanged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retype takes effect on the volume that was looked at, or not at all."""
    volume = made(world)
    world.schedulers[0].core.database.run(lambda session: volume_types.create(session, "any"))

    def extend_volume(session: orm.Session, _: Lookup) -> None:
        session.connection().exec_driver_sql("UPDATE volumes SET status = 'extending'")

    looks = ledgers.change_after_look_up(monkeypatch, extend_volume)
    answer = ask(world, retype(volume, "any"))
    # What changed it was rolled back with the decision, which was then made again.
    assert isinstance(answer, Answer)
    assert len(looks) == 2, "it is decided again"
    assert status(world) == ("available", "any")


def test_a_repeated_unmanage_has_no_second_effect(world: World) -> None:
    volume = made(world)
    message = UnmanageVolume(request_id="req-go", volume_id=volume)
    for scheduler in (0, 0, 1):
        assert world.schedulers[scheduler].core.operations.unmanage([message]) == [None]
    assert world.rows("SELECT external_gb, allocated_capacity_gb FROM pools WHERE name = 'thin@b#p'") == [(5, 0)]
    other = UnmanageVolume(request_id="req-other", volume_id=volume)
    [refused] = world.schedulers[0].core.operations.unmanage([other])
    assert isinstance(refused, errors.NotFound)


def test_an_unmanage_cannot_reuse_the_request_id_of_a_create(world: World) -> None:
    message = world.create_message(5, request_id="req-1")
    ask(world, message)
    world.settle()
    [refused] = world.schedulers[0].core.operations.unmanage(
        [UnmanageVolume(request_id="req-1", volume_id=message.volume_id)]
    )
    assert isinstance(refused, errors.KeyReused)
    assert "req-1 has been used for another request (create of volume" in refused.message


def test_a_repeated_delete_of_a_volume_in_no_pool_has_no_second_effect(world: World) -> None:
    volumes = [made(world), made(world)]
    with world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE volumes SET pool_id = NULL, status = 'error'")
    messages = [DeleteVolume(request_id=f"req-{volume[:8]}", volume_id=volume) for volume in volumes]
    core = world.schedulers[0].core
    assert core.operations.delete([messages[0], messages[1], messages[0]]) == [None, None, None]
    assert world.schedulers[1].core.operations.delete(messages) == [None, None]
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
    [refused] = core.operations.delete([DeleteVolume(request_id="req-other", volume_id=volumes[0])])
    assert isinstance(refused, errors.NotFound)


def test_a_repeated_delete_is_accepted_after_the_volume_is_gone(world: World) -> None:
    volume, other = made(world), made(world)
    first, second = (DeleteVolume(request_id=f"req-d{number}", volume_id=volume) for number in (1, 2))
    verbs, elsewhere = (scheduler.core.operations for scheduler in world.schedulers[:2])
    assert verbs.delete([first, second, first]) == [None, None, None]
    world.settle()
    assert world.rows("SELECT id FROM volumes") == [(other,)]
    assert elsewhere.delete([first, second]) == [None, None]
    new, wrong = elsewhere.delete(
        [DeleteVolume(request_id="req-d3", volume_id=volume), DeleteVolume(request_id="req-d1", volume_id=other)]
    )
    assert isinstance(new, errors.NotFound)
    assert isinstance(wrong, errors.KeyReused)
    assert world.rows("SELECT id FROM volumes WHERE status = 'available'") == [(other,)]


def test_a_repeated_request_does_not_restart_a_failed_delete(world: World) -> None:
    volume = made(world)
    message = DeleteVolume(request_id="req-d1", volume_id=volume)
    verbs = world.schedulers[0].core.operations
    verbs.delete([message])
    world.deliver(world.bus.pop(), world.schedulers[0])
    agent = world.agents["thin@b"]
    assert agent is not None
    agent.work(Fate(fails=True))
    world.settle()
    assert verbs.delete([message]) == [None]
    assert world.rows("SELECT status FROM volumes") == [("error_deleting",)]
    assert verbs.delete([DeleteVolume(request_id="req-d2", volume_id=volume)]) == [None]
    assert world.rows("SELECT status FROM volumes") == [("deleting",)]


def test_a_delete_that_was_refused_does_not_take_effect_later(world: World) -> None:
    """As where a scheduler that was stopped with it in its hands goes on after another one has answered."""
    volume = made(world)
    [grown] = world.place(world.schedulers[0], ExtendVolume(request_id="req-e", volume_id=volume, new_size_gb=6))
    assert isinstance(grown, Answer)
    message = DeleteVolume(request_id="req-d", volume_id=volume)
    [refused] = world.schedulers[0].core.operations.delete([message])
    assert isinstance(refused, errors.Conflict)
    assert "is extending" in refused.message
    world.settle()
    [again] = world.schedulers[1].core.operations.delete([message])
    assert isinstance(again, errors.Conflict)
    assert again.message == refused.message
    assert world.rows("SELECT status, size_gb FROM volumes") == [("available", 6)]
    assert world.schedulers[1].core.operations.delete([DeleteVolume(request_id="req-d2", volume_id=volume)]) == [None]


def refused_twice(world: World, verb: str, message: Any) -> str:
    """Ask for something that cannot be as things are, and once more when it could be; return why it is refused."""
    [first] = getattr(world.schedulers[0].core.operations, verb)([message])
    assert isinstance(first, errors.Conflict)
    world.settle()
    for scheduler in (0, 1):
        [again] = getattr(world.schedulers[scheduler].core.operations, verb)([message])
        assert isinstance(again, errors.Conflict)
        assert again.message == first.message
    return first.message


def test_an_unmanage_that_was_refused_does_not_take_effect_later(world: World) -> None:
    volume = made(world)
    ask(world, ExtendVolume(request_id="req-e", volume_id=volume, new_size_gb=6))
    assert "is extending" in refused_twice(world, "unmanage", UnmanageVolume(request_id="req-u", volume_id=volume))
    assert world.rows("SELECT status, size_gb FROM volumes") == [("available", 6)]
    [done] = world.schedulers[1].core.operations.unmanage([UnmanageVolume(request_id="req-u2", volume_id=volume)])
    assert done is None


def test_a_manage_that_was_refused_does_not_take_effect_later(world: World) -> None:
    pool = world.pools["thin@b#p"]
    pool.copies["by-hand"] = Copy(5, Provisioning.THIN, 5)
    mine, theirs = (
        ManageVolume(request_id=f"req-{id}", volume_id=id, pool="thin@b#p", reference="by-hand", project_id="demo")
        for id in (str(uuid.uuid4()), str(uuid.uuid4()))
    )
    assert world.schedulers[0].core.operations.manage([mine]) == [None]
    [agent] = [agent for agent in world.agents.values() if agent is not None and agent.backend == "thin@b"]
    world.deliver(world.bus.pop(), world.schedulers[0])
    agent.work(Fate(fails=True))
    assert "is about to become volume" in refused_twice(world, "manage", theirs)
    assert world.rows("SELECT id, status FROM volumes") == [(mine.volume_id, "error_managing")]


@pytest.mark.parametrize("kind", ["extend", "migrate", "retype", "clone", "group"])
def test_a_request_refused_for_a_volume_in_use_does_not_take_effect_later(world: World, kind: str) -> None:
    volume = made(world)
    ask(world, ExtendVolume(request_id="req-e", volume_id=volume, new_size_gb=6))
    clone = world.create_message(7, request_id="req-again", source_volume_id=volume)
    work = {
        "extend": ExtendVolume(request_id="req-again", volume_id=volume, new_size_gb=8),
        "migrate": Move(MigrateVolume(request_id="req-again", volume_id=volume)),
        "retype": RetypeVolume(request_id="req-again", volume_id=volume, volume_type="thick"),
        "clone": clone,
        "group": CreateGroup(request_id="req-again", volumes=[clone]),
    }[kind]
    first, twice = world.place(world.schedulers[0], work, work)
    assert isinstance(first, errors.Conflict)
    assert "is extending" in first.message
    assert isinstance(twice, errors.Conflict)
    world.settle()
    for scheduler in (0, 1):
        again = ask(world, work, scheduler)
        assert isinstance(again, errors.Conflict)
        assert again.message == first.message
    assert world.rows("SELECT id, status, size_gb FROM volumes") == [(volume, "available", 6)]
    other = ask(world, ExtendVolume(request_id="req-again", volume_id=str(uuid.uuid4()), new_size_gb=8))
    assert "has been used for another request" in other.message


def test_a_request_without_a_key_stores_none(world: World) -> None:
    volume = made(world)
    ask(world, ExtendVolume(request_id="req-e", volume_id=volume, new_size_gb=6))
    answer = ask(world, Move(MigrateVolume(request_id="drain-1", volume_id=volume), keyed=False))
    assert isinstance(answer, errors.Conflict)
    assert world.rows("SELECT COUNT(*) FROM request_keys WHERE request_id = 'drain-1'") == [(0,)]
