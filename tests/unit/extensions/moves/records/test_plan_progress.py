# SPDX-License-Identifier: Apache-2.0
"""The progress of plans, and the estimate of the time that is left."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.extensions.moves.records.test_plan_records import start_plan
from tests.unit.ledger.records import new_id
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.records import plan_progress, plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_progress import Amount, Progress
from tonnage.extensions.moves.records.plan_records import NewPlan
from tonnage.ledger import models
from tonnage.ledger.db.database import create_engine


def progress(cloud: Cloud, plan_id: str) -> Progress:
    with cloud.database.reading() as session:
        return plan_progress.load(session, [plan_records.get(session, plan_id)])[plan_id]


def set_times(cloud: Cloud, number: int, begun: int, ended: int | None, state: str) -> None:
    """Let a step have begun some seconds ago, and have ended some seconds ago if it has."""
    times = {"begun": f"-{begun} seconds", "ended": None if ended is None else f"-{ended} seconds"}
    with cloud.engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE move_steps SET state = :state, started_at = strftime('%Y-%m-%d %H:%M:%f', 'now', :begun), "
                "ended_at = strftime('%Y-%m-%d %H:%M:%f', 'now', :ended) WHERE number = :number"
            ),
            {**times, "state": state, "number": number},
        )


def test_the_moves_are_counted_by_their_states() -> None:
    cloud = Cloud().add("a", 100, [30, 20]).add("b", 100)
    plan_id = start_plan(cloud)
    cloud.database.run(plan_records.start, plan_id, [1])
    assert progress(cloud, plan_id).amounts == {"moving": Amount(1, 30), "waiting": Amount(1, 20)}
    assert progress(cloud, plan_id).of(tables.MOVING, tables.WAITING, tables.MOVED) == Amount(2, 50)
    assert progress(cloud, plan_id).seconds_left is None, "nothing has been moved before"


def test_the_time_left_follows_earlier_moves_of_the_same_backends() -> None:
    cloud = Cloud().add("a", 200, [60, 30, 20]).add("b", 200)
    plan_id = start_plan(cloud, moves_per_backend=1)
    # 60 GiB took 120 seconds.
    set_times(cloud, 1, 130, 10, tables.MOVED)
    left = progress(cloud, plan_id).seconds_left
    assert left is not None
    assert abs(left - 100) < 1
    # The move under way has taken 50 of its 60 seconds.
    set_times(cloud, 2, 50, None, tables.MOVING)
    left = progress(cloud, plan_id).seconds_left
    assert left is not None
    assert abs(left - 50) < 1


def test_moves_side_by_side_take_less_time_and_other_backends_an_average() -> None:
    cloud = Cloud().add("a", 200, [60, 30, 30]).add("b", 200).add("c", 50, [40])
    plan_id = start_plan(cloud, moves_per_backend=2)
    set_times(cloud, 1, 60, 0, tables.MOVED)
    left = progress(cloud, plan_id).seconds_left
    assert left is not None
    assert abs(left - 30) < 1
    with cloud.engine.begin() as connection:
        connection.execute(sa.text("UPDATE move_steps SET target = 'h@elsewhere#p' WHERE number > 1"))
    again = progress(cloud, plan_id).seconds_left
    assert again is not None
    assert abs(again - 30) < 1


def estimate(cloud: Cloud, plan: MovePlan, **limits: int) -> float | None:
    with cloud.database.reading() as session:
        return plan_progress.estimate(session, plan.moves, Limits(**limits))


def test_a_new_plan_has_a_time_if_moves_of_all_its_pairs_are_known() -> None:
    cloud = Cloud().add("a", 200, [60, 30, 20]).add("b", 200).add("c", 100, [50])
    start_plan(cloud)
    plan = cloud.plan("empty", target="h@a#p")
    assert {move.target for move in plan.moves} == {"h@b#p"}
    assert estimate(cloud, plan) is None
    # 60 GiB took 120 seconds.
    set_times(cloud, 1, 130, 10, tables.MOVED)
    assert estimate(cloud, plan, moves_per_backend=1) == pytest.approx(220, abs=1)
    assert estimate(cloud, plan, moves=1) == pytest.approx(220, abs=1)
    assert estimate(cloud, plan, moves_per_backend=8) == pytest.approx(120, abs=1), "the longest move"
    assert estimate(cloud, cloud.plan("empty", target="h@c#p")) is None, "no move from c to b is known"
    assert estimate(cloud, cloud.plan("fit", size=1)) is None, "nothing moves"


def test_moves_that_wait_for_others_take_the_time_of_both() -> None:
    cloud = Cloud().add("a", 20, [9]).add("b", 19, [7, 4]).add("c", 4)
    plan = cloud.plan("empty", target="h@a#p")
    assert [(move.size_gb, move.after) for move in plan.moves] == [(4, ()), (9, (1,))]
    plan_id = new_id()
    new_plan = NewPlan(id=plan_id, goal="empty", arguments={"target": "h@a#p"}, limits=Limits())
    cloud.database.run(plan_records.insert, new_plan, plan)
    set_times(cloud, 1, 40, 0, tables.MOVED)
    set_times(cloud, 2, 90, 0, tables.MOVED)
    assert estimate(cloud, plan, moves_per_backend=8) == pytest.approx(130, abs=1)


def test_the_time_left_counts_moves_that_wait_for_others() -> None:
    cloud = Cloud().add("a", 200, [60, 30, 20, 10]).add("b", 200)
    plan_id = start_plan(cloud, moves_per_backend=8)
    # 60 GiB took 120 seconds, so the others take 60, 40 and 20.
    set_times(cloud, 1, 130, 10, tables.MOVED)

    def seconds_left(**after: str) -> float:
        with cloud.engine.begin() as connection:
            for number, numbers in after.items():
                statement = sa.text("UPDATE move_steps SET after_steps = :numbers WHERE number = :number")
                connection.execute(statement, {"numbers": numbers, "number": number.removeprefix("step")})
        return progress(cloud, plan_id).seconds_left or 0.0

    assert seconds_left() == pytest.approx(60, abs=1), "the longest move"
    assert seconds_left(step3="[1]") == pytest.approx(60, abs=1), "the first one has ended"
    assert seconds_left(step3="[1, 2]") == pytest.approx(100, abs=1)
    assert seconds_left(step4="[3]") == pytest.approx(120, abs=1)
    set_times(cloud, 2, 25, None, tables.MOVING)
    assert seconds_left() == pytest.approx(95, abs=1)
    # Each step counts once for its backend.
    with cloud.database.reading() as session:
        plan = plan_records.get(session, plan_id)
        plan.limits = {**plan.limits, "moves_per_backend": 1}
        left = plan_progress.load(session, [plan])[plan_id].seconds_left
        session.rollback()
    assert left == pytest.approx(95, abs=1)
    set_times(cloud, 2, 0, None, tables.WAITING)
    assert seconds_left(step2="[]", step4="[2]") == pytest.approx(100, abs=1)


@pytest.fixture
def engine(ledger_url: str) -> Iterator[sa.Engine]:
    """A ledger on each database."""
    engine = create_engine(ledger_url)
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


def test_the_time_left_is_summed_on_each_database(engine: sa.Engine) -> None:
    cloud = Cloud(engine=engine).add("a", 20, [9]).add("b", 19, [7, 4]).add("c", 4)
    plan_id = start_plan(cloud)

    def add_step(number: int, size_gb: int, target: str, **values: Any) -> None:
        def insert(session: orm.Session) -> None:
            now = session.execute(sa.select(models.utcnow())).scalar_one()
            ages = {name: now - datetime.timedelta(seconds=seconds) for name, seconds in values.items()}
            state = tables.MOVED if ages else tables.WAITING
            columns = {"plan_id": plan_id, "generation": 1, "volume_id": new_id(), "source": "h@a#p", "reason": ""}
            session.add(
                tables.MoveStepRow(
                    number=number, size_gb=size_gb, target=target, after=[], state=state, **columns, **ages
                )
            )

        cloud.database.run(insert)

    # 10 GiB took 20 seconds.
    add_step(3, 10, "h@b#p", started_at=30, ended_at=10)
    with cloud.database.reading() as session:
        assert [(step.size_gb, step.after) for step in plan_records.steps(session, plan_id)] == [
            (4, []),
            (9, [1]),
            (10, []),
        ]
    assert progress(cloud, plan_id).seconds_left == pytest.approx(2 * 13), "one after the other"
    add_step(4, 50, "h@d#p")
    assert progress(cloud, plan_id).seconds_left == pytest.approx(2 * 50), "the longest one"
    add_step(5, 45, "h@d#p")
    assert progress(cloud, plan_id).seconds_left == pytest.approx(2 * (9 + 50 + 45) / 2), "all moves of the pool a"


def test_the_time_left_of_many_moves_takes_few_objects() -> None:
    cloud = Cloud().add("a", 5000, [1, 2, 3]).add("b", 5000)
    plan_id = start_plan(cloud, moves=1)
    with cloud.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO move_steps (plan_id, number, generation, volume_id, size_gb, source, target, "
                "after_steps, reason, state) VALUES (:plan, :number, 1, '', 2, 'h@a#p', 'h@b#p', :after, '', 'waiting')"
            ),
            [{"plan": plan_id, "number": n, "after": "[3]" if n == 9 else "[]"} for n in range(4, 1004)],
        )
    set_times(cloud, 1, 6, 0, tables.MOVED)
    rows = 0

    def count(*arguments: object) -> None:
        nonlocal rows
        rows += 1

    sa.event.listen(tables.MoveStepRow, "load", count)
    try:
        left = progress(cloud, plan_id).seconds_left
    finally:
        sa.event.remove(tables.MoveStepRow, "load", count)
    assert left == pytest.approx(2 * (1 + 2 + 1000 * 2), abs=5)
    assert rows == 0


def test_a_plan_that_has_ended_has_no_time_left() -> None:
    cloud = Cloud().add("a", 100, [30, 20]).add("b", 100)
    plan_id = start_plan(cloud)
    set_times(cloud, 1, 60, 0, tables.MOVED)
    cloud.database.run(plan_records.stop, plan_id)
    assert progress(cloud, plan_id).seconds_left is None
