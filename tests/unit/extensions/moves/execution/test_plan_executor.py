# SPDX-License-Identifier: Apache-2.0
"""The execution of plans."""

import contextlib
import logging
import re
from collections.abc import Mapping

import pytest
import sqlalchemy as sa

from tests.unit.extensions.moves.execution.plan_world import PLAN, PlanWorld, pool
from tests.unit.scheduler.model.storage import Fate
from tests.unit.scheduler.model.turns import Killed
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.moves.records.tables import MoveStepRow
from tonnage.rpc.messages import DeleteVolume, MigrateVolume
from tonnage.scheduler.requests.placement_requests import Move

A, B, C, D = "a@x#p", "b@x#p", "c@x#p", "d@x#p"
OTHER = "22222222-2222-4222-8222-222222222222"


def world(sizes: dict[str, list[int]], totals: dict[str, int], **more: object) -> PlanWorld:
    """Return a world with thin pools, filled."""
    made = PlanWorld({name: pool(total) for name, total in totals.items()}, **more)  # type: ignore[arg-type]
    made.report_all()
    made.fill(sizes)
    return made


def test_a_plan_moves_all_volumes_and_finishes() -> None:
    plans = world({A: [10, 20, 5]}, {A: 100, B: 100})
    assert len(plans.apply("empty", target=A).moves) == 3
    assert plans.carry_on() == "finished"
    assert plans.message() == f"{A} has no volume"
    assert set(plans.places().values()) == {B}
    assert plans.steps() == [(1, 1, 20, "moved"), (2, 1, 10, "moved"), (3, 1, 5, "moved")]
    assert plans.rows("SELECT * FROM move_plan_pools") == []
    begun, ended = plans.events.written
    assert (begun.event_type, begun.payload["moves"], begun.payload["size_gb"]) == ("capacity.move_plan.begun", 3, 35)
    assert begun.text == f"3 moves of 35 GiB; {A} becomes empty"
    assert (ended.event_type, ended.payload["state"], ended.payload["moved_gb"], ended.failure) == (
        "capacity.move_plan.ended",
        "finished",
        35,
        False,
    )
    assert plans.events.commits == 2


def test_a_plan_without_moves_leaves_no_row() -> None:
    plans = world({}, {A: 100, B: 100})
    plan = plans.apply("empty", target=A)
    assert (plan.is_reached, plan.moves) == (True, ())
    assert plans.rows("SELECT * FROM move_plans") == []


def test_no_more_moves_run_at_a_time_than_the_limits_allow() -> None:
    plans = world({A: [10, 10, 10, 10, 10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"moves_per_backend": 2, "in_flight_gb": 15})
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    assert [row[3] for row in plans.steps()] == ["moving", "waiting", "waiting", "waiting", "waiting"]
    plans.schedulers[0].core.database.run(
        lambda session: setattr(plan_records.get(session, PLAN), "limits", {"moves_per_backend": 2})
    )
    executor.work()
    executor.work()
    assert [row[3] for row in plans.steps()] == ["moving", "moving", "waiting", "waiting", "waiting"]
    assert plans.carry_on() == "finished"


def test_moves_begin_within_the_hours_alone() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"hours": "22-06"})
    assert plans.carry_on(20) == "running"
    assert plans.steps() == [(1, 1, 10, "waiting")]
    [(message,)] = plans.rows("SELECT message FROM move_plans")
    assert re.fullmatch(r"waits for the hours 22-06: it was [0-9]{2}:[0-9]{2} \S+ at the first look", message), message
    plans.hour = 23
    plans.executor(plans.schedulers[0]).work()
    assert plans.rows("SELECT message FROM move_plans") == [(None,)]
    assert plans.carry_on() == "finished"


