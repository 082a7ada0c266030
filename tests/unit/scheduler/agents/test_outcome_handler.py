# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a replaced agent process are ignored by every scheduler."""

from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tests.unit.scheduler.world import StoragePool as OnePool
from tests.unit.scheduler.world import World as OneScheduler
from tonnage.rpc.messages import Outcome

BACKEND = "host@b"


def test_a_scheduler_without_news_of_an_epoch_ignores_outcomes_of_the_past_one() -> None:
    pools = {f"{BACKEND}#p{number}": StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for number in (0, 1)}
    world = World(pools, schedulers=2)
    world.settle()
    informed, uninformed = world.schedulers
    [made] = world.place(informed, world.create_message(5))
    [command] = [letter for letter in world.bus if letter.to == BACKEND]
    world.bus.clear()
    old_agent = world.agents[BACKEND]
    assert old_agent is not None
    old_agent.take(command.content)  # type: ignore[arg-type]
    old_agent.work(Fate(fails=True, clean=True))
    [failed] = world.bus
    world.bus.clear()
    new_agent = world.start_agent(BACKEND)
    while not new_agent.joined:
        world.join(new_agent, informed)
    # The command has been sent again to the current process.
    assert isinstance(failed.content, Outcome)
    uninformed.core.outcomes([failed.content])
    assert world.rows("SELECT state FROM claims") == [("pending",)]
    assert not uninformed.thread.jobs
    world.settle()
    assert world.rows("SELECT p.name, v.status FROM volumes v JOIN pools p ON p.id = v.pool_id") == [
        (made.pool, "available")
    ]
    assert [name for name, pool in pools.items() if pool.copies] == [made.pool]


def test_the_first_report_of_an_epoch_contains_claims_that_ended_in_the_previous_one() -> None:
    world = OneScheduler({"p0": OnePool(20, 1.0, thin=True, thick=False)}).started()
    world.create(5)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    assert world.rows("SELECT in_flight_gb FROM pools") == [(5,)]
    world.start_agent()
    world.report()
    assert world.rows("SELECT in_flight_gb, provisioned_capacity_gb FROM pools") == [(0, 5)]
