# SPDX-License-Identifier: Apache-2.0
"""The series of plans."""

from tests.unit.api.monitoring.ledger_pages import page_of, samples, world_with_volumes
from tests.unit.ledger.records import new_id
from tonnage.extensions.moves.plan_metrics import PlanSeries
from tonnage.extensions.moves.records import tables
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow


def step(plan_id: str, number: int, size_gb: int, state: str) -> MoveStepRow:
    return MoveStepRow(
        plan_id=plan_id,
        number=number,
        generation=1,
        volume_id=new_id(),
        size_gb=size_gb,
        source="h@a#p",
        target="h@b#p",
        after=[],
        reason="",
        state=state,
    )


def test_plans_and_their_moves_are_counted_by_state() -> None:
    world, plan_id = world_with_volumes(), new_id()
    page = page_of(world, series=[PlanSeries(100)])
    assert samples(page)["tonnage_move_plans", "running"] == 0
    rows = [
        MovePlanRow(id=plan_id, goal="empty", arguments={}, summary="", limits={}),
        step(plan_id, 1, 5, tables.MOVED),
        step(plan_id, 2, 7, tables.MOVED),
        step(plan_id, 3, 2, tables.STEP_FAILED),
    ]
    world.database.run(lambda session: session.add_all(rows))
    shown = samples(page_of(world, series=[PlanSeries(100)]))
    assert shown["tonnage_move_plans", "running"] == 1
    assert shown["tonnage_move_plan_moves", "moved"] == 2
    assert shown["tonnage_move_plan_bytes", "moved"] == 12 * 2**30
    assert shown["tonnage_move_plan_moves", "failed"] == 1
    assert shown["tonnage_move_plan_moves", "waiting"] == 0