def test_a_plan_whose_goal_is_reached_meanwhile_ends_outside_its_hours() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"hours": "22-06"})
    plans.executor(plans.schedulers[0]).work()
    [(volume_id,)] = plans.rows("SELECT id FROM volumes")
    scheduler = plans.schedulers[0]
    scheduler.thread.submit(
        scheduler.core.operations.delete, DeleteVolume(request_id=plans.request_id(), volume_id=volume_id)
    )
    scheduler.thread.turn()
    plans.report_everything()
    # It looks once a minute, because a plan for many pools takes time.
    plans.executor(scheduler).work()
    assert plans.state() == "running"
    plans.now += 60
    plans.executor(scheduler).work()
    assert (plans.state(), plans.message()) == ("finished", f"{A} has no volume")
    assert plans.steps() == [(1, 1, 10, "skipped")]
    assert plans.rows("SELECT * FROM move_plan_pools") == []


def test_a_plan_whose_goal_is_not_reached_waits_for_its_hours() -> None:
    plans = world({A: [10, 5]}, {A: 100, B: 100})
    plans.apply("relieve", pool=A, below=1, bound="promised", limits={"hours": "22-06"})
    executor = plans.executor(plans.schedulers[0])
    for _ in range(3):
        plans.now += 61
        executor.work()
        assert plans.state() == "running"
        assert str(plans.message()).startswith("waits for the hours 22-06: it was ")


def test_the_time_outside_the_hours_is_no_standstill() -> None:
    plans = world({A: [10, 5]}, {A: 100, B: 100})
    plans.hour = 5
    plans.apply("empty", target=A, limits={"hours": "22-06"})
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'in-use' WHERE size_gb = 5"))
    assert plans.carry_on(3) == "running"
    assert plans.steps()[0] == (1, 1, 10, "moved")
    plans.hour = 7
    assert plans.carry_on(15) == "running"
    assert str(plans.message()).startswith("waits for the hours 22-06: it was ")
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'available' WHERE size_gb = 5"))
    plans.hour = 22
    assert plans.carry_on() == "finished"


def test_the_time_of_an_outage_is_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'in-use'"))
    assert plans.carry_on(3) == "running"
    executor = plans.executor(plans.schedulers[0])

    def fail(*_: object) -> MovePlan:
        raise errors.Unavailable("it is away")

    for target, name in ((executor._planner, "plan_beside"), (executor._database, "read")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fail)
            plans.pass_time(100)
            with contextlib.suppress(errors.Unavailable):
                executor.work()
            plans.pass_time(100)
        executor.work()
        assert plans.state() == "running"
    assert plans.carry_on(9) == "failed"


def test_a_move_that_needs_room_waits_until_a_report_shows_it() -> None:
    plans = world({A: [9], B: [7, 4]}, {A: 20, B: 19, C: 4})
    assert [(move.size_gb, move.after) for move in plans.apply("empty", target=A).moves] == [(4, ()), (9, (1,))]
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    # The copy is made, and the old one purged, but no backend reports.
    plans._flush()
    for _ in range(3):
        executor.work()
        plans._flush()
    assert [row[3] for row in plans.steps()] == ["moved", "waiting"]
    plans.report_everything()
    executor.work()
    assert [row[3] for row in plans.steps()] == ["moved", "moving"]
    assert plans.carry_on() == "finished"


def test_a_plan_is_made_anew_once_reports_contain_its_moves() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    # The copy is made, and the old one purged, but no backend reports.
    plans._flush()
    for _ in range(3):
        executor.work()
        plans._flush()
    assert ([row[3] for row in plans.steps()], plans.state()) == (["moved"], "running")
    plans.report_everything()
    executor.work()
    assert plans.state() == "finished"


def test_a_step_that_no_longer_holds_is_replaced() -> None:
    plans = world({A: [10, 8]}, {A: 100, B: 20, C: 18})
    plan = plans.apply("empty", target=A, limits={"moves": 1})
    targets = {move.size_gb: move.target for move in plan.moves}
    assert targets == {10: B, 8: C}
    # New volumes take the room in one pool; the other has enough.
    message = plans.create_message(14)
    plans._open(A, False), plans._open(B, False)
    [answer] = plans.place(plans.schedulers[0], message)
    assert answer.pool == C
    plans._open(B, True)
    plans.report_everything()
    assert plans.carry_on() == "finished"
    rows = plans.rows("SELECT size_gb, generation, target, state, message FROM move_steps ORDER BY number")
    assert [row[:4] for row in rows] == [(10, 1, B, "moved"), (8, 1, C, "skipped"), (8, 2, B, "moved")]
    assert "CapacityFilter refused 1" in rows[1][4]
    assert "no volume" in plans.message()


