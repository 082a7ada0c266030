# SPDX-License-Identifier: Apache-2.0
"""Migrations, retypes and extensions by a migration: a simulation and the scheduler decide the same."""

import pytest

from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.inventory import pending_claims
from tonnage.rpc.messages import (
    Answer,
    BackendState,
    Command,
    ExtendVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    SetBackendState,
    SimulatedRequest,
    WhatIf,
)
from tonnage.scheduler.requests.placement_requests import Move, Work

TYPES = {
    "any": {},
    "thin": {"provisioning:type": "thin"},
    "thick": {"provisioning:type": "thick"},
    "only thick": {"thick_provisioning_support": "<is> True", "thin_provisioning_support": "<is> False"},
    "missing": {"media": "tape"},
    "may be thin": {"thin_provisioning_support": "<is> True"},
    "growing": {"provisioning:extend_by_migration": "<is> True"},
}


@pytest.fixture
def world() -> World:
    pools = {
        "both@b#p": StoragePool(Storage(None, 40), 1.0, thin=True, thick=True),
        "thick@b#p": StoragePool(Storage(None, 30), 1.0, thin=False, thick=True),
        "small@b#p": StoragePool(Storage(None, 3), 1.0, thin=True, thick=True),
    }
    world = World(pools)
    for name, specs in TYPES.items():
        world.schedulers[0].core.database.run(
            lambda session, name=name, specs=specs: volume_types.create(session, name, specs=specs)
        )
    world.settle()
    return world


@pytest.fixture
def volume(world: World) -> str:
    """A thin volume of 5 GiB in the pool that takes either kind."""
    [answer] = world.place(world.schedulers[0], world.create_message(5, volume_type="any"))
    assert (answer.pool, answer.provisioning) == ("both@b#p", "thin")
    world.settle()
    return str(answer.volume_id)


def asked(world: World, question: SimulatedRequest, detail: bool = True) -> Explanation:
    [outlook] = world.schedulers[0].core.what_if(WhatIf(requests=[question], detail=detail))
    [explanation] = outlook.volumes
    return explanation


def retype(volume_id: str, kind: str, policy: str, request_id: str) -> RetypeVolume:
    policy = MigrationPolicy(policy)
    return RetypeVolume(request_id=request_id, volume_id=volume_id, volume_type=kind, migration_policy=policy)


def done(world: World, work: Work) -> Answer:
    [answer] = world.place(world.schedulers[0], work)
    assert isinstance(answer, Answer)
    return answer


def test_a_migration(world: World, volume: str) -> None:
    """A refusal changes nothing, so one volume will do."""
    refusals = {"both@b#p": "BackendStateFilter", "thick@b#p": None, "small@b#p": "CapacityFilter"}
    places = {"small@b": None, "small@b#p": None, "both@b#p": None, "thick@b": "thick@b#p", None: "thick@b#p"}
    for number, (destination, pool) in enumerate(places.items()):
        message = MigrateVolume(request_id=f"r{number}", volume_id=volume, destination=destination)
        explanation = asked(world, SimulatedRequest(migrate=message))
        assert explanation.pool == pool
        verdicts = {each.pool: each.filter for each in explanation.verdicts}
        assert verdicts == {name: refused for name, refused in refusals.items() if (destination or name) in name}
        short = asked(world, SimulatedRequest(migrate=message), detail=False)
        assert short.message.startswith("5 GiB" if pool else "No pool for 5")
        if pool is None or destination is None:
            answer = done(world, Move(message))
            assert (answer.pool, answer.refusal) == (pool, explanation.refusal)


