# SPDX-License-Identifier: Apache-2.0
"""How many volumes a pool has, counted where a weigher wants to know."""

from collections import Counter
from types import SimpleNamespace

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes
from tonnage.rpc.messages import Answer, CreateGroup, ExtendVolume, GroupAnswer
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.requests.pool_selection import Rules, set_volume_numbers
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.volume_number import VolumeNumberWeigher


@pytest.fixture
def world() -> World:
    """Three pools of different size, with a scheduler that spreads volumes by their number."""
    pools = {
        name: StoragePool(total, 2.0, thin=True, thick=False) for name, total in (("a", 100), ("b", 50), ("c", 20))
    }
    world = World(pools).started()
    conf = SimpleNamespace(over_provisioning_calculation=world.calculation, volume_number_multiplier=-1.0)
    world.placer = Placer(
        world.database,
        world.cache_refresh,
        RulesInForce(
            Rules(FilterChain([CapacityFilter(conf)]), WeigherChain([VolumeNumberWeigher(conf)]), world.calculation)
        ),
        world.dispatcher,
    )
    return world


def numbers(world: World) -> list[float]:
    return [float(world.hosts.table.volumes[world.hosts.table.index(f"{BACKEND}#{name}") or 0]) for name in "abc"]


def pools(answers: list[Answer | Exception]) -> Counter[str]:
    found = [answer.pool for answer in answers if isinstance(answer, Answer)]
    return Counter((pool or "").rpartition("#")[2] for pool in found)


def test_a_batch_is_spread(world: World) -> None:
    assert pools(world.create(9, 1, 1, 1, 1, 1)) == {"a": 2, "b": 2, "c": 2}


def test_one_after_the_other_is_spread(world: World) -> None:
    chosen: Counter[str] = Counter()
    for _ in range(6):
        chosen += pools(world.create(1))
    assert chosen == {"a": 2, "b": 2, "c": 2}


def test_volumes_are_counted_anew_for_each_decision(world: World) -> None:
    world.create(1, 1, 1)
    # Another scheduler has placed some more in the meantime.
    with orm.Session(world.database.engine) as session, session.begin():
        for number in range(4):
            pool_id = world.hosts.entries[f"{BACKEND}#{'ab'[number % 2]}"].id
            session.add(
                models.Volume(id=f"other-{number}", project_id="p", size_gb=1, status="available", pool_id=pool_id)
            )
    assert pools(world.create(1, 1)) == {"c": 2}
    with world.database.reading() as session:
        counted = volumes.per_pool(session)
    set_volume_numbers(world.hosts.table, world.hosts.entries, counted)
    assert numbers(world) == [3, 3, 3]
    set_volume_numbers(world.hosts.table, world.hosts.entries, {})
    assert numbers(world) == [0, 0, 0]


def test_a_refused_request_and_an_extend_count_for_nothing(world: World) -> None:
    [made] = world.create(1)
    assert isinstance(made, Answer)
    world.settle()
    world.create(5000)
    world.place([ExtendVolume(request_id="grow", volume_id=made.volume_id, new_size_gb=2)])
    world.create(5000)
    assert sum(numbers(world)) == 1


def test_members_of_a_group_see_each_other(world: World) -> None:
    messages = [world.create_message(1) for _ in range(6)]
    [answer] = world.placer.place([CreateGroup(request_id="together", volumes=messages)])
    assert isinstance(answer, GroupAnswer)
    assert pools(list(answer.volumes)) == {"a": 2, "b": 2, "c": 2}


def test_nothing_is_counted_unless_a_weigher_wants_to_know() -> None:
    world = World({"a": StoragePool(100, 2.0, thin=True, thick=False)}).started()
    world.create(1, 1)
    world.create(1)
    assert world.hosts.table.volumes.tolist() == [0]
    assert not world.placer.rules.current.counts_volumes
