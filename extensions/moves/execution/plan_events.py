# SPDX-License-Identifier: Apache-2.0
"""The events of plans, which the extension ``announcements`` announces: begin, failed move, end."""

from typing import Any

from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.records import tables
from tonnage.extensions.moves.records.plan_progress import Progress
from tonnage.extensions.moves.records.plan_records import NewPlan
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow
from tonnage.scheduler.observers.extension_events import ExtensionEvent

BEGUN = "capacity.move_plan.begun"
MOVE_FAILED = "capacity.move_plan.move_failed"
ENDED = "capacity.move_plan.ended"


def begun(new_plan: NewPlan, plan: MovePlan) -> ExtensionEvent:
    """Return the event that a plan begins."""
    payload: dict[str, Any] = {
        "plan_id": new_plan.id,
        "goal": plan.goal,
        "user_id": new_plan.user_id,
        "moves": len(plan.moves),
        "size_gb": plan.moved_gb,
    }
    title = f"Plan {new_plan.id} begins: {plan.goal}"
    return ExtensionEvent(event_type=BEGUN, payload=payload, title=title, text=f"{plan.amount}; {plan.outcome}")


def step_failed(plan: MovePlanRow, step: MoveStepRow, message: str) -> ExtensionEvent:
    """Return the event that a move of a plan has failed. The plan goes on."""
    payload: dict[str, Any] = {
        "plan_id": plan.id,
        "goal": plan.summary,
        "volume_id": step.volume_id,
        "size_gb": step.size_gb,
        "source": step.source,
        "target": step.target,
        "message": message,
    }
    title = f"Plan {plan.id}: volume {step.volume_id} was not moved to {step.target}"
    return ExtensionEvent(event_type=MOVE_FAILED, payload=payload, title=title, text=message)


def ended(plan: MovePlanRow, progress: Progress) -> ExtensionEvent:
    """Return the event that a plan has ended, and its last move too."""
    moved = progress.of(tables.MOVED)
    payload: dict[str, Any] = {
        "plan_id": plan.id,
        "goal": plan.summary,
        "user_id": plan.user_id,
        "state": plan.state,
        "message": plan.message,
        "moved": moved.moves,
        "moved_gb": moved.size_gb,
        "failed": progress.of(tables.STEP_FAILED).moves,
    }
    return ExtensionEvent(
        event_type=ENDED,
        payload=payload,
        title=f"Plan {plan.id} is {plan.state}: {plan.summary}",
        text=f"{plan.message}; {moved.moves} moves of {moved.size_gb} GiB are done",
        failure=plan.state == tables.FAILED,
    )
