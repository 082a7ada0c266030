# SPDX-License-Identifier: Apache-2.0
"""The goal to make room for volumes."""

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.capacity import errors


def test_a_volume_that_fits_needs_no_move() -> None:
    plan = Cloud().add("a", 100).plan("fit", size=50)
    assert (plan.is_reached, plan.moves, plan.outcome) == (True, (), "1 fit now, in h@a#p")


def test_room_is_made_where_the_fewest_gib_are_copied() -> None:
    cloud = Cloud().add("a", 100, [40, 15]).add("b", 100, [70, 10]).add("c", 30)
    plan = cloud.plan("fit", size=60)
    assert moves_of(plan) == [(15, "a", "c")]
    assert plan.outcome == "1 fit after 1 move, in h@a#p"


def test_the_count_of_volumes_is_decided_one_after_another() -> None:
    cloud = Cloud().add("a", 100, [20, 20]).add("b", 60)
    plan = cloud.plan("fit", size=50, count=2)
    assert plan.is_reached
    plan = cloud.plan("fit", size=50, count=4)
    assert not plan.is_reached
    assert plan.outcome.startswith("2 of 4 fit, and no moves make room for more: No pool for 50 GiB")


def test_volumes_that_fit_are_no_operations_in_flight() -> None:
    """The refusal of the next one shows pools as they are once the volumes are there."""
    cloud = Cloud().add("a", 100, [20]).add("b", 50, thin=True, ratio=2.0)
    plan = cloud.plan("fit", size=40, count=5)
    assert plan.outcome.startswith("4 of 5 fit, and no moves make room for more")
    assert "provisioned 80, in flight 0," in plan.outcome


def test_pools_of_an_unsuitable_zone_are_not_emptied() -> None:
    cloud = Cloud().add("a", 100, [60], zone="z1").add("b", 100, [60], zone="z2").add("c", 70, zone="z2")
    assert not cloud.plan("fit", size=80, zone="z9").is_reached
    assert moves_of(cloud.plan("fit", size=80, zone="z1")) == [(60, "a", "c")]


def test_an_unknown_volume_type_is_named() -> None:
    with pytest.raises(errors.InvalidInput, match="volume type 'gold' could not be found"):
        Cloud().add("a", 100).plan("fit", size=1, volume_type="gold")
    with pytest.raises(errors.InvalidInput, match=r"size is 1\.5: expected a whole number"):
        Cloud().plan("fit", size=1.5)


def test_an_unknown_type_is_told_with_the_list_of_types() -> None:
    message = "volume type 'gold' could not be found: name another one, by its name or id; 'tonnage types' lists"
    with pytest.raises(errors.InvalidInput, match=message):
        Cloud().add("a", 100).plan("fit", size=4, volume_type="gold")
