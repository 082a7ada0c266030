# SPDX-License-Identifier: Apache-2.0
"""Effects of failed operations on volumes and counters."""

from typing import Any

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity.request import Provisioning
from tonnage.rpc.messages import Answer, Command, Outcome


@pytest.mark.parametrize(
    ("listed", "counted"), [(10, 10), (10.5, 11), (12, 12), (15, 15), (99, 15), (0, 10)], ids=lambda size: f"{size} GiB"
)
def test_the_real_growth_of_a_failed_extend_is_counted(listed: float, counted: int) -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    [made] = world.create(10)
    assert isinstance(made, Answer)
    world.settle()
    world.extend(made.volume_id, 15)
    command = world.agent.commands.pop()
    world.pools["p0"].volumes[made.volume_id] = (counted, Provisioning.THIN)
    failed = Outcome(
        backend="host@backend",
        epoch=command.epoch,
        claim_id=command.claim_id,
        ok=False,
        end_tick=world.agent.next_tick(),
        size_gb=listed,
    )
    world.deliver(failed)
    assert world.rows("SELECT size_gb, status FROM volumes") == [(counted, "error_extending")]
    for table in ("pools", "backends"):
        assert world.rows(f"SELECT allocated_capacity_gb FROM {table}") == [(counted,)]
    world.report()
    assert world.rows("SELECT in_flight_gb, provisioned_capacity_gb FROM pools") == [(0, counted)]
    world.delete(made.volume_id)
    world.settle()
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(0, 0)]


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}).started()


def ended(world: World, command: Command, **fields: Any) -> Outcome:
    return Outcome(
        backend="host@backend",
        epoch=command.epoch,
        claim_id=command.claim_id,
        end_tick=world.agent.next_tick(),
        **fields,
    )


def unknown(world: World, command: Command) -> Outcome:
    return ended(world, command, ok=False, size_gb=command.size_gb, message="no answer", unknown=True)


def states(world: World) -> list[tuple[Any, ...]]:
    """Return the status of each volume, whether it has a pool, and the states of its claims."""
    return world.rows(
        "SELECT v.status, v.pool_id IS NOT NULL, c.verb, c.state FROM volumes v"
        " LEFT JOIN claims c ON c.volume_id = v.id ORDER BY c.verb"
    )


@pytest.mark.parametrize("ok", [True, False])
def test_a_create_with_an_unknown_outcome_stays_in_its_pool_until_it_is_known(world: World, ok: bool) -> None:
    world.create(5)
    command = world.agent.commands.pop()
    first = unknown(world, command)
    world.deliver(first, first)
    assert states(world) == [("error", 1, "create", "pending")]
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(5, 5)]
    assert world.rows("SELECT event, text FROM messages") == [("volume_create_failed", "no answer")]
    world.report()
    world.sweep()
    assert states(world) == [("error", 1, "create", "pending")], "neither a report nor time ends it"
    world.deliver(ended(world, command, ok=ok, size_gb=5 if ok else 0, clean=not ok, message="no room"))
    if ok:
        assert states(world) == [("available", 1, "create", "confirmed")]
        assert world.rows("SELECT status_reason FROM volumes") == [(None,)]
    else:
        # Only now another pool is tried.
        assert states(world) == [("creating", 0, None, None)]
        assert len(world.waiting) == 1
    world.deliver(first)
    assert states(world)[0][0] == ("available" if ok else "creating"), "a late message changes nothing"


def test_a_volume_whose_create_has_an_unknown_outcome_can_be_deleted(world: World) -> None:
    [made] = world.create(5)
    assert isinstance(made, Answer)
    create = world.agent.commands.pop()
    world.deliver(unknown(world, create))
    world.delete(made.volume_id)
    [delete] = world.agent.commands
    assert delete.pool == "p0"
    # The agent answers the create, whose place the delete takes, as if the volume existed.
    world.deliver(ended(world, create, ok=False, size_gb=5, message="deleted"))
    assert states(world) == [("deleting", 1, "create", "confirmed"), ("deleting", 1, "delete", "pending")]
    world.deliver(unknown(world, delete))
    assert states(world)[1] == ("error_deleting", 1, "delete", "pending")
    world.deliver(ended(world, delete, ok=True))
    assert states(world) == []
    world.report()
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(0, 0)]


@pytest.mark.parametrize("deleted", [False, True])
def test_an_extend_with_an_unknown_outcome_leaves_error_extending_when_it_is_known(world: World, deleted: bool) -> None:
    volume_id = world.made(5)
    world.extend(volume_id, 8)
    extend = world.agent.commands.pop()
    world.deliver(unknown(world, extend))
    assert states(world)[1] == ("error_extending", 1, "extend", "pending")
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(8,)]
    if deleted:
        world.delete(volume_id)
    world.deliver(ended(world, extend, ok=True, size_gb=8))
    assert world.rows("SELECT size_gb, status FROM volumes") == [(8, "deleting" if deleted else "available")]


def test_a_known_outcome_counts_if_it_arrives_together_with_an_unknown_one(world: World) -> None:
    world.create(5)
    command = world.agent.commands.pop()
    first, last = unknown(world, command), ended(world, command, ok=True, size_gb=5)
    world.outcome_handler.outcomes([last, first])
    assert states(world) == [("available", 1, "create", "confirmed")]
