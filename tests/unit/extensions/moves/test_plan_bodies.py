# SPDX-License-Identifier: Apache-2.0
"""The bodies of plans."""

from dataclasses import replace

from msgspec import UNSET

from tests.unit.extensions.moves.clouds import Cloud
from tonnage.extensions.moves import plan_bodies


def test_a_body_has_all_of_a_plan() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100, [5]).add("c", float("inf"), [4], volume={"status": "in-use"})
    body = plan_bodies.plan_body(cloud.plan("empty", target="h@a#p"))
    [move] = body.moves
    assert (body.moved_gb, move.number, move.after, move.source_level.promised_gb) == (30, 1, [], 0)
    assert (move.target_level.promise_limit_gb, move.target_level.used_gb) == (100, 35)
    [staying] = plan_bodies.plan_body(cloud.plan("empty", target="h@c#p")).staying
    assert (staying.size_gb, staying.pool) == (4, "h@c#p")


def test_the_estimate_of_the_time_is_rounded_or_null_or_left_out() -> None:
    plan = Cloud().add("a", 100, [30]).add("b", 100).plan("empty", target="h@a#p")
    assert plan_bodies.plan_body(plan).seconds is None
    assert plan_bodies.plan_body(replace(plan, seconds=1.26)).seconds == 1.3
    assert plan_bodies.plan_body(replace(plan, seconds=1.26), is_newest=False).seconds is UNSET