def test_copies_that_begin_together_count_for_one_another() -> None:
    """By its promises the pool takes both volumes, but others have written there since the plan was made."""
    plans = PlanWorld({A: pool(100), B: pool(40, ratio=3.0)}, Calculation.STANDARD)
    plans.report_all()
    plans.fill({A: [10, 9]})
    plans.apply("empty", target=A)
    plans.pools[B].storage.others_gb = 25
    plans.report_everything()
    plans.executor(plans.schedulers[0]).work()
    assert [row[2:] for row in plans.steps()] == [(10, "moving"), (9, "waiting")]
    [(message,)] = plans.rows("SELECT message FROM move_steps WHERE state = 'waiting'")
    assert message == f"9 GiB thin would go to {B}, where a copy of 9 GiB passes a bound: 5.0 GiB are free"


def test_volumes_stay_apart_and_together_as_their_hints_say() -> None:
    plans = world({A: [10], B: [3]}, {A: 100, B: 90, C: 40})
    [apart], [near] = (
        plans.rows("SELECT id FROM volumes WHERE size_gb = 10"),
        plans.rows("SELECT id FROM volumes WHERE size_gb = 3"),
    )
    for pool_name in (B, C):
        plans._open(pool_name, False)
    messages = [
        plans.create_message(7, hints={"different_host": [str(near[0])]}),
        plans.create_message(5, hints={"same_host": str(apart[0])}),
    ]
    assert [answer.pool for answer in plans.place(plans.schedulers[0], *messages)] == [A, A]
    for pool_name in (B, C):
        plans._open(pool_name, True)
    plans.report_everything()
    plan = plans.apply("empty", target=A)
    # The largest goes to the emptiest pool, to which the one that is kept apart from its volume does not follow.
    assert [(move.size_gb, move.target) for move in plan.moves] == [(10, B), (7, C)]
    [staying] = plan.staying
    assert staying.volume_id == messages[1].volume_id
    assert "SameBackendFilter refused 2" in staying.reason
    plans.executor(plans.schedulers[0]).work()
    plans.report_everything()
    # The volume that it shares a backend with has gone ahead, so it follows.
    assert plans.carry_on() == "finished"
    places = plans.places()
    assert [places[message.volume_id] for message in messages] == [C, B]
    assert (places[str(apart[0])], places[str(near[0])]) == (B, B)


def test_a_volume_that_is_gone_needs_no_move() -> None:
    plans = world({A: [10, 8]}, {A: 100, B: 20})
    plans.apply("empty", target=A, limits={"moves": 1})
    [[volume]] = plans.rows("SELECT volume_id FROM move_steps WHERE number = 2")
    plans.schedulers[0].core.operations.delete([DeleteVolume(request_id="req-delete", volume_id=volume)])
    plans.report_everything()
    assert plans.carry_on() == "finished"
    assert plans.rows("SELECT state, message FROM move_steps WHERE number = 2") == [
        ("skipped", f"volume {volume} no longer exists")
    ]


def test_a_plan_fails_when_too_many_moves_have_failed() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"failures": 2})
    for _ in range(20):
        plans.executor(plans.schedulers[0]).work()
        while plans.bus:
            plans.deliver(plans.bus.pop(0), plans.schedulers[0])
        for agent in plans.agents.values():
            assert agent is not None
            while agent.workers.tasks:
                agent.work(Fate(fails=True, clean=True))
        plans.report_everything()
        plans.pass_time(5)
    assert plans.state() == "failed"
    assert plans.message().startswith("2 moves failed, the last of volume ")
    assert "the storage failed" in plans.message()
    assert [row[3] for row in plans.steps()] == ["failed", "failed"]
    assert set(plans.places().values()) == {A}
    _, *failures, ended = plans.events.written
    assert [event.event_type for event in failures] == ["capacity.move_plan.move_failed"] * 2
    assert (failures[0].payload["source"], failures[0].payload["target"]) == (A, B)
    assert (ended.failure, ended.payload["failed"], ended.payload["state"]) == (True, 2, "failed")


