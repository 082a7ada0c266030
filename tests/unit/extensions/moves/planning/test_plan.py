# SPDX-License-Identifier: Apache-2.0
"""Plans."""

from tests.unit.extensions.moves.clouds import Cloud


def test_a_plan_adds_up_what_its_moves_copy() -> None:
    plan = Cloud().add("a", 100, [30, 12]).add("b", 100).plan("empty", target="h@a#p")
    assert plan.moved_gb == 42


def test_a_plan_uses_the_pools_that_its_goal_takes_volumes_out_of() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100).add("c", 100, [90], volume={"status": "in-use"})
    plan = cloud.plan("empty", target="h@a#p")
    assert (plan.sources, plan.used_pools) == (("h@a#p",), {"h@a#p", "h@b#p"})
    plan = cloud.plan("relieve", pool="h@c#p", below=10, bound="promised")
    assert (plan.moves, plan.used_pools) == ((), {"h@c#p"})
    plan = cloud.plan("balance", points=1)
    assert (plan.is_reached, plan.sources) == (False, ("h@c#p",)), "its volume stays, and is tried again"
    assert cloud.plan("fit", size=150).used_pools == set()


def test_moves_without_a_common_pool_run_side_by_side() -> None:
    """No move waits for another one: none leaves a pool into which another goes."""
    plan = Cloud().add("a", 100, [30, 12]).add("b", 100).plan("empty", target="h@a#p")
    assert [move.after for move in plan.moves] == [(), ()]
