# SPDX-License-Identifier: Apache-2.0
"""The goal to balance pools."""

import dataclasses

import pytest
import sqlalchemy as sa

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.capacity import errors
from tonnage.ledger import models


def test_the_fullest_pool_gives_the_fewest_gib_away() -> None:
    cloud = Cloud().add("a", 100, [60, 20, 10]).add("b", 100, [30]).add("c", 100, [30])
    plan = cloud.plan("balance", points=10)
    assert moves_of(plan) == [(20, "a", "b"), (10, "a", "c")]
    assert plan.goal == "balance 3 pools within 10 points of their mean, 50.0 %"
    assert plan.outcome == "no pool is above 60.0 %"


def test_pools_within_the_points_stay_as_they_are() -> None:
    plan = Cloud().add("a", 100, [55]).add("b", 100, [45]).plan("balance")
    assert (plan.is_reached, plan.moves) == (True, ())


def test_no_pool_is_taken_above_the_level() -> None:
    """The volume of 80 GiB would make the other pool the full one."""
    plan = Cloud().add("a", 100, [80]).add("b", 100).plan("balance")
    assert not plan.is_reached
    assert plan.outcome == "h@a#p stays at 80.0 %"
    assert "would then be above the level of this plan" in plan.staying[0].reason


def test_pools_pass_volumes_on_if_nothing_else_helps() -> None:
    """The volume of 20 GiB needs room in *b*, whose volume of 15 GiB needs room in *d*, which gives 10 GiB more."""
    in_zone = {"requested_zone": "z1"}
    cloud = (
        Cloud().add("a", 100, [45, 20], zone="z1", volume=in_zone).add("b", 100, [15, 25], zone="z1", volume=in_zone)
    )
    cloud.add("d", 100, [10, 10, 30], zone="z1").add("e", 100, zone="z2")
    with cloud.engine.begin() as connection:
        large = models.Volume.id == cloud.ids["d"][2]
        connection.execute(sa.update(models.Volume).where(large).values(requested_zone="z1"))
    plan = cloud.plan("balance", points=6.25)
    assert moves_of(plan) == [(20, "a", "b"), (10, "d", "e"), (10, "d", "e"), (15, "b", "d")]
    assert plan.outcome == "no pool is above 45.0 %"
    assert [cloud.promised[f"h@{name}#p"] for name in "abde"] == [45, 45, 45, 20]


def test_a_pool_without_thin_volumes_promises_no_more_than_it_has() -> None:
    """Whatever ratio it reports, or the schedulers have as the default."""
    cloud = Cloud().add("a", 100, [30, 30], ratio=20.0).add("b", 100, ratio=20.0)
    plan = cloud.plan("balance", points=10)
    assert moves_of(plan) == [(30, "a", "b")]
    assert plan.goal == "balance 2 pools within 10 points of their mean, 30.0 %"
    assert plan.moves[0].target_level.promise_limit_gb == 100


def test_only_the_pools_that_are_named_take_part() -> None:
    cloud = Cloud().add("a", 100, [40, 40]).add("b", 100).add("c", 1000)
    assert moves_of(cloud.plan("balance", pools=["h@a#p", "h@b#p"])) == [(40, "a", "b")]


def test_a_zone_is_balanced_by_itself() -> None:
    cloud = Cloud().add("a", 100, [40, 40], zone="z1").add("b", 100, zone="z1").add("c", 1000, zone="z2")
    assert moves_of(cloud.plan("balance", zone="z1")) == [(40, "a", "b")]
    with pytest.raises(errors.NotFound, match="availability zone z3 has no pool"):
        cloud.plan("balance", zone="z3")


def test_pools_are_balanced_by_their_physical_use() -> None:
    """Of each thin volume half is written here, and it may be written in full where it goes to."""
    cloud = (
        Cloud()
        .add("a", 100, [40, 40, 40, 40], thin=True, ratio=4.0, written=0.5)
        .add("b", 100, [120], thin=True, ratio=4.0, written=0.1)
        .add("c", 100, [20])
    )
    plan = cloud.plan("balance", points=22, bound="physical", pools=["h@a#p", "h@b#p"])
    assert plan.goal == "balance 2 pools within 22 points of their mean, 46.0 % of physical use"
    assert moves_of(plan) == [(40, "a", "b")]
    assert plan.outcome == "no pool is above 68.0 %"
    # Two of them would free enough for 10 points, but their copies take the other pool above the level.
    plan = cloud.plan("balance", points=10, bound="physical", pools=["h@a#p", "h@b#p"])
    assert (plan.is_reached, plan.outcome) == (False, "h@a#p stays at 80.0 %")
    # By their promises the second one is the fullest.
    assert moves_of(cloud.plan("balance", points=20, pools=["h@b#p", "h@c#p"])) == []


def test_the_pools_of_a_volume_type_are_balanced_by_themselves() -> None:
    cloud = Cloud().add("a", 100, [40, 40], media="ssd").add("b", 100, media="ssd").add("c", 1000, media="hdd")
    with cloud.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType).values(id="gold", name="gold", is_public=True))
        connection.execute(sa.insert(models.ExtraSpec).values(volume_type_id="gold", key="media", value="ssd"))
    plan = cloud.plan("balance", volume_type="gold")
    assert plan.goal == "balance 2 pools within 10 points of their mean, 40.0 %"
    assert moves_of(plan) == [(40, "a", "b")]
    with pytest.raises(errors.NotFound, match="no pool that is to be balanced is suitable for the volume type gold"):
        cloud.plan("balance", volume_type="gold", pools=["h@c#p"])
    with pytest.raises(errors.InvalidInput, match="volume type 'silver' could not be found"):
        cloud.plan("balance", volume_type="silver")


def test_a_single_pool_cannot_be_balanced() -> None:
    cloud = Cloud().add("a", 100, [90], zone="z1").add("b", 100).add("c", float("inf"))
    expected = "a single pool cannot be balanced: h@a#p is its own mean; name two pools or more"
    for arguments in ({"pools": ["h@a#p"]}, {"zone": "z1"}, {"pools": ["h@a#p", "h@c#p"]}):
        with pytest.raises(errors.InvalidInput, match=expected):
            cloud.plan("balance", **arguments)


def test_pools_without_limits_cannot_be_balanced() -> None:
    with pytest.raises(errors.InvalidInput, match="no pool that is to be balanced has a limit"):
        Cloud().add("a", float("inf")).plan("balance")


def test_volumes_of_a_backend_that_is_down_stay_with_the_reason() -> None:
    cloud = Cloud().add("a", 100, [60, 20, 10]).add("b", 100, [30]).add("c", 100, [30])
    cloud.table.put(dataclasses.replace(cloud.table.row(0), up=False))
    plan = cloud.plan("balance", points=10)
    assert (plan.moves, plan.is_reached, plan.outcome) == ((), False, "h@a#p stays at 90.0 %")
    assert {volume.reason for volume in plan.staying} == {"backend h@a is down"}
