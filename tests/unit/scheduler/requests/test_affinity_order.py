# SPDX-License-Identifier: Apache-2.0
"""Volumes that hints bind to one another, and whose pools fail them before they are made."""

import uuid
from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler import ledgers
from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger import models
from tonnage.rpc.messages import Command, CreateGroup, GroupAnswer, Outcome
from tonnage.scheduler.requests.placement_requests import Retry
from tonnage.scheduler.requests.request_spec import Lookup

#: By volume, the places of those that it names.
Names = Sequence[Sequence[int]]
CIRCLES: list[Names] = [
    [[1], [0]],
    [[1], [2], [0]],
    [[1, 2], [0, 2], [0, 1]],
    [[1], [0], [1]],
    [[], [0], [1]],
    [[0], [0]],
]


def world_of(*free: int) -> World:
    world = World(
        {f"host{number}@b#p": StoragePool(Storage(None, room), 1.0, True, False) for number, room in enumerate(free)}
    )
    world.settle()
    return world


def ask(world: World, hint: str, names: Names) -> list[str]:
    """Ask for volumes together, each with a hint that names others of them, and return their ids."""
    ids = [str(uuid.uuid4()) for _ in names]
    request_id = world.request_id()
    messages = [
        world.create_message(
            4, request_id=request_id, volume_id=own, hints={hint: [ids[other] for other in others]} if others else {}
        )
        for own, others in zip(ids, names, strict=True)
    ]
    [answer] = world.place(world.schedulers[0], CreateGroup(request_id=request_id, volumes=messages))
    assert isinstance(answer, GroupAnswer)
    assert answer.refusal is None, answer.refusal.message
    return ids


def fail(world: World, only: str | None = None) -> None:
    """Let each pool fail what it was to make, or what it was to make of one volume, and those who decide hear of it."""
    letters, world.bus = world.bus, []
    for letter in letters:
        if isinstance(letter.content, Command):
            world.deliver(letter, world.schedulers[0])
    for agent in world.agents.values():
        assert agent is not None
        for number, command in reversed(list(enumerate(agent.commands))):
            if only in (None, command.volume_id):
                agent.work(Fate(fails=True, clean=True), number)
    letters, world.bus = world.bus, []
    outcomes = [letter.content for letter in letters if isinstance(letter.content, Outcome)]
    for outcome, receipt in zip(outcomes, world.schedulers[0].core.outcomes(outcomes), strict=True):
        agent = world.agents[outcome.backend]
        assert agent is not None
        assert receipt.accepted
        agent.operations.acknowledge(outcome.claim_id)
    # What has to be placed again is decided together.
    assert len(world.schedulers[0].thread.jobs) == len(outcomes)
    world.schedulers[0].thread.turn()


def _in_pools(world: World) -> list[tuple[str, str]]:
    return [
        (row[0], row[1])
        for row in world.rows("SELECT v.id, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id ORDER BY v.id")
    ]


def places(world: World) -> dict[str, str]:
    rows = world.rows(
        "SELECT v.id, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id WHERE v.status = 'available'"
    )
    return {volume_id: backend_of(pool) for volume_id, pool in rows}


@pytest.mark.parametrize("names", CIRCLES)
def test_volumes_with_affinity_are_retried_in_the_same_backend(names: Names) -> None:
    # The second that went by room alone would go to the third.
    world = world_of(50, 40, 39)
    ids = ask(world, "same_host", names)
    fail(world)
    world.settle()
    assert places(world) == dict.fromkeys(ids, "host1@b")
    checks.check_at_rest(world, (), (), {})


@pytest.mark.parametrize("names", [[[1], [0]], [[], [0]]])
def test_volumes_with_anti_affinity_are_retried_in_different_backends(names: Names) -> None:
    world = world_of(30, 40, 50, 60)
    ids = ask(world, "different_host", names)
    fail(world)
    fail(world)
    world.settle()
    found = places(world)
    assert found.keys() == set(ids)
    assert len(set(found.values())) == len(ids)
    checks.check_at_rest(world, (), (), {})


@pytest.mark.parametrize("first", range(2))
def test_the_first_failed_volume_waits_for_the_outcome_of_its_peer(first: int) -> None:
    world = world_of(50, 40)
    ids = ask(world, "same_host", [[1], [0]])
    fail(world, ids[first])
    world.schedulers[0].run_periodic_tasks()
    world.schedulers[0].thread.turn()
    fail(world)
    world.settle()
    assert places(world) == dict.fromkeys(ids, "host1@b")


