# SPDX-License-Identifier: Apache-2.0
"""Hypothetical changes of pools."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity import strategies
from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import hypothetical_pools
from tonnage.capacity.reports.hypothetical_pools import Changes, Defaults

DEFAULTS = Defaults(20.0, {"h@a#1"}, "nova")
NEW = {
    "pool_name": "h@c#new",
    "total_capacity_gb": 100,
    "free_capacity_gb": 100,
    "provisioned_capacity_gb": 0,
    "thin_provisioning_support": True,
    "media": "ssd",
}


def table() -> PoolTable:
    return PoolTable(
        Pool(name=name, total=100.0, free=50.0, provisioned=101.0, ratio=20.0, thin=True, availability_zone="north")
        for name in ("h@a#1", "h@a#2", "h@b#1")
    )


def changed(**given: Any) -> PoolTable:
    pools = table()
    hypothetical_pools.apply(pools, Changes(**given), DEFAULTS)
    return pools


def ratios(pools: PoolTable) -> dict[str, float]:
    return {pool.name: pool.ratio for pool in pools}


def test_the_default_ratio_applies_to_pools_without_a_ratio() -> None:
    assert ratios(changed(default_ratio=3.0)) == {"h@a#1": 3.0, "h@a#2": 20.0, "h@b#1": 20.0}
    # 1 + provisioned / (total - free + 1)
    assert ratios(changed(default_ratio="auto"))["h@a#1"] == 1 + 101 / 51


def test_ratios_by_backend_and_by_pool() -> None:
    assert ratios(changed(ratios={"h@a#2": 5.0, "h@a": "auto"})) == {"h@a#1": 1 + 101 / 51, "h@a#2": 5.0, "h@b#1": 20.0}


def test_reserves() -> None:
    pools = changed(reserved_percentage=10, reserved_percentages={"h@a": 20, "h@a#2": 30.5})
    assert pools.reserved_percentage.tolist() == [20.0, 30.5, 10.0]


def test_lost_pools_and_backends_are_removed() -> None:
    assert changed(lost=("h@a#1",)).names == (
        "h@b#1",
        "h@a#2",
    )
    assert changed(lost=("h@a", "h@b#1")).names == ()


def test_a_pool_is_added() -> None:
    pool = changed(added=(NEW,)).get("h@c#new")
    assert pool is not None
    assert (pool.total, pool.ratio, pool.thin, pool.availability_zone) == (100.0, 20.0, True, "nova")
    assert pool.capabilities["media"] == "ssd"
    beside = changed(added=({**NEW, "pool_name": "h@a#new", "max_over_subscription_ratio": "auto"},)).get("h@a#new")
    assert beside is not None
    assert (beside.availability_zone, beside.ratio) == ("north", 20.0)
    moved = changed(added=({**NEW, "availability_zone": "south"},), ratios={"h@c": 7}).get("h@c#new")
    assert moved is not None
    assert (moved.availability_zone, moved.ratio) == ("south", 7.0)


def test_an_added_pool_on_a_shared_storage_counts_the_claims_of_the_others() -> None:
    pools = PoolTable(
        [
            Pool(
                name="h@a#1",
                total=100.0,
                free=60.0,
                allocated=50.0,
                claimed=30.0,
                claimed_physical=20.0,
                storage_id="s",
            )
        ]
    )
    hypothetical_pools.apply(pools, Changes(added=({**NEW, "storage_id": "s"},)), DEFAULTS)
    pool = pools.get("h@c#new")
    assert pool is not None
    assert (pool.in_flight, pool.in_flight_physical, pool.shared_allocated) == (30.0, 20.0, 50.0)
    part = {**NEW, "pool_name": "h@c#part", "storage_id": "s", "storage_free_capacity_gb": 60}
    hypothetical_pools.apply(pools, Changes(added=(part,)), DEFAULTS)
    pool = pools.get("h@c#part")
    assert pool is not None
    assert (pool.in_flight, pool.storage_room) == (0.0, 40.0)


@pytest.mark.parametrize(
    ("given_changes", "said"),
    [
        ({"default_ratio": 0.5}, "default_ratio: 0.5 is neither a number of at least 1"),
        ({"ratios": {"h@a": "much"}}, "ratios of h@a: 'much' is neither"),
        ({"ratios": {"h@x": 2.0}}, "ratios: there is no pool or backend 'h@x'"),
        ({"lost": ("h@a#3",)}, "lost: there is no pool or backend 'h@a#3'"),
        ({"reserved_percentage": 101}, "reserved_percentage is 101: it takes 0 to 100"),
        ({"reserved_percentages": {"h@a": math.nan}}, "reserved_percentages of h@a is nan"),
        ({"added": ({**NEW, "pool_name": "new"},)}, "pool_name is 'new'; a new pool has a full name"),
        ({"added": ({**NEW, "pool_name": "h@a#1"},)}, "pool h@a#1 is there already"),
        ({"added": ({**NEW, "total_capacity_gb": "much"},)}, "total_capacity_gb is 'much'"),
        ({"added": ({**NEW, "total_capacity_gb": -1},)}, "total_capacity_gb is negative: -1"),
        ({"added": ({**NEW, "free_capacity_gb": None},)}, "free_capacity_gb is missing"),
    ],
)
def test_invalid_changes_raise_with_name_and_value(given_changes: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        changed(**given_changes)
    assert said in caught.value.message


@strategies.PROPERTY
@given(st.lists(strategies.pools(), min_size=1, max_size=4), st.sampled_from([2.0, "auto"]))
def test_only_the_named_pools_change(drawn: list[Pool], ratio: float | str) -> None:
    names = [f"h@b#{number}" for number in range(len(drawn))]
    given_pools = [
        Pool(**{each: getattr(pool, each) for each in Pool.__slots__} | {"name": name})
        for pool, name in zip(drawn, names, strict=True)
    ]
    before, after = PoolTable(given_pools), PoolTable(given_pools)
    hypothetical_pools.apply(after, Changes(ratios={names[0]: ratio}), DEFAULTS)
    for one, other in zip(before, after, strict=True):
        same = {name for name in Pool.__slots__ if repr(getattr(one, name)) == repr(getattr(other, name))}
        assert set(Pool.__slots__) - same <= ({"ratio"} if one.name == names[0] else set())
