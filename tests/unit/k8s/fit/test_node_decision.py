# SPDX-License-Identifier: Apache-2.0
"""Which nodes take volumes together, and what the others say."""

import datetime
from typing import Any

import pytest

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity import pool_columns
from tonnage.k8s.capacity.driver_storage import EPHEMERAL, FALLBACK, Driver, Pool, Storage
from tonnage.k8s.capacity.node_accessibility import Reach
from tonnage.k8s.capacity.pool_columns import Claimed
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.fit import node_decision
from tonnage.k8s.fit.node_decision import Decision, Volume
from tonnage.k8s.fit.refusal_reasons import Code, Reason, Reasons

GI = 2**30
NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC).replace(tzinfo=None)
NODES = Nodes([Node("n1", {"zone": "a"}), Node("n2", {"zone": "b"}), Node("n3", {})])


def driver(*storage: Storage, name: str = "disk.example.com", tracking: bool | None = True) -> Driver:
    return Driver(name=name, uid=f"{name}-uid", version=1, tracking=tracking, storage=storage)


def pool(name: str, gi: float | None = None, **more: Any) -> Pool:
    return Pool(name=name, capacity=None if gi is None else int(gi * GI), **more)


def volume(gi: float | None, storage_class: str | None = "fast", *, name: str = "data", of: str = "disk") -> Volume:
    return Volume(name, f"{of}.example.com", storage_class, None if gi is None else int(gi * GI))


def decide(drivers: list[Driver], *volumes: Volume, claims: dict[str, list[Claimed]] | None = None) -> Decision:
    known = {each.name: pool_columns.of_driver(each) for each in drivers}
    return node_decision.decide(known, claims or {}, pool_columns.moment(NOW), volumes, NODES, Reach())


def why(decision: Decision, node: int) -> Reason:
    return Reasons(decision).why(node)


def taking(decision: Decision) -> list[str]:
    return [NODES.names[row] for row in decision.taking()]


