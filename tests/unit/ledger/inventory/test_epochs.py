# SPDX-License-Identifier: Apache-2.0
"""What an agent process that has been replaced tells counts for nothing, whichever scheduler hears it."""

from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tests.unit.scheduler.world import StoragePool as OnePool
from tests.unit.scheduler.world import World as OneScheduler
from tonnage.rpc.messages import Outcome

BACKEND = "host@b"


def test_an_outcome_of_a_past_epoch_is_ignored_by_a_scheduler_that_has_not_heard_of_the_next() -> None:
    pools = {f"{BACKEND}#p{number}": StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for number in (0, 1)}
    world = World(pools, schedulers=2)
    world.settle()
    knows, does_not = world.schedulers
    [made] = world.place(knows, world.create_message(5))
    [command] = [letter for letter in world.bus if letter.to == BACKEND]
    world.bus.clear()
    before = world.agents[BACKEND]
    assert before is not None
    before.take(command.content)  # type: ignore[arg-type]
    before.work(Fate(fails=True, clean=True))
    [failed] = world.bus
    world.bus.clear()
    after = world.start_agent(BACKEND)
    while not after.joined:
        world.join(after, knows)
    # Its command has been sent again to the process that is there now.
    assert isinstance(failed.content, Outcome)
    does_not.core.outcomes([failed.content])
    assert world.rows("SELECT state FROM claims") == [("pending",)]
    assert not does_not.thread.jobs
    world.settle()
    assert world.rows("SELECT p.name, v.status FROM volumes v JOIN pools p ON p.id = v.pool_id") == [
        (made.pool, "available")
    ]
    assert [name for name, pool in pools.items() if pool.copies] == [made.pool]


def test_the_first_report_of_an_epoch_contains_what_ended_in_the_one_before() -> None:
    world = OneScheduler({"p0": OnePool(20, 1.0, thin=True, thick=False)}).started()
    world.create(5)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    assert world.rows("SELECT in_flight_gb FROM pools") == [(5,)]
    world.start_agent()
    world.report()
    assert world.rows("SELECT in_flight_gb, provisioned_capacity_gb FROM pools") == [(0, 5)]
