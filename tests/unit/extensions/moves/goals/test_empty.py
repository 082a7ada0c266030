# SPDX-License-Identifier: Apache-2.0
"""The goal to empty a pool or a backend."""

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.capacity import errors


def test_all_volumes_leave_the_largest_first() -> None:
    cloud = Cloud().add("a", 100, [10, 30, 20]).add("b", 100).add("c", 80)
    plan = cloud.plan("empty", target="h@a#p")
    assert moves_of(plan) == [(30, "a", "b"), (20, "a", "c"), (10, "a", "b")]
    assert (plan.is_reached, plan.outcome, plan.moved_gb) == (True, "h@a#p becomes empty", 60)
    assert plan.moves[0].reason == "30 GiB thick goes to h@b#p, the best of 2 candidates"
    assert cloud.promised["h@a#p"] == 0


def test_a_backend_is_emptied_and_takes_nothing() -> None:
    cloud = Cloud().add("a", 100, [10]).add("b", 100)
    assert moves_of(cloud.plan("empty", target="h@a")) == [(10, "a", "b")]


def test_an_empty_pool_needs_no_plan() -> None:
    plan = Cloud().add("a", 100).add("b", 100).plan("empty", target="h@a#p")
    assert (plan.is_reached, plan.outcome, plan.moves) == (True, "h@a#p has no volume", ())


def test_volumes_are_packed_tightly_where_a_spread_leaves_some_over() -> None:
    """A spread puts 30 GiB into the larger pool, where 10 GiB are then left, and 10 in the other: too few for 20."""
    cloud = Cloud().add("a", 100, [30, 20, 20]).add("b", 40).add("c", 30)
    plan = cloud.plan("empty", target="h@a#p")
    assert moves_of(plan) == [(30, "a", "c"), (20, "a", "b"), (20, "a", "b")]
    assert plan.moves[0].reason == "30 GiB thick goes to h@c#p, the fullest of 2 candidates"


def test_a_volume_that_fits_nowhere_gets_room_by_the_move_of_another() -> None:
    """Both others are nearly full; only the third, which is too small for the volume, has some room."""
    cloud = Cloud().add("a", 50, [40]).add("b", 50, [30]).add("c", 30)
    plan = cloud.plan("empty", target="h@a#p")
    assert moves_of(plan) == [(30, "b", "c"), (40, "a", "b")]
    assert plan.moves[1].after == (1,)
    assert plan.is_reached


def test_volumes_that_cannot_move_are_named_with_the_reason() -> None:
    cloud = Cloud().add("a", 100, [10], volume={"status": "in-use"}).add("b", 100)
    plan = cloud.plan("empty", target="h@a#p")
    assert not plan.is_reached
    assert plan.outcome == "1 of 1 volumes with 10 GiB stay in h@a#p"
    [staying] = plan.staying
    assert staying.reason.endswith("is in-use: only an available volume can be moved")


def test_a_volume_without_a_pool_has_the_schedulers_reason() -> None:
    plan = Cloud().add("a", 100, [60]).add("b", 50).plan("empty", target="h@a#p")
    [staying] = plan.staying
    assert "CapacityFilter refused 1, nearest h@b#p has headroom 50.00 GiB" in staying.reason


def test_a_copy_needs_physical_room_too() -> None:
    """By promises the thin pool takes 60 GiB more, but only 20 GiB can be written there."""
    cloud = Cloud().add("a", 100, [30], thin=True, ratio=2.0).add("b", 100, [160], thin=True, ratio=3.0, written=0.5)
    plan = cloud.plan("empty", target="h@a#p")
    [staying] = plan.staying
    assert staying.reason == ("30 GiB thin would go to h@b#p, where a copy of 30 GiB passes a bound: 20.0 GiB are free")


def test_zones_hold_as_for_a_request() -> None:
    cloud = Cloud().add("a", 100, [10], volume={"requested_zone": "nova"}).add("b", 100, zone="other").add("c", 50)
    assert moves_of(cloud.plan("empty", target="h@a#p")) == [(10, "a", "c")]


@pytest.mark.parametrize("target", ["h@x#p", "h@x"])
def test_an_unknown_pool_or_backend_is_named(target: str) -> None:
    with pytest.raises(errors.NotFound, match=f"{target} could not be found"):
        Cloud().add("a", 100).plan("empty", target=target)
