# SPDX-License-Identifier: Apache-2.0
"""The events of plans."""

from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.extensions.moves.records.test_plan_records import start_plan
from tonnage.extensions.moves.execution import plan_events
from tonnage.extensions.moves.records import plan_progress, plan_records, tables


def test_a_failed_move_and_a_failed_plan_tell_why() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    plan_id = start_plan(cloud)
    cloud.database.run(plan_records.start, plan_id, [1])
    [step] = cloud.database.run(plan_records.steps, plan_id)
    event = plan_events.step_failed(cloud.database.run(plan_records.get, plan_id), step, "the disk is full")
    assert (event.title, event.text, event.failure) == (
        f"Plan {plan_id}: volume {step.volume_id} was not moved to h@b#p",
        "the disk is full",
        False,
    )
    cloud.database.run(plan_records.end_step, plan_id, 1, tables.STEP_FAILED, "the disk is full")
    cloud.database.run(plan_records.end, plan_id, tables.FAILED, "1 move failed")
    with cloud.database.reading() as session:
        plan = plan_records.get(session, plan_id)
        event = plan_events.ended(plan, plan_progress.load(session, [plan])[plan_id])
    assert (event.title, event.text) == (
        f"Plan {plan_id} is failed: empty h@a#p",
        "1 move failed; 0 moves of 0 GiB are done",
    )
    assert (event.failure, event.payload["failed"], event.payload["moved_gb"]) == (True, 1, 0)