@pytest.mark.parametrize(
    ("kind", "policy", "pool"),
    [
        ("thin", "on-demand", "both@b#p"),
        ("only thick", "on-demand", "thick@b#p"),
    ],
)
def test_another_type(world: World, volume: str, kind: str, policy: str, pool: str) -> None:
    for number, (wanted, may) in enumerate([("missing", "on-demand"), ("missing", "never"), ("thick", "never")]):
        refused = retype(volume, wanted, may, f"refused-{number}")
        explanation = asked(world, SimulatedRequest(retype=refused))
        assert explanation.pool is None
        # All pools are looked at if it may go there, else that of the volume alone.
        assert len(explanation.verdicts) == (3 if may == "on-demand" else 1)
        assert explanation.refusal == done(world, refused).refusal
    message = retype(volume, kind, policy, "r")
    explanation = asked(world, SimulatedRequest(retype=message))
    assert explanation.pool == pool
    if pool == "both@b#p":
        assert explanation.message == f"5 GiB thin '{kind}' stays in both@b#p"
    else:
        assert explanation.message.startswith("Cannot stay where it is: No pool for a volume")
        assert ". To move it: 5 GiB" in explanation.message
    short = asked(world, SimulatedRequest(retype=message), detail=False)
    assert (short.pool, short.message) == (explanation.pool, explanation.message.partition(", the best of")[0])
    answer = done(world, message)
    assert (answer.pool, answer.refusal) == (explanation.pool, None)


def test_each_move_sees_what_those_before_it_took(world: World, volume: str) -> None:
    [other] = world.place(world.schedulers[0], world.create_message(20, volume_type="any"))
    world.settle()
    moves = [
        SimulatedRequest(migrate=MigrateVolume(request_id=f"r{each}", volume_id=each, destination="thick@b"))
        for each in (volume, other.volume_id, other.volume_id)
    ]
    outlooks = world.schedulers[0].core.what_if(WhatIf(requests=moves))
    assert [outlook.volumes[0].pool for outlook in outlooks] == ["thick@b#p", "thick@b#p", None]


@pytest.fixture
def growing_volume(world: World) -> str:
    """A thin volume of 15 GiB in the pool of 40 GiB; its type lets it move to grow."""
    [answer] = world.place(world.schedulers[0], world.create_message(15, volume_type="growing"))
    assert answer.pool == "both@b#p"
    world.settle()
    return str(answer.volume_id)


def extend(volume_id: str, new_size_gb: int) -> ExtendVolume:
    return ExtendVolume(request_id=f"to-{new_size_gb}", volume_id=volume_id, new_size_gb=new_size_gb)


def fill(world: World, size_gb: int) -> None:
    """Put a volume into the pool of 40 GiB."""
    [answer] = world.place(world.schedulers[0], world.create_message(size_gb, volume_type="may be thin"))
    assert answer.pool == "both@b#p"
    world.settle()


def volume_row(world: World, volume_id: str) -> tuple[object, ...]:
    """Return the pool, size and status of a volume."""
    [row] = world.rows(
        f"SELECT p.name, v.size_gb, v.status FROM volumes v JOIN pools p ON p.id = v.pool_id WHERE v.id = '{volume_id}'"
    )
    return row


def test_a_volume_grows_in_its_pool_while_it_has_room(world: World, growing_volume: str) -> None:
    assert done(world, extend(growing_volume, 40)).pool == "both@b#p"
    assert world.rows("SELECT verb, size_gb FROM claims WHERE state = 'pending'") == [("extend", 25)]
    world.settle()
    assert volume_row(world, growing_volume) == ("both@b#p", 40, "available")


def test_a_volume_moves_to_grow_when_only_room_is_missing(world: World, growing_volume: str) -> None:
    fill(world, 20)
    message = extend(growing_volume, 25)
    explanation = asked(world, SimulatedRequest(extend=message))
    assert explanation.pool == "thick@b#p"
    assert explanation.message.startswith("Cannot grow where it is: No pool for 10 GiB")
    assert ". To move it: 25 GiB" in explanation.message
    assert done(world, message).pool == "thick@b#p"
    assert volume_row(world, growing_volume) == ("both@b#p", 15, "extending")
    pending = "SELECT verb, size_gb, target_size_gb FROM claims WHERE state = 'pending'"
    assert world.rows(pending) == [("migrate", 25, 25)]
    world.settle()
    assert volume_row(world, growing_volume) == ("thick@b#p", 25, "available")
    assert growing_volume not in world.pools["both@b#p"].copies
    assert world.pools["thick@b#p"].copies[growing_volume].size_gb == 25


