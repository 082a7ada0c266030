# SPDX-License-Identifier: Apache-2.0
"""The start of plans."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tests.unit.extensions.moves.records.test_plan_progress import set_times
from tests.unit.ledger.records import new_id
from tonnage.capacity import errors
from tonnage.extensions.moves.plan_messages import ApplyPlan
from tonnage.extensions.moves.plan_start import PlanStarter
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.scheduler.observers.extension_events import ExtensionEvents
from tonnage.scheduler.simulation.simulator import Snapshot


@pytest.fixture
def cloud() -> Cloud:
    return Cloud().add("a", 100, [30]).add("b", 100).add("c", 100)


def starter(cloud: Cloud) -> PlanStarter:
    snapshots: Any = SimpleNamespace(take=lambda: Snapshot(cloud.table, cloud.rules, 20.0, {}, "nova"))
    return PlanStarter(cloud.database, Planner(cloud.database, snapshots), Limits(moves=5), ExtensionEvents())


def message(target: str, **limits: Any) -> ApplyPlan:
    query = PlanQuery(goal="empty", arguments={"target": target})
    return ApplyPlan(plan_id=new_id(), query=query, limits=limits, user_id="ann")


def test_a_plan_is_recorded_with_its_limits(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    order = message("h@a#p", moves_per_backend=1)
    assert len(starter(cloud).apply(order).moves) == 1
    starter(cloud).apply(order)
    [row] = cloud.database.run(plan_records.open_plans)
    assert (row.id, row.user_id, row.state) == (order.plan_id, "ann", "running")
    assert plan_records.limits_of(row) == Limits(moves=5, moves_per_backend=1)
    assert caplog.messages == [f"Plan {order.plan_id} (empty h@a#p) begins: 1 move of 30 GiB"]


def test_the_same_message_again_is_answered_with_the_recorded_plan(cloud: Cloud) -> None:
    order = message("h@a#p")
    first = starter(cloud).apply(order)
    [move] = first.moves
    # Now there would be another plan.
    row = cloud.table.row(cloud.table.index(move.target) or 0)
    cloud.table.put(replace(row, free=0.0))
    assert starter(cloud).preview(order.query).moves != first.moves
    assert starter(cloud).apply(order) == first


def test_a_plan_that_another_scheduler_has_recorded_meanwhile_is_the_answer(cloud: Cloud) -> None:
    order = message("h@a#p")
    late = starter(cloud)
    first: list[MovePlan] = []
    make = late._planner.plan_beside

    def plan(query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        made = make(query, held)
        if not first:
            first.append(starter(cloud).apply(order))
            return replace(made, outcome="another one")
        return made

    late._planner.plan_beside = plan  # type: ignore[method-assign]
    assert late.apply(order) == first[0]


def test_a_plan_of_an_earlier_release_is_made_again(cloud: Cloud) -> None:
    order = message("h@a#p")
    first = starter(cloud).apply(order)
    with cloud.engine.begin() as connection:
        connection.execute(sa.text("UPDATE move_plans SET outcome = NULL"))
    assert starter(cloud).apply(order) == first


def test_a_plan_has_the_time_of_its_moves_within_its_own_limits() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    order = message("h@a#p")
    assert starter(cloud).preview(order.query).seconds is None
    assert starter(cloud).apply(order).seconds is None
    set_times(cloud, 1, 70, 10, tables.MOVED)
    seconds = starter(cloud).preview(order.query).seconds
    assert seconds is not None
    assert abs(seconds - 60) < 1


def test_a_plan_without_moves_or_with_wrong_limits_is_not_recorded(cloud: Cloud) -> None:
    assert starter(cloud).apply(message("h@b#p")).moves == ()
    with pytest.raises(errors.InvalidInput, match="moves is 0"):
        starter(cloud).apply(message("h@a#p", moves=0))
    assert cloud.database.run(plan_records.open_plans) == []


def test_a_plan_leaves_the_pools_of_other_plans_alone_if_it_reaches_its_goal_so() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 200).add("c", 100).add("d", 100, [20])
    first, second = message("h@a#p"), message("h@d#p")
    assert moves_of(starter(cloud).preview(second.query)) == [(20, "d", "b")]
    assert moves_of(starter(cloud).apply(first)) == [(30, "a", "b")]
    for plan in (starter(cloud).preview(second.query), starter(cloud).apply(second)):
        assert (moves_of(plan), plan.outcome) == ([(20, "d", "c")], "h@d#p becomes empty")


@pytest.mark.parametrize("goal", ["empty", "fit", "relieve", "balance"])
def test_a_plan_that_needs_the_pools_of_another_one_says_so_and_is_refused(goal: str) -> None:
    """Two administrators."""
    cloud = Cloud().add("a", 100, [30, 60]).add("b", 60, [10]).add("c", 100, [80])
    first = message("h@b#p")
    assert moves_of(starter(cloud).apply(first)) == [(10, "b", "c")]
    arguments = {
        "empty": {"target": "h@b#p"},
        "fit": {"size": 60},
        "relieve": {"pool": "h@a#p", "below": 60},
        "balance": {"points": 5},
    }
    order = replace(message(""), query=PlanQuery(goal=goal, arguments=arguments[goal]))
    preview = starter(cloud).preview(order.query)
    assert preview.moves
    assert re.search(
        rf"; plan {first.plan_id} uses h@b#p(, h@c#p)?: 'plan apply' is refused until that", preview.outcome
    )
    expected = rf"pool h@[bc]#p is used by plan {first.plan_id} \(empty h@b#p\), which is running: wait for its end, or"
    with pytest.raises(errors.Conflict, match=expected):
        starter(cloud).apply(order)
    cloud.database.run(plan_records.stop, first.plan_id)
    cloud.database.run(plan_records.release, first.plan_id)
    assert "uses" not in starter(cloud).preview(order.query).outcome
    assert starter(cloud).apply(order).moves
