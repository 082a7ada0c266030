# SPDX-License-Identifier: Apache-2.0
"""The goal to bring a pool below a share of its bound."""

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.capacity import errors


def test_the_fewest_gib_leave_that_are_enough() -> None:
    cloud = Cloud().add("a", 100, [50, 30, 12, 5]).add("b", 100)
    plan = cloud.plan("relieve", pool="h@a#p", below=80)
    assert moves_of(plan) == [(12, "a", "b"), (5, "a", "b")]
    assert plan.outcome == "from 97.0 % to 80 % or less"


def test_a_pool_below_the_share_needs_no_move() -> None:
    plan = Cloud().add("a", 100, [50]).add("b", 100).plan("relieve", pool="h@a#p", below=80)
    assert (plan.is_reached, plan.moves, plan.outcome) == (True, (), "50.0 % are used")


def test_a_volume_that_finds_no_pool_is_replaced_by_others() -> None:
    """The best choice is the one of 20 GiB, but the other pool has room for 15 GiB alone."""
    cloud = Cloud().add("a", 100, [75, 20, 5]).add("b", 15)
    plan = cloud.plan("relieve", pool="h@a#p", below=95)
    assert moves_of(plan) == [(5, "a", "b")]
    plan = cloud.plan("relieve", pool="h@a#p", below=90)
    assert not plan.is_reached
    assert moves_of(plan) == [(5, "a", "b")]
    assert (
        plan.outcome == "from 100.0 % to 95.0 %; 5.0 GiB more must become free, but the 2 volumes that free more stay"
    )
    assert [volume.size_gb for volume in plan.staying] == [75, 20]
    assert all("GiB" in volume.reason for volume in plan.staying)


def test_a_share_out_of_reach_is_approached_with_room_made_elsewhere() -> None:
    """The volume of 20 GiB needs the room of the one of 4 GiB, which goes to the third pool."""
    cloud = Cloud().add("a", 100, [60, 20]).add("b", 22, [4]).add("c", 5)
    plan = cloud.plan("relieve", pool="h@a#p", below=10)
    assert moves_of(plan) == [(4, "b", "c"), (20, "a", "b")]
    assert plan.moves[1].after == (1,)
    assert plan.outcome == "from 80.0 % to 60.0 %; 50.0 GiB more must become free, but the volume that frees more stays"


def test_what_remains_without_a_volume_is_told() -> None:
    """The pool has data that belongs to no volume."""
    cloud = Cloud().add("a", 100, [10], written=5.0).add("b", 100)
    plan = cloud.plan("relieve", pool="h@a#p", below=30)
    assert moves_of(plan) == [(10, "a", "b")]
    assert plan.outcome == "from 50.0 % to 40.0 %; 10.0 GiB more must become free, and no volume is left that frees any"


def test_a_share_out_of_reach_without_a_move() -> None:
    plan = Cloud().add("a", 100, [50]).plan("relieve", pool="h@a#p", below=30)
    assert (plan.is_reached, plan.moves) == (False, ())
    assert plan.outcome == "50.0 % are used; 20.0 GiB more must become free, but the volume that frees more stays"


def test_promises_are_relieved_by_the_sizes_of_thin_volumes() -> None:
    cloud = Cloud().add("a", 100, [100, 60, 30], thin=True, ratio=2.0, written=0.3).add("b", 100, thin=True, ratio=2.0)
    plan = cloud.plan("relieve", pool="h@a#p", below=80, bound="promised")
    assert moves_of(plan) == [(30, "a", "b")]


def test_a_thin_volume_frees_its_share_of_what_is_written() -> None:
    """90 of 300 GiB are written, so 100 GiB free about 30."""
    cloud = Cloud().add("a", 100, [100, 100, 100], thin=True, ratio=4.0, written=0.3).add("b", 400, thin=True)
    plan = cloud.plan("relieve", pool="h@a#p", below=65)
    assert moves_of(plan) == [(100, "a", "b")]
    assert plan.is_reached


def test_an_unknown_bound_is_told() -> None:
    cloud = Cloud().add("a", float("nan"), [10]).add("b", 100)
    plan = cloud.plan("relieve", pool="h@a#p", below=80)
    assert (plan.is_reached, plan.outcome) == (False, "the physical bound of h@a#p is not known")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"below": 80}, "goal relieve: pool is missing: expected a text"),
        ({"pool": "p", "below": 101}, "goal relieve: below is 101: expected a number from 0 to 100"),
        ({"pool": "p", "below": True}, "goal relieve: below is True: expected a number"),
        ({"pool": "p", "below": 8, "bound": "x"}, "goal relieve: bound is 'x': expected physical or promised"),
        (
            {"pool": "p", "below": 8, "above": 1},
            "goal relieve: the goal has no argument above: it takes pool, below, bound",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        Cloud().plan("relieve", **arguments)
