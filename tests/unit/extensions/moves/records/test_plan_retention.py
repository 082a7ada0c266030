# SPDX-License-Identifier: Apache-2.0
"""The end of the records of plans."""

import sqlalchemy as sa

from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.extensions.moves.records.test_plan_records import start_plan
from tonnage.extensions.moves.records import plan_progress, plan_records, plan_retention, tables
from tonnage.extensions.moves.records.plan_progress import Amount

SUMS = "SELECT state, moves, size_gb FROM move_plan_sums ORDER BY state"


def rows(cloud: Cloud, statement: str) -> list[tuple[object, ...]]:
    with cloud.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def age_by(cloud: Cloud, days: int) -> None:
    with cloud.engine.begin() as connection:
        connection.execute(
            sa.text(f"UPDATE move_plans SET ended_at = strftime('%Y-%m-%d %H:%M:%f', ended_at, '-{days} days')")
        )


def stopped_plan(cloud: Cloud) -> str:
    """Return a plan that was stopped after its first move of two."""
    plan_id = start_plan(cloud)
    cloud.database.run(plan_records.start, plan_id, [1])
    cloud.database.run(plan_records.end_step, plan_id, 1, tables.MOVED, None)
    cloud.database.run(plan_records.stop, plan_id)
    return plan_id


def cloud() -> Cloud:
    return Cloud().add("a", 100, [30, 20]).add("b", 100)


def test_the_sums_of_a_plan_are_recorded_at_its_end() -> None:
    made = cloud()
    plan_id = stopped_plan(made)
    assert rows(made, SUMS) == [("left", 1, 20)]
    assert made.database.run(plan_records.release, plan_id) is not None
    assert made.database.run(plan_records.release, plan_id) is None
    assert rows(made, SUMS) == [("left", 1, 20), ("moved", 1, 30), ("skipped", 1, 20)]


def test_a_plan_that_reaches_its_goal_has_nothing_left() -> None:
    made = cloud()
    plan_id = start_plan(made)
    made.database.run(plan_records.end, plan_id, tables.FINISHED, "all has gone otherwise")
    made.database.run(plan_records.release, plan_id)
    assert rows(made, SUMS) == [("skipped", 2, 50)]


def test_the_steps_of_an_ended_plan_are_not_counted_again() -> None:
    made = cloud()
    plan_id = stopped_plan(made)
    made.database.run(plan_records.release, plan_id)
    with made.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM move_steps"))
    with made.database.reading() as session:
        progress = plan_progress.load(session, [plan_records.get(session, plan_id)])[plan_id]
        assert plan_progress.sums(session) == {"moved": Amount(1, 30), "skipped": Amount(1, 20)}
    assert progress.of(tables.MOVED, tables.REMAINING) == Amount(2, 50)


def test_a_plan_that_has_ended_without_its_goal_counts_the_moves_that_were_left() -> None:
    made = cloud()
    plan_id = stopped_plan(made)
    # Before and after its pools are released.
    for _ in range(2):
        with made.database.reading() as session:
            progress = plan_progress.load(session, [plan_records.get(session, plan_id)])[plan_id]
        assert progress.of(tables.MOVED, tables.REMAINING) == Amount(2, 50)
        made.database.run(plan_records.release, plan_id)


def test_plans_are_deleted_some_time_after_their_end_a_part_at_a_time() -> None:
    made = cloud()
    purge = plan_retention.purge
    plan_id = stopped_plan(made)
    age_by(made, 31)
    assert made.database.run(purge, days=30) == 0, "its pools are still held"
    made.database.run(plan_records.release, plan_id)
    assert made.database.run(purge, days=32) == 0
    young = start_plan(made)
    # Two steps and the levels of two pools, then the plan.
    assert [made.database.run(purge, days=30, limit=3) for _ in range(3)] == [3, 2, 0]
    assert rows(made, "SELECT id FROM move_plans") == [(young,)]
    assert rows(made, "SELECT DISTINCT plan_id FROM move_steps") == [(young,)]
    assert rows(made, SUMS) == []


def test_an_unfinished_plan_is_not_deleted() -> None:
    made = cloud()
    plan_id = start_plan(made)
    with made.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM move_plan_pools"))
        connection.execute(sa.text("UPDATE move_plans SET ended_at = '2001-01-01 00:00:00.000'"))
    assert made.database.run(plan_retention.purge, days=1) == 0
    assert rows(made, "SELECT id FROM move_plans") == [(plan_id,)]
