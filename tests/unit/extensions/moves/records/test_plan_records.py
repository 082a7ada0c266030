# SPDX-License-Identifier: Apache-2.0
"""The rows of plans: which changes they allow."""

import re
import threading
from concurrent import futures

import pytest

from tests.servers import ledger_schema
from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.ledger.records import new_id
from tonnage.capacity import errors
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_records import NewPlan
from tonnage.ledger.db.database import create_engine


@pytest.fixture
def cloud() -> Cloud:
    return Cloud().add("a", 100, [30, 20]).add("b", 100).add("c", 10)


def start_plan(cloud: Cloud, **limits: int) -> str:
    """Record a plan that empties the pool a, and return its id."""
    new_plan = NewPlan(id=new_id(), goal="empty", arguments={"target": "h@a#p"}, limits=Limits(**limits))
    assert cloud.database.run(plan_records.insert, new_plan, cloud.plan("empty", target="h@a#p"))
    return new_plan.id


def states(cloud: Cloud, plan_id: str) -> list[str]:
    return [step.state for step in cloud.database.run(plan_records.steps, plan_id)]


def test_a_plan_keeps_who_started_it_and_its_goal(cloud: Cloud) -> None:
    limits = Limits(hours="22-06")
    new_plan = NewPlan(
        id=new_id(), goal="empty", arguments={"target": "h@a#p"}, limits=limits, project_id="p", user_id="u"
    )
    plan = cloud.plan("empty", target="h@a#p")
    assert cloud.database.run(plan_records.insert, new_plan, plan)
    assert not cloud.database.run(plan_records.insert, new_plan, plan)
    row = cloud.database.run(plan_records.get, new_plan.id)
    assert (row.goal, row.arguments, row.summary) == ("empty", {"target": "h@a#p"}, "empty h@a#p")
    assert (row.project_id, row.user_id, plan_records.limits_of(row)) == ("p", "u", limits)
    with pytest.raises(errors.NotFound, match="plan nothing could not be found"):
        cloud.database.run(plan_records.get, "nothing")


def test_a_limit_of_a_later_release_is_left_out(cloud: Cloud) -> None:
    plan_id = start_plan(cloud, moves=5)
    row = cloud.database.run(plan_records.get, plan_id)
    row.limits = {**row.limits, "speed": 9}
    assert plan_records.limits_of(row) == Limits(moves=5)


def test_steps_begin_once_and_within_the_limits(cloud: Cloud) -> None:
    plan_id = start_plan(cloud, moves=1)
    assert [step.number for step in cloud.database.run(plan_records.start, plan_id, [1, 2])] == [1]
    assert cloud.database.run(plan_records.start, plan_id, [1, 2]) == []
    assert cloud.database.run(plan_records.end_step, plan_id, 1, tables.MOVED, None)
    assert not cloud.database.run(plan_records.end_step, plan_id, 1, tables.STEP_FAILED, "late")
    assert [step.number for step in cloud.database.run(plan_records.start, plan_id, [1, 2])] == [2]
    assert states(cloud, plan_id) == ["moved", "moving"]


def test_a_plan_that_does_not_run_starts_nothing_and_does_not_end(cloud: Cloud) -> None:
    plan_id = start_plan(cloud)
    cloud.database.run(plan_records.pause, plan_id)
    assert cloud.database.run(plan_records.start, plan_id, [1, 2]) == []
    assert not cloud.database.run(plan_records.end, plan_id, tables.FINISHED, "")
    plan = cloud.plan("empty", target="h@a#p")
    assert not cloud.database.run(plan_records.add_generation, plan_id, 1, plan, "", 0.0)
    cloud.database.run(plan_records.resume, plan_id)
    assert cloud.database.run(plan_records.end, plan_id, tables.FAILED, "no")
    with pytest.raises(errors.Conflict, match="is failed: only a running or paused plan can be stopped"):
        cloud.database.run(plan_records.stop, plan_id)
    with pytest.raises(errors.Conflict, match="is failed: only a running or paused plan can be paused"):
        cloud.database.run(plan_records.pause, plan_id)


def test_a_new_generation_replaces_the_steps_that_wait(cloud: Cloud) -> None:
    plan_id = start_plan(cloud)
    cloud.database.run(plan_records.note, plan_id, {2: "no room"})
    plan = cloud.plan("empty", target="h@a#p")
    assert cloud.database.run(plan_records.add_generation, plan_id, 1, plan, "again", 30.0)
    assert not cloud.database.run(plan_records.add_generation, plan_id, 1, plan, "again", 30.0)
    steps = cloud.database.run(plan_records.steps, plan_id)
    assert [(step.number, step.generation, step.state, step.message) for step in steps] == [
        (1, 1, "skipped", "the plan was made anew"),
        (2, 1, "skipped", "no room"),
        (3, 2, "waiting", None),
        (4, 2, "waiting", None),
    ]
    row = cloud.database.run(plan_records.get, plan_id)
    assert (row.generation, row.stalls, row.message) == (2, 1, "again")
    assert row.next_plan_at > row.created_at


