# SPDX-License-Identifier: Apache-2.0
"""Bookings by schedulers that do not know all that is in the ledger."""

import pytest

from tests.unit.scheduler.model.scheduler import Scheduler
from tests.unit.scheduler.model.storage import Storage
from tests.unit.scheduler.model.storage import StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import BackendState
from tonnage.rpc.messages import CreateGroup
from tonnage.rpc.messages import SetBackendState


def array(count: int = 2, **more: object) -> World:
    """Return a world of two schedulers, with pools that each have the whole of one storage of 40 GiB."""
    storage = Storage("array", 40)
    pools = {
        f"host{number}@b#p": StoragePool(storage, 1.0, thin=True, thick=False, **more)  # type: ignore[arg-type]
        for number in range(count)
    }
    world = World(pools, schedulers=2)
    world.settle()
    return world


def ask(world: World, scheduler: Scheduler, *sizes: int) -> list[str | None]:
    """Ask for volumes of these sizes at once; return their pools."""
    answers = world.place(scheduler, *map(world.create_message, sizes))
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer.pool for answer in answers]


@pytest.mark.parametrize("reports_provisioned", [True, False])
def test_pools_of_one_storage_see_each_other_within_a_batch(reports_provisioned: bool) -> None:
    world = array(reports_provisioned=reports_provisioned)
    first, second = world.schedulers
    assert ask(world, first, 10) != [None]
    # For all that the second one knows there is room for 40, and each pool alone would still take its part.
    one = world.create_message(20)
    two = world.create_message(20, hints={"different_host": [one.volume_id]})
    [answer] = world.place(second, CreateGroup(request_id=world.request_id(), volumes=[one, two]))
    assert answer.refusal is not None
    assert world.rows("SELECT SUM(allocated_capacity_gb) FROM pools") == [(10,)]


def test_a_pool_sees_what_another_scheduler_claimed_on_its_storage() -> None:
    world = array()
    first, second = world.schedulers
    # All pools look alike, so each scheduler may choose either.
    placed = [pool for _ in range(3) for scheduler in (first, second) for pool in ask(world, scheduler, 9)]
    assert [pool is not None for pool in placed] == [True] * 4 + [False] * 2


@pytest.mark.parametrize("state", [BackendState.DISABLED, BackendState.DRAINING])
def test_nothing_is_booked_on_a_backend_that_another_scheduler_has_closed(state: BackendState) -> None:
    world = array(count=1)
    first, second = world.schedulers
    first.core._set_backend_state([SetBackendState(backend="host0@b", state=state)])
    # A report brings the pools' generations, and nothing of the backend.
    agent = world.agents["host0@b"]
    assert agent is not None
    world.report(agent)
    for letter in list(world.bus):
        world.deliver(letter, first)
    assert ask(world, second, 1) == [None]
    assert world.rows("SELECT COUNT(*) FROM claims") == [(0,)]