def test_a_volume_of_another_type_does_not_move_to_grow(world: World, volume: str) -> None:
    fill(world, 30)
    assert done(world, extend(volume, 25)).refusal is not None


def test_a_volume_that_finds_no_other_pool_is_refused_with_both_reasons(world: World, growing_volume: str) -> None:
    fill(world, 20)
    message = extend(growing_volume, 35)
    explanation = asked(world, SimulatedRequest(extend=message))
    answer = done(world, message)
    assert answer.refusal is not None
    assert (explanation.pool, explanation.refusal) == (None, answer.refusal)
    assert explanation.message.startswith("Cannot grow where it is: No pool for 20 GiB")
    assert ". To move it: No pool for 35 GiB" in explanation.message
    grows = "No pool for 35 GiB thin 'growing', which has no room to grow in"
    assert answer.refusal.message.startswith(f"{grows} both@b#p: 2 pools; CapacityFilter refused 2, nearest ")
    assert answer.refusal.without_pools().message.startswith(f"{grows} its pool: 2 pools; CapacityFilter refused 2")
    assert volume_row(world, growing_volume) == ("both@b#p", 15, "available")


def test_a_volume_does_not_move_to_grow_off_a_backend_that_takes_no_volumes(world: World, growing_volume: str) -> None:
    """It could not grow there with any room."""
    scheduler = world.schedulers[0]
    message = SetBackendState(backend="both@b", state=BackendState.DISABLED)
    future = scheduler.thread.submit(scheduler.core.operations.set_backend_state, message)
    scheduler.thread.turn()
    future.result()
    answer = done(world, extend(growing_volume, 25))
    assert answer.refusal is not None
    assert answer.refusal.message.startswith("No pool for 10 GiB")


def test_a_volume_whose_copy_fails_stays_where_it_is_at_its_size(world: World, growing_volume: str) -> None:
    fill(world, 20)
    assert done(world, extend(growing_volume, 25)).pool == "thick@b#p"
    agent = world.agents["thick@b"]
    assert agent is not None
    [letter] = [letter for letter in world.bus if isinstance(letter.content, Command)]
    world.bus.remove(letter)
    agent.take(letter.content)
    agent.work(Fate(fails=True, clean=True))
    world.settle()
    assert volume_row(world, growing_volume) == ("both@b#p", 15, "available")
    assert world.rows("SELECT event FROM messages") == [("volume_extend_failed",)]
    assert growing_volume not in world.pools["thick@b#p"].copies
    # It may grow once there is room.
    assert done(world, extend(growing_volume, 16)).pool == "both@b#p"


def test_a_source_of_a_copy_does_not_move_to_grow(world: World, growing_volume: str) -> None:
    clone = world.create_message(15, source_volume_id=growing_volume)
    assert done(world, clone).pool == "both@b#p"
    [answer] = world.place(world.schedulers[0], extend(growing_volume, 28))
    assert isinstance(answer, errors.Conflict)
    world.settle()
    assert done(world, extend(growing_volume, 29)).pool == "thick@b#p"


def test_the_command_of_a_growing_move_is_sent_again_with_the_size_of_its_source(
    world: World, growing_volume: str
) -> None:
    fill(world, 20)
    done(world, extend(growing_volume, 25))
    with world.schedulers[0].core.database.reading() as session:
        [claim] = pending_claims.load(session)
    assert claim.source is not None
    assert (claim.target_size_gb, claim.source.size_gb, claim.source.pool_name) == (25, 15, "both@b#p")