def test_the_time_of_a_long_copy_that_fails_is_no_standstill() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"failures": 2})
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    plans.deliver(plans.bus.pop(0), plans.schedulers[0])
    plans.pass_time(130)  # the time without progress after which a plan fails is 120 s
    for agent in plans.agents.values():
        while agent.workers.tasks:
            agent.work(Fate(fails=True, clean=True))
    plans.report_everything()
    executor.work()
    assert plans.state() == "running"
    assert plans.carry_on() == "finished"
    assert plans.steps() == [(1, 1, 10, "failed"), (2, 2, 10, "moved")]


def test_a_plan_waits_for_a_volume_that_is_busy_and_fails_in_the_end() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    [[volume]] = plans.rows("SELECT id FROM volumes")
    plans.executor(plans.schedulers[0])
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'in-use'"))
    assert plans.carry_on(5) == "running"
    assert plans.message().startswith(f"waits: 1 of 1 volumes with 10 GiB stay in {A}; volume {volume} is in-use: only")
    assert plans.carry_on() == "failed"
    assert plans.message().startswith("no volume could be moved for 120 s: 1 of 1 volumes")


def test_a_volume_that_becomes_free_is_moved_after_all() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'in-use'"))
    assert plans.carry_on(4) == "running"
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'available'"))
    assert plans.carry_on() == "finished"


def test_a_plan_tells_that_it_waits_for_a_backend_that_is_down() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    [move] = plans.apply("empty", target=A).moves
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    assert [row[3] for row in plans.steps()] == ["moving"]
    plans.agents["b@x"] = None
    for _ in range(4):
        plans.pass_time(20)
        plans.report(plans.agents["a@x"])  # type: ignore[arg-type]
        for letter in plans.bus[:]:
            plans.bus.remove(letter)
            plans.deliver(letter, plans.schedulers[0])
        plans.schedulers[0].run_periodic_tasks()
        executor.work()
    assert plans.state() == "running"
    assert plans.message() == f"waits for the move of volume {move.volume_id}: backend b@x is down"
    plans.change("pause")
    agent = plans.start_agent("b@x")
    while not agent.joined:
        plans.join(agent, plans.schedulers[0])
    plans.report_everything()
    plans.pass_time(20)
    executor.work()
    assert plans.rows("SELECT message FROM move_plans") == [(None,)]
    plans.change("resume")
    plans.settle()
    assert plans.carry_on() == "finished"


def test_a_plan_tells_that_the_target_of_a_move_is_down() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    [move] = plans.apply("empty", target=A).moves
    plans.agents["b@x"] = None
    for _ in range(4):
        plans.pass_time(20)
        plans.report(plans.agents["a@x"])  # type: ignore[arg-type]
        plans.deliver(plans.bus.pop(), plans.schedulers[0])
        plans.schedulers[0].run_periodic_tasks()
    plans.executor(plans.schedulers[0]).work()
    assert plans.state() == "running"
    [[reason]] = plans.rows("SELECT message FROM move_steps")
    assert f"BackendStateFilter refused 1, nearest {B} is down: no report for 80 s" in reason
    assert plans.message().startswith(f"waits: 1 of 1 volumes with 10 GiB stay in {A}; volume {move.volume_id}: ")


def test_a_plan_tells_that_the_target_of_a_move_is_gone() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    [move] = plans.apply("empty", target=A).moves
    plans.drivers["b@x"].pools = {}
    plans.report_everything()
    plans.executor(plans.schedulers[0]).work()
    [[reason]] = plans.rows("SELECT message FROM move_steps")
    assert reason == f"no report has named pool {B}"
    assert plans.message().startswith(f"waits: 1 of 1 volumes with 10 GiB stay in {A}; volume {move.volume_id}: ")


def plan_that_keeps_room() -> PlanWorld:
    """Return a world with a plan that keeps room for forecasts, which no extension makes any more, and another plan."""
    plans = world({A: [60], C: [10]}, {A: 100, B: 100, C: 100, D: 50})
    plans.forecasts.sources.append(dict)
    assert [move.target for move in plans.apply("empty", target=A, keep_forecast=True).moves] == [B]
    plans._open(B, False)
    assert [move.target for move in plans.apply("empty", OTHER, target=C).moves] == [D]
    plans._open(B, True)
    plans.forecasts.sources.clear()
    return plans


