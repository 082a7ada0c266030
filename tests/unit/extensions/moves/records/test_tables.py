# SPDX-License-Identifier: Apache-2.0
"""The tables of plans."""

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.moves.records import tables


def plan_row(plan_id: str) -> tables.MovePlanRow:
    return tables.MovePlanRow(id=plan_id, goal="empty", arguments={"target": "h@b"}, summary="empty h@b", limits={})


def test_a_new_plan_runs() -> None:
    records = Records()
    records.add(plan_row(new_id()))
    assert records.rows(
        "SELECT state, generation, stalls, ended_at, created_at = progress_at, mover FROM move_plans"
    ) == [("running", 1, 0, None, 1, "")]


def test_two_plans_cannot_use_one_pool_and_rows_go_with_their_plan() -> None:
    records = Records()
    plans = [new_id(), new_id()]
    for plan_id in plans:
        records.add(plan_row(plan_id))
    records.add(tables.MovePlanPool(pool="h@b#p", plan_id=plans[0]))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(tables.MovePlanPool(pool="h@b#p", plan_id=plans[1]))
    records.add(
        tables.MoveStepRow(
            plan_id=plans[0],
            number=1,
            generation=1,
            volume_id=new_id(),
            size_gb=2**31 - 1,
            source="h@b#p",
            target="h@c#p",
            after=[],
            reason="",
        )
    )
    records.rows("DELETE FROM move_plans")
    assert records.rows("SELECT * FROM move_plan_pools") == records.rows("SELECT * FROM move_steps") == []


def test_values_that_are_missing_are_null_in_the_database() -> None:
    records = Records()
    plan_id = new_id()
    records.add(plan_row(plan_id))
    records.add(
        tables.MoveStepRow(
            plan_id=plan_id,
            number=1,
            generation=1,
            volume_id=new_id(),
            size_gb=1,
            source="h@b#p",
            target="h@c#p",
            after=[],
            reason="",
            source_level=None,
            target_level=None,
            volume_state=None,
        )
    )
    assert records.rows("SELECT mover_options IS NULL FROM move_plans") == [(1,)]
    nulls = "SELECT source_level IS NULL, target_level IS NULL, volume_state IS NULL FROM move_steps"
    assert records.rows(nulls) == [(1, 1, 1)]
