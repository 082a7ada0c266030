# SPDX-License-Identifier: Apache-2.0
"""How a migration or another type of a volume would be decided: as it then is."""

import pytest

from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity.explanation import Explanation
from tonnage.ledger.catalog import volume_types
from tonnage.rpc.messages import Answer, MigrateVolume, MigrationPolicy, RetypeVolume, SimulatedRequest, WhatIf
from tonnage.scheduler.requests.placement_requests import Move, Work

TYPES = {
    "any": {},
    "thin": {"provisioning:type": "thin"},
    "thick": {"provisioning:type": "thick"},
    "only thick": {"thick_provisioning_support": "<is> True", "thin_provisioning_support": "<is> False"},
    "missing": {"media": "tape"},
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
