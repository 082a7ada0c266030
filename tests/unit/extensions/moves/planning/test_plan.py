# SPDX-License-Identifier: Apache-2.0
"""Plans."""

from tests.unit.extensions.moves.clouds import Cloud


def test_a_plan_adds_up_what_its_moves_copy() -> None:
    plan = Cloud().add("a", 100, [30, 12]).add("b", 100).plan("empty", target="h@a#p")
    assert plan.moved_gb == 42


def test_moves_without_a_common_pool_run_side_by_side() -> None:
    """No move waits for another one: none leaves a pool into which another goes."""
    plan = Cloud().add("a", 100, [30, 12]).add("b", 100).plan("empty", target="h@a#p")
    assert [move.after for move in plan.moves] == [(), ()]