def test_a_volume_with_anti_affinity_waits_for_the_outcome_of_its_peer() -> None:
    world = world_of(50, 40)
    ids = ask(world, "different_host", [[1], [0]])
    fail(world, ids[0])
    assert world.rows(f"SELECT status FROM volumes WHERE id = '{ids[0]}'") == [("creating",)], (
        "only the other's is left"
    )
    fail(world)
    world.settle()
    assert len(set(places(world).values())) == len(ids)


def test_waiting_volumes_are_placed_before_the_next_sweep() -> None:
    world = world_of(50, 40, 39)
    ids = ask(world, "same_host", [[1], [2], [3], [0], [3]])
    fail(world)
    while world.schedulers[0].thread.jobs:
        world.schedulers[0].thread.turn()
    assert {backend_of(pool) for _, pool in _in_pools(world)} == {"host1@b"}
    assert len(_in_pools(world)) == len(ids)


@pytest.mark.parametrize(("hint", "goes"), [("different_host", "host0@b#p"), ("same_host", "host2@b#p")])
def test_a_peer_that_another_scheduler_moved_counts_in_its_new_pool(
    monkeypatch: pytest.MonkeyPatch, hint: str, goes: str
) -> None:
    """By another scheduler, since this one looked. By the old place it would meet the other, or be refused for good."""
    world = world_of(60, 50, 45, 40)
    ids = ask(world, "different_host", [[], [0]])
    world.settle()
    with world.engine.begin() as connection:
        in_pool = "SELECT id FROM pools WHERE name = 'host{}@b#p'"
        connection.exec_driver_sql(f"UPDATE volumes SET pool_id = ({in_pool.format(2)}) WHERE id = '{ids[0]}'")
        hints = f'{{"{hint}": ["{ids[0]}"]}}'
        connection.exec_driver_sql(f"UPDATE volumes SET hints = '{hints}' WHERE id = '{ids[1]}'")
        waits = "UPDATE volumes SET pool_id = NULL, status = 'creating', attempted_pools = '[\"host1@b#p\"]'"
        connection.exec_driver_sql(f"{waits} WHERE id = '{ids[1]}'")

    def put_back(session: orm.Session, found: Lookup) -> None:
        # Of different_host it is away from the best, of same_host where this one may not be.
        old = "host0@b#p" if hint == "different_host" else "host1@b#p"
        before = session.scalars(sa.select(models.Pool).where(models.Pool.name == old)).one()
        session.expunge_all()
        found.volumes[ids[0]].pool, found.volumes[ids[0]].pool_id = before, before.id

    looks = ledgers.change_after_look_up(monkeypatch, put_back)
    [answer] = world.place(world.schedulers[0], Retry(ids[1]))
    assert len(looks) == 2, "it is decided again"
    assert answer.pool == goes


def test_volumes_of_other_projects_are_not_waited_for() -> None:
    world = world_of(50, 40)
    ids = ask(world, "different_host", [[], [0]])
    with world.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE volumes SET project_id = 'other' WHERE id = '{min(ids)}'")
        connection.exec_driver_sql(f"UPDATE volumes SET hints = '{{}}' WHERE id = '{min(ids)}'")
        hints = f'{{"different_host": ["{min(ids)}"]}}'
        connection.exec_driver_sql(f"UPDATE volumes SET hints = '{hints}' WHERE id = '{max(ids)}'")
        connection.exec_driver_sql("UPDATE volumes SET pool_id = NULL")
    [answer] = world.place(world.schedulers[0], Retry(max(ids)))
    assert answer.pool == "host0@b#p"


def test_a_volume_that_cannot_join_its_peer_is_in_error() -> None:
    world = world_of(50, 40)
    ids = ask(world, "same_host", [[1], [0]])
    fail(world, ids[0])
    world.settle()
    assert places(world) == {ids[1]: "host0@b"}
    [(status, reason)] = world.rows(f"SELECT status, status_reason FROM volumes WHERE id = '{ids[0]}'")
    assert status == "error"
    assert "SameBackendFilter refused 1" in reason


@pytest.mark.parametrize("names", CIRCLES[:3])
def test_volumes_do_not_wait_forever_if_no_other_pool_has_room(names: Names) -> None:
    world = world_of(50)
    ids = ask(world, "same_host", names)
    fail(world)
    world.settle()
    assert world.rows("SELECT id FROM volumes WHERE status = 'error' ORDER BY id") == [(each,) for each in sorted(ids)]