def zone(name: str) -> NodeSelector:
    expression = {"key": "zone", "operator": "In", "values": [name]}
    return type_conversion.convert({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)


def test_pools_are_reached_by_labels_by_name_or_from_everywhere() -> None:
    by_label = driver(Storage("fast", (pool("a", 9, node_topology=zone("a")), pool("b", 9, node_list=("n2", "n9")))))
    assert taking(decide([by_label], volume(9))) == ["n1", "n2"]
    assert taking(decide([by_label], volume(9.5))) == []
    assert taking(decide([driver(Storage("fast", (pool("all", 9),)))], volume(9))) == ["n1", "n2", "n3"]
    refusal = why(decide([by_label], volume(9)), 2)
    assert (refusal.code, refusal.message) == (
        Code.UNREACHABLE,
        "no pool of disk.example.com for storage class 'fast' is reached from this node",
    )


@pytest.mark.parametrize(
    ("storage", "code"),
    [
        ([Storage("fast", (pool("p", 9),))], None),
        ([Storage(FALLBACK, (pool("p", 9),))], None),
        ([Storage("slow", (pool("p", 9),))], Code.NO_STORAGE),
        ([Storage(EPHEMERAL, (pool("p", 9),))], Code.NO_STORAGE),
        ([Storage("fast"), Storage(FALLBACK, (pool("p", 9),))], Code.UNREACHABLE),
        ([Storage("fast", (pool("p", 9, expires_at=NOW),)), Storage(FALLBACK, (pool("q", 9),))], Code.EXPIRED),
        ([Storage("fast", (pool("p"),)), Storage(FALLBACK, (pool("q", 9),))], Code.UNKNOWN),
        ([Storage("fast", (pool("p", maximum_volume_size=9 * GI),))], Code.UNKNOWN),
        ([Storage("fast", (pool("p", 9, expires_at=NOW + datetime.timedelta(seconds=1)),))], None),
        ([Storage("fast", (pool("p", 3),))], Code.TOO_LARGE),
        ([Storage("fast", (pool("p", 9, maximum_volume_size=3 * GI),))], Code.TOO_LARGE),
    ],
)
def test_a_class_is_looked_up_before_the_fallback_which_it_blocks(storage: list[Storage], code: Code | None) -> None:
    found = decide([driver(*storage)], volume(4))
    assert [bool(fits) for fits in found.fit.fits] == [code is None] * 3
    if code is not None:
        assert why(found, 0).code is code


def test_inline_volumes_have_a_storage_of_their_own() -> None:
    storage = (Storage(EPHEMERAL, (pool("p", 2),)), Storage(FALLBACK, (pool("q", 9),)))
    assert taking(decide([driver(*storage)], volume(4, None))) == []
    assert taking(decide([driver(*storage)], volume(4), volume(2, None))) == ["n1", "n2", "n3"]
    assert taking(decide([driver(storage[1])], volume(4, None))) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("tracking", [False, None])
def test_what_is_not_tracked_or_has_no_size_passes(tracking: bool | None) -> None:
    full = driver(Storage("fast", (pool("p", 0),)))
    everywhere = ["n1", "n2", "n3"]
    assert taking(decide([driver(Storage("fast", (pool("p", 0),)), tracking=tracking)], volume(4))) == everywhere
    assert taking(decide([full], volume(4, of="other"))) == everywhere
    assert taking(decide([full], volume(None))) == everywhere
    assert taking(decide([full], volume(1))) == []


def test_what_was_not_checked_is_named_with_the_reason() -> None:
    known, off = driver(Storage("fast", (pool("p", 9),))), driver(name="off.example.com", tracking=False)
    asked = [volume(4, name="a"), volume(None, name="b"), volume(4, name="c", of="off"), volume(4, name="d", of="no")]
    found = decide([known, off], *asked)
    assert [(each.volume.name, str(each.code), each.message) for each in found.unchecked] == [
        ("b", "NoSize", "volume 'b' was not checked: it has no size"),
        ("c", "NotTracked", "volume 'c' was not checked: driver off.example.com has no capacityTracking"),
        ("d", "UnknownDriver", "volume 'd' was not checked: driver no.example.com is not known"),
    ]
    assert [each.volume.name for each in found.sought] == ["a"]


def test_two_claims_of_6_do_not_fit_into_10() -> None:
    ten = driver(Storage("fast", (pool("p", 10, node_list=("n1",)), pool("q", 12, node_list=("n2",)))))
    found = decide([ten], volume(6, name="a"), volume(6, name="b"))
    assert taking(found) == ["n2"]
    refusal = why(found, 0)
    assert refusal.code is Code.NOT_TOGETHER
    assert refusal.message == "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool p has 10Gi left"
    assert taking(decide([ten], volume(6, name="a"), volume(4, name="b"))) == ["n1", "n2"]
    assert [each.pool for each in found.places(1)] == [("fast", "q"), ("fast", "q")]


def test_claims_and_shared_disks_count_and_are_told() -> None:
    both = driver(
        Storage("fast", (pool("p", 10, backing_id="disks"),)), Storage("safe", (pool("m", 5, backing_id="disks"),))
    )
    claims = {"disk.example.com": [Claimed(("safe", "m"), 2 * GI), Claimed(("gone", "x"), 99 * GI, "others")]}
    assert taking(decide([both], volume(6), claims=claims)) == ["n1", "n2", "n3"]
    assert why(decide([both], volume(7), claims=claims), 0).message == (
        "volume 'data' of 7Gi (storage class 'fast'): pool p has 6Gi left of 10Gi"
    )
    assert Reasons(decide([both], volume(4, "safe"), claims=claims)).pools(0)[0].left == 3 * GI
    assert taking(decide([both], volume(4), volume(1, "safe"), claims=claims)) == ["n1", "n2", "n3"]
    assert taking(decide([both], volume(4), volume(1.5, "safe"), claims=claims)) == []


@pytest.mark.parametrize(
    ("capacity", "most"),
    [
        # 2 Gi of a pool that said 5 where 10 are.
        (5, 6),
        (10, 8),
        # Nobody knows how much of the disks it is.
        (None, 0),
        (0, 0),
    ],
)
def test_what_is_claimed_of_a_pool_that_is_gone_counts_on_its_disks(capacity: int | None, most: int) -> None:
    there = driver(Storage("fast", (pool("p", 10, backing_id="disks"), pool("q", 3))))
    gone = Claimed(("safe", "m"), 2 * GI, "disks", None if capacity is None else capacity * GI)
    claims = {"disk.example.com": [gone, Claimed(("safe", "x"), 99 * GI)]}
    found = decide([there], volume(1), claims=claims)
    assert max(int(found.supply.room[0]), 0) == most * GI
    assert found.supply.room[1] == 3 * GI


def test_a_refusal_names_those_that_are_in_each_others_way() -> None:
    """A volume that has a pool for itself has no part in it."""
    there = driver(
        Storage("fast", (pool("p", 10, backing_id="disks"),)),
        Storage("safe", (pool("p", 5, backing_id="disks"),)),
        Storage("slow", (pool("p", 9),)),
    )
    found = decide([there], volume(6, name="a"), volume(9, "slow", name="b"), volume(3, "safe", name="c"))
    refusal = why(found, 0)
    assert refusal.volumes == ("a", "c")
    assert refusal.message == (
        "volumes 'a' 6Gi + 'c' 3Gi, together 9Gi, do not fit: pool p has 10Gi left and, of the same disks, "
        "pool p has 5Gi left"
    )


def test_of_many_volumes_too_those_are_named_that_are_in_each_others_way() -> None:
    there = driver(Storage("fast", (pool("p", 9), pool("q", 1))), Storage("slow", (pool("p", 9),)))
    many = [volume(2, name=f"v{number}") for number in range(9)]
    refusal = why(decide([there], *many[:5], volume(9, "slow", name="b"), *many[5:]), 2)
    assert refusal.volumes == tuple(each.name for each in many)
    assert refusal.message.endswith("+ 'v8' 2Gi, together 18Gi, do not fit: pool p has 9Gi left; pool q has 1Gi left")


def test_volumes_of_several_drivers_are_kept_apart() -> None:
    one = driver(Storage("fast", (pool("p", 4),)))
    other = driver(Storage("fast", (pool("p", 9, node_list=("n3",)),)), name="other.example.com")
    found = decide([one, other], volume(4), volume(9, of="other"))
    assert taking(found) == ["n3"]
    assert [(each.driver, each.pool) for each in found.places(2)] == [
        ("disk.example.com", ("fast", "p")),
        ("other.example.com", ("fast", "p")),
    ]
    assert found.left().tolist() == [0.0, 0.0, 0.0]
    half = decide([one], volume(1), volume(1))
    assert half.left().tolist() == [0.5, 0.5, 0.5]
    assert decide([one]).left().tolist() == [1.0, 1.0, 1.0]


def test_an_expired_figure_says_since_when() -> None:
    stale = driver(Storage("fast", (pool("p", 9, expires_at=NOW - datetime.timedelta(minutes=1)),)))
    assert why(decide([stale], volume(1)), 0).message == "storage class 'fast': pool p expired at 2026-11-21T11:59:00Z"


def test_figures_change_without_being_made_anew() -> None:
    before = pool_columns.of_driver(driver(Storage("fast", (pool("p", 4), pool("q", 4)))))
    after = before.changed(2, [("fast", pool("q", 9))], True)
    found = node_decision.decide({before.name: after}, {}, 0, [volume(9)], NODES, Reach())
    assert [each.pool for each in found.places(0)] == [("fast", "q")]
    assert before.capacity.tolist() == [4 * GI, 4 * GI]