def test_pools_are_held_until_the_last_move_has_ended(cloud: Cloud) -> None:
    plan_id = start_plan(cloud)
    assert cloud.database.run(plan_records.held_by_others, new_id()) == {"h@a#p": plan_id, "h@b#p": plan_id}
    assert cloud.database.run(plan_records.held_by_others, plan_id) == {}
    cloud.database.run(plan_records.start, plan_id, [1])
    cloud.database.run(plan_records.stop, plan_id)
    assert [plan.id for plan in cloud.database.run(plan_records.open_plans)] == [plan_id]
    assert cloud.database.run(plan_records.release, plan_id) is None
    assert cloud.database.run(plan_records.end_step, plan_id, 1, tables.MOVED, None)
    released = cloud.database.run(plan_records.release, plan_id)
    assert (released.id, cloud.database.run(plan_records.release, plan_id)) == (plan_id, None)
    assert cloud.database.run(plan_records.open_plans) == []
    assert states(cloud, plan_id) == ["moved", "skipped"]


def test_a_mover_finds_its_own_plans_and_the_states_of_their_volumes(cloud: Cloud) -> None:
    plan = cloud.plan("empty", target="h@a#p")
    new_plan = plan_records.NewPlan(
        id=new_id(), goal="empty", arguments={}, limits=Limits(), mover="cinder", mover_options={"attached": True}
    )
    cloud.database.run(plan_records.insert, new_plan, plan)
    assert cloud.database.run(plan_records.open_plans) == []
    [row] = cloud.database.run(plan_records.open_plans, "cinder")
    assert (row.id, row.mover_options) == (new_plan.id, {"attached": True})
    cloud.database.run(plan_records.start, row.id, [1], {1: {"status": "available"}})
    assert [step.volume_state for step in cloud.database.run(plan_records.steps, row.id)] == [
        {"status": "available"},
        None,
    ]


def test_a_plan_with_a_held_pool_leaves_no_row(cloud: Cloud) -> None:
    plan_id = start_plan(cloud)
    with pytest.raises(errors.Conflict, match=f"pool h@a#p is used by plan {plan_id} "):
        start_plan(cloud)
    with cloud.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM move_plans").scalar() == 1


def test_of_two_plans_that_begin_together_one_is_refused_on_each_database(ledger_url: str) -> None:
    """Two administrators ask two schedulers at the same moment, for the same pools: neither waits for the other one."""
    engine = create_engine(ledger_url)
    ledger_schema.create(engine)
    cloud = Cloud(engine=engine).add("a", 100, [30]).add("b", 30, [20]).add("c", 40)
    plans = [cloud.plan("empty", target="h@a#p"), cloud.plan("empty", target="h@b#p")]
    assert len(plans[0].used_pools & plans[1].used_pools) == 1
    together = threading.Barrier(2, timeout=60)

    def begin(plan: MovePlan) -> str:
        new_plan = NewPlan(id=new_id(), goal="empty", arguments={}, limits=Limits())
        together.wait()
        try:
            assert cloud.database.run(plan_records.insert, new_plan, plan)
        except errors.Conflict as error:
            return error.message
        return new_plan.id

    with futures.ThreadPoolExecutor(2) as threads:
        for _ in range(10):
            first, second = threads.map(begin, plans)
            begun, refusal = (first, second) if len(first) < len(second) else (second, first)
            [row] = cloud.database.run(plan_records.open_plans)
            assert row.id == begun
            assert re.search(f"is used by plan {begun} .*: wait for its end, or stop it$", refusal)
            cloud.database.run(plan_records.stop, begun)
            assert cloud.database.run(plan_records.release, begun)
    engine.dispose()


def test_steps_are_read_by_state_page_and_number(cloud: Cloud) -> None:
    plan_id = start_plan(cloud)
    run = cloud.database.run
    assert run(plan_records.waiting_loads, plan_id, 1) == [("h@a#p", "h@b#p", 20)]
    assert run(plan_records.waiting_loads, plan_id, 2) == []
    assert [step.number for step in run(plan_records.waiting_steps, plan_id, 1, 0, 1)] == [1]
    assert [step.number for step in run(plan_records.waiting_steps, plan_id, 1, 1, 9)] == [2]
    assert run(plan_records.waiting_steps, plan_id, 2, 0, 9) == []
    assert [step.number for step in run(plan_records.numbered_steps, plan_id, [2, 7])] == [2]
    run(plan_records.start, plan_id, [1])
    assert [step.number for step in run(plan_records.active_steps, plan_id)] == [1]
    run(plan_records.end_step, plan_id, 1, tables.STEP_FAILED, "no")
    assert [step.number for step in run(plan_records.active_steps, plan_id)] == [1]
    assert [step.number for step in run(plan_records.waiting_steps, plan_id, 1, 0, 9)] == [2]


def test_some_steps_are_those_under_way_the_next_and_the_last() -> None:
    cloud = Cloud().add("a", 100, [9, 8, 7, 6, 5, 4, 3, 2]).add("b", 100)
    plan_id = start_plan(cloud, moves_per_backend=9)
    run = cloud.database.run
    for number in (1, 2, 3):
        run(plan_records.start, plan_id, [number])
        run(plan_records.end_step, plan_id, number, tables.MOVED, None)
    run(plan_records.start, plan_id, [4])

    def numbers(limit: int) -> list[int]:
        return [step.number for step in run(plan_records.some_steps, plan_id, limit)]

    assert numbers(0) == []
    assert numbers(1) == [4]
    assert numbers(2) == [4, 5]
    assert numbers(3) == [3, 4, 5]
    assert numbers(5) == [2, 3, 4, 5, 6]
    assert numbers(8) == numbers(9) == [1, 2, 3, 4, 5, 6, 7, 8]
    run(plan_records.stop, plan_id)
    assert numbers(4) == [4, 6, 7, 8]
