# SPDX-License-Identifier: Apache-2.0
"""What has to hold of plans and their steps, looked at from outside with plain SQL."""

from tests.unit.scheduler.model.world import World
from tonnage.extensions.moves.records import tables


def check(world: World) -> None:
    """At any moment all steps of a plan use its pools, which no other plan has, and no move was started twice."""
    orphans = world.rows(
        "SELECT s.plan_id, s.number FROM move_steps s WHERE s.state IN ('waiting', 'moving') AND (s.source NOT IN "
        "(SELECT pool FROM move_plan_pools h WHERE h.plan_id = s.plan_id) OR s.target NOT IN "
        "(SELECT pool FROM move_plan_pools h WHERE h.plan_id = s.plan_id))"
    )
    assert orphans == []
    requests = world.rows(
        "SELECT request_id, COUNT(*) FROM claims WHERE verb = 'migrate' AND request_id LIKE 'move-%' "
        "GROUP BY request_id HAVING COUNT(*) > 1"
    )
    assert requests == [], "a move was started twice"


def check_ended(world: World) -> None:
    """All plans have ended and tell why, and so does each step that has moved nothing."""
    for plan_id, state, message in world.rows("SELECT id, state, message FROM move_plans"):
        assert state in (tables.FINISHED, tables.FAILED, tables.STOPPED), (plan_id, state, message)
        assert message, (plan_id, state)
    steps = world.rows("SELECT plan_id, number, state, message FROM move_steps")
    assert {step[2] for step in steps} <= {tables.MOVED, tables.STEP_FAILED, tables.SKIPPED}, steps
    assert all(step[3] for step in steps if step[2] != tables.MOVED), steps


def check_empty(world: World, target: str) -> None:
    """A pool, or all pools of a backend, have no volume."""
    rows = world.rows(
        "SELECT v.id, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id WHERE p.name = "
        f"'{target}' OR p.name LIKE '{target}#%'"
    )
    assert rows == [], target