def test_a_plan_whose_forecasts_are_gone_fails_and_the_others_go_on() -> None:
    plans = plan_that_keeps_room()
    assert plans.carry_on(2) == "failed"
    assert plans.message().startswith("keep_forecast needs forecasts, and no enabled extension makes them")
    assert plans.rows(f"SELECT pool FROM move_plan_pools WHERE plan_id = '{PLAN}'") == []
    for _ in range(3):
        plans.executor(plans.schedulers[0]).work()
        plans.report_everything()
    assert plans.state(OTHER) == "finished"
    assert sorted(plans.places().values()) == [A, D]


def test_a_plan_whose_forecasts_have_gone_during_a_move_ends_with_it() -> None:
    plans = plan_that_keeps_room()
    plans.forecasts.sources.append(dict)
    plans.executor(plans.schedulers[0]).work()
    assert plans.rows(f"SELECT state FROM move_steps WHERE plan_id = '{PLAN}'") == [("moving",)]
    # Another process of the scheduler, long before the move ends.
    plans.forecasts.sources.clear()
    plans.start_scheduler()
    executor = plans.executor(plans.idle_scheduler())
    executor.work()
    plans.now += 60
    executor.work()
    assert (plans.state(), plans.rows(f"SELECT COUNT(*) FROM move_plan_pools WHERE plan_id = '{PLAN}'")) == (
        "failed",
        [(2,)],
    )
    for _ in range(3):
        plans.report_everything()
        executor.work()
    assert plans.rows(f"SELECT state FROM move_steps WHERE plan_id = '{PLAN}'") == [("moved",)]
    assert plans.rows(f"SELECT pool FROM move_plan_pools WHERE plan_id = '{PLAN}'") == []


def test_a_defect_that_stops_one_plan_does_not_stop_the_others() -> None:
    plans = world({A: [60], C: [10]}, {A: 100, B: 100, C: 100, D: 50})
    plans.apply("empty", target=A)
    plans._open(B, False)
    plans.apply("empty", OTHER, target=C)
    plans._open(B, True)
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE move_plans SET limits = '[]' WHERE id = :id"), {"id": PLAN})
    for _ in range(4):
        with pytest.raises(AttributeError, match="'list' object has no attribute 'items'"):
            plans.executor(plans.schedulers[0]).work()
        plans.report_everything()
    assert (plans.state(), plans.state(OTHER)) == ("running", "finished")


def test_the_message_about_a_backend_stays_while_the_hours_are_over() -> None:
    plans = world({A: [10, 10]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"hours": "12-13", "moves": 1})
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE move_plans SET message = 'waits for the move of volume x: no'"))
    plans.hour = 14
    executor.work()
    assert plans.message() == "waits for the move of volume x: no"


def test_a_plan_that_shares_a_pool_with_an_unfinished_plan_is_refused() -> None:
    plans = world({A: [10], C: [4]}, {A: 100, B: 100, C: 50})
    plans.apply("empty", target=A)
    with pytest.raises(errors.Conflict, match=rf"pool \S+ is used by plan {PLAN} \(empty {A}\), which is running"):
        plans.apply("empty", OTHER, target=C)
    assert plans.rows(f"SELECT * FROM move_plans WHERE id = '{OTHER}'") == []
    plans.change("pause")
    with pytest.raises(errors.Conflict, match="which is paused"):
        plans.apply("empty", OTHER, target=C)
    plans.change("stop")
    plans.executor(plans.schedulers[0]).work()
    plans.apply("empty", OTHER, target=C)


def test_a_plan_that_is_made_anew_leaves_a_pool_alone_that_another_plan_takes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    plans = world({A: [10], D: [50]}, {A: 100, B: 200, C: 100, D: 60})
    plans.apply("empty", target=A)
    assert plans.rows("SELECT source, target FROM move_steps") == [(A, B)]
    plans._open(B, False)
    plans.report_everything()
    executor = plans.executor(plans.schedulers[0])
    planner = executor._planner
    plan_beside, others = planner.plan_beside, []

    def plan_while_another_begins(query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        plan = plan_beside(query, held)
        if not others:
            others.append(plans.apply("empty", plan_id=OTHER, target=D))
            assert {move.target for move in plan.moves} == {move.target for move in others[0].moves} == {C}
        return plan

    monkeypatch.setattr(planner, "plan_beside", plan_while_another_begins)
    executor.work()
    assert others
    assert (plans.state(), plans.steps()[0]) == ("running", (1, 1, 10, "waiting"))
    assert f"is made anew once more: pool {C} is used by plan {OTHER}" in caplog.text
    executor.work()
    assert f"would go to {C}, which plan {OTHER} uses" in plans.message()
    assert plans.carry_on() == "finished"
    assert A not in plans.places().values()


def test_no_other_plan_moves_volumes_into_a_pool_that_a_plan_empties() -> None:
    """The pool q has a volume that is in use, so no move of the first plan uses it."""
    p, q = "a@x#p", "a@x#q"
    plans = world({}, {p: 50, q: 62, B: 35, D: 60})
    for backends, sizes in (([p], [20, 10]), ([D], [30])):
        for name in (p, B, D):
            plans._open(name, name in backends)
        for size in sizes:
            plans.place(plans.schedulers[0], plans.create_message(size))
            plans.report_everything()
    for name in (p, B, D):
        plans._open(name, True)
    with plans.engine.begin() as connection:
        connection.execute(sa.text("UPDATE volumes SET status = 'in-use' WHERE size_gb = 20"))
    assert sorted(plans.places().values()) == [p, q, D]
    assert [(move.source, move.target) for move in plans.apply("empty", target="a@x").moves] == [(p, B)]
    assert plans.rows("SELECT pool FROM move_plan_pools ORDER BY pool") == [(p,), (q,), (B,)]
    with pytest.raises(errors.Conflict, match=f"pool {q} is used by plan {PLAN}"):
        plans.apply("empty", OTHER, target=D)
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    plans.report_everything()
    executor.work()
    with plans.engine.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM move_plan_pools WHERE pool = '{q}'"))
    assert plans.carry_on(2) == "running"
    assert plans.rows("SELECT generation FROM move_plans") != [(1,)]
    assert (q,) in plans.rows("SELECT pool FROM move_plan_pools"), "held by the plan that was made anew"


def test_the_same_request_to_start_a_plan_has_no_second_effect() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    plans.apply("empty", target=A)
    assert len(plans.steps()) == 1


def test_a_paused_plan_starts_no_move_and_a_stopped_one_leaves_nothing_half_done() -> None:
    plans = world({A: [10, 8, 6]}, {A: 100, B: 100})
    plans.apply("empty", target=A, limits={"moves": 1})
    executor = plans.executor(plans.schedulers[0])
    executor.work()
    plans.change("pause")
    assert plans.carry_on(5) == "paused"
    assert [row[3] for row in plans.steps()] == ["moved", "waiting", "waiting"]
    plans.change("resume")
    executor.work()
    assert [row[3] for row in plans.steps()] == ["moved", "moving", "waiting"]
    plans.change("stop")
    assert [row[3] for row in plans.steps()] == ["moved", "moving", "skipped"]
    assert plans.rows("SELECT COUNT(*) FROM move_plan_pools") == [(2,)]
    for _ in range(3):
        executor.work()
        plans.report_everything()
    assert [event.payload.get("state") for event in plans.events.written] == [None, "stopped"]
    assert [row[3] for row in plans.steps()] == ["moved", "moved", "skipped"]
    assert plans.rows("SELECT COUNT(*) FROM move_plan_pools") == [(0,)]
    assert sorted(plans.places().values()) == [A, B, B]
    with pytest.raises(errors.Conflict, match=f"plan {PLAN} is stopped: only a running or paused plan can be resumed"):
        plans.change("resume")
    plans.change("stop")


def test_a_process_that_dies_between_mark_and_request_loses_no_move() -> None:
    plans = world({A: [10]}, {A: 100, B: 100})
    plans.apply("empty", target=A)
    dying = plans.executor(plans.schedulers[0])
    dying._mover._place = _die
    with pytest.raises(Killed):
        dying.work()
    assert plans.steps() == [(1, 1, 10, "moving")]
    plans.start_scheduler()
    assert plans.carry_on() == "finished"
    assert plans.rows("SELECT COUNT(*) FROM move_steps") == [(1,)]


def test_a_request_that_is_made_late_keeps_the_hints_too() -> None:
    """A volume that is to be apart has come to the target between the mark and the request."""
    plans = world({C: [3]}, {A: 60, B: 50, C: 20})
    [(apart,)] = plans.rows("SELECT id FROM volumes")
    message = plans.create_message(10, hints={"different_host": [apart]})
    assert [answer.pool for answer in plans.place(plans.schedulers[0], message)] == [A]
    plans.report_everything()
    plans.apply("empty", target=A)
    dying = plans.executor(plans.schedulers[0])
    dying._mover._place = _die
    with pytest.raises(Killed):
        dying.work()
    plans.start_scheduler()
    move = Move(MigrateVolume(request_id=plans.request_id(), volume_id=apart, destination=B))
    [answer] = plans.place(plans.schedulers[0], move)
    assert answer.pool == B
    plans.report_everything()
    assert plans.carry_on() == "finished"
    assert plans.places() == {apart: B, message.volume_id: C}


def test_two_schedulers_that_carry_on_the_same_plan_move_each_volume_once() -> None:
    plans = world({A: [10, 8, 6, 4]}, {A: 100, B: 100}, schedulers=2)
    plans.apply("empty", target=A)
    for _ in range(12):
        for scheduler in plans.schedulers:
            plans.executor(scheduler).work()
        plans.report_everything()
    assert plans.state() == "finished"
    assert [row[3] for row in plans.steps()] == ["moved"] * 4
    assert plans.rows("SELECT COUNT(*) FROM request_keys WHERE request_id LIKE 'move-%'") == [(4,)]


def test_a_round_reads_few_steps_of_a_plan_with_many() -> None:
    plans = world({A: [1, 1, 1]}, {A: 5000, B: 5000})
    plans.apply("empty", target=A, limits={"moves": 1})
    [volume, *_] = plans.places()
    rows = [
        {"plan": PLAN, "number": number, "volume": volume, "source": A, "target": B, "state": state}
        for first, count, state in ((4, 2000, "waiting"), (2004, 2000, "moved"))
        for number in range(first, first + count)
    ]
    with plans.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO move_steps (plan_id, number, generation, volume_id, size_gb, source, target, after_steps, "
                "reason, state) VALUES (:plan, :number, 1, :volume, 1, :source, :target, '[]', '', :state)"
            ),
            rows,
        )
    executor = plans.executor(plans.schedulers[0])
    with Reads(plans.engine) as first:
        executor.work()
    assert [row[3] for row in plans.steps()][:4] == ["moving", "waiting", "waiting", "waiting"]
    assert 1 <= first.steps <= 110, "a page, and the step that begins"
    with Reads(plans.engine) as busy:
        executor.work()
    assert busy.steps == 1, "the step that is moving"
    assert busy.statements <= 16
    plans.report_everything()
    with Reads(plans.engine) as ended:
        executor.work()
    assert [row[3] for row in plans.steps()][:4] == ["moved", "moving", "waiting", "waiting"]
    assert ended.steps <= 110


class Reads:
    """Counts the statements of an engine, and the rows of steps that are loaded."""

    def __init__(self, engine: sa.Engine) -> None:
        self.statements = self.steps = 0
        self._engine = engine

    def __enter__(self) -> "Reads":
        sa.event.listen(self._engine, "before_cursor_execute", self._count_statement)
        sa.event.listen(MoveStepRow, "load", self._count_step)
        return self

    def __exit__(self, *error: object) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._count_statement)
        sa.event.remove(MoveStepRow, "load", self._count_step)

    def _count_statement(self, *arguments: object) -> None:
        self.statements += 1

    def _count_step(self, *arguments: object) -> None:
        self.steps += 1


def _die(*arguments: object) -> None:
    raise Killed
