# SPDX-License-Identifier: Apache-2.0
"""Decisions about nodes that take volumes together, and the reasons of refusals."""

import dataclasses
import datetime

import pytest

from tests.unit.extensions.kubernetes.fit.decisions import GI, NOW, decide, driver, fitting, pool, reason, volume, zone
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.capacity.driver_storage import EPHEMERAL, FALLBACK, Storage
from tonnage.extensions.kubernetes.cluster.volumes import CopySource
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalCode


def test_pools_are_accessible_by_labels_by_name_or_from_all_nodes() -> None:
    by_label = driver(Storage("fast", (pool("a", 9, node_topology=zone("a")), pool("b", 9, node_list=("n2", "n9")))))
    assert fitting(decide([by_label], volume(9))) == ["n1", "n2"]
    assert fitting(decide([by_label], volume(9.5))) == []
    assert fitting(decide([driver(Storage("fast", (pool("all", 9),)))], volume(9))) == ["n1", "n2", "n3"]
    refusal = reason(decide([by_label], volume(9)), 2)
    assert (refusal.code, refusal.message) == (
        RefusalCode.UNREACHABLE,
        "no pool of disk.example.com for storage class 'fast' is reached from this node",
    )


@pytest.mark.parametrize(
    ("storage", "code"),
    [
        ([Storage("fast", (pool("p", 9),))], None),
        ([Storage(FALLBACK, (pool("p", 9),))], None),
        ([Storage("slow", (pool("p", 9),))], RefusalCode.NO_STORAGE),
        ([Storage(EPHEMERAL, (pool("p", 9),))], RefusalCode.NO_STORAGE),
        ([Storage("fast"), Storage(FALLBACK, (pool("p", 9),))], RefusalCode.UNREACHABLE),
        ([Storage("fast", (pool("p", 9, expires_at=NOW),)), Storage(FALLBACK, (pool("q", 9),))], RefusalCode.EXPIRED),
        ([Storage("fast", (pool("p"),)), Storage(FALLBACK, (pool("q", 9),))], RefusalCode.UNKNOWN),
        ([Storage("fast", (pool("p", maximum_volume_size=9 * GI),))], RefusalCode.UNKNOWN),
        ([Storage("fast", (pool("p", 9, expires_at=NOW + datetime.timedelta(seconds=1)),))], None),
        ([Storage("fast", (pool("p", 3),))], RefusalCode.TOO_LARGE),
        ([Storage("fast", (pool("p", 9, maximum_volume_size=3 * GI),))], RefusalCode.TOO_LARGE),
    ],
)
def test_a_class_with_an_entry_does_not_use_the_fallback(storage: list[Storage], code: RefusalCode | None) -> None:
    found = decide([driver(*storage)], volume(4))
    assert [bool(fits) for fits in found.packing.fits] == [code is None] * 3
    if code is not None:
        assert reason(found, 0).code is code


def test_inline_volumes_use_the_ephemeral_storage() -> None:
    storage = (Storage(EPHEMERAL, (pool("p", 2),)), Storage(FALLBACK, (pool("q", 9),)))
    assert fitting(decide([driver(*storage)], volume(4, None))) == []
    assert fitting(decide([driver(*storage)], volume(4), volume(2, None))) == ["n1", "n2", "n3"]
    assert fitting(decide([driver(storage[1])], volume(4, None))) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("tracking", [False, None])
def test_untracked_volumes_and_volumes_without_size_fit_everywhere(tracking: bool | None) -> None:
    full = driver(Storage("fast", (pool("p", 0),)))
    everywhere = ["n1", "n2", "n3"]
    assert fitting(decide([driver(Storage("fast", (pool("p", 0),)), tracking=tracking)], volume(4))) == everywhere
    assert fitting(decide([full], volume(4, of="other"))) == everywhere
    assert fitting(decide([full], volume(None))) == everywhere
    assert fitting(decide([full], volume(1))) == []


def test_unchecked_volumes_are_listed_with_the_reason() -> None:
    known, off = driver(Storage("fast", (pool("p", 9),))), driver(name="off.example.com", tracking=False)
    volumes = [volume(4, name="a"), volume(None, name="b"), volume(4, name="c", of="off"), volume(4, name="d", of="no")]
    found = decide([known, off], *volumes)
    assert [(each.volume.name, str(each.code), each.message) for each in found.unchecked] == [
        ("b", "NoSize", "volume 'b' was not checked: it has no size"),
        ("c", "NotTracked", "volume 'c' was not checked: driver off.example.com has no capacityTracking"),
        ("d", "UnknownDriver", "volume 'd' was not checked: driver no.example.com is not known"),
    ]
    assert [each.volume.name for each in found.checked] == ["a"]


def test_two_claims_of_6_do_not_fit_into_10() -> None:
    ten = driver(Storage("fast", (pool("p", 10, node_list=("n1",)), pool("q", 12, node_list=("n2",)))))
    found = decide([ten], volume(6, name="a"), volume(6, name="b"))
    assert fitting(found) == ["n2"]
    refusal = reason(found, 0)
    assert refusal.code is RefusalCode.NOT_TOGETHER
    assert refusal.message == "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool p has 10Gi left"
    assert fitting(decide([ten], volume(6, name="a"), volume(4, name="b"))) == ["n1", "n2"]
    assert [each.pool for each in found.placements(1)] == [("fast", "q"), ("fast", "q")]


def test_a_copy_fits_only_where_its_source_is() -> None:
    everywhere = driver(Storage("fast", (pool("all", 9), pool("here", 4, node_list=("n1",)))))
    source = CopySource("claim origin", zone("b"))
    copy = dataclasses.replace(volume(4), source=source)
    found = decide([everywhere], copy, volume(4, name="other"))
    assert fitting(found) == ["n2"]
    refusal = reason(found, 0)
    assert (refusal.code, refusal.volumes) == (RefusalCode.SOURCE_ELSEWHERE, ("data",))
    assert refusal.message == "volume 'data' is a copy of claim origin, which is not reached from this node"
    # Together with another volume, which may go into more pools, it gets the reason of its own node.
    assert reason(decide([everywhere], copy, volume(6, name="other")), 1).code is RefusalCode.NOT_TOGETHER
    anywhere = dataclasses.replace(volume(4), source=CopySource("snapshot s", unchecked="its claim is gone"))
    assert fitting(decide([everywhere], anywhere)) == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("capacity", "most"),
    [
        # 2 Gi of a pool with 5 Gi on disks with 10 Gi.
        (5, 6),
        (10, 8),
        # The pool's part of the disks is unknown.
        (None, 0),
        (0, 0),
    ],
)
def test_a_claim_on_a_removed_pool_counts_on_its_disks(capacity: int | None, most: int) -> None:
    there = driver(Storage("fast", (pool("p", 10, backing_id="disks"), pool("q", 3))))
    gone = ActiveClaim(("safe", "m"), 2 * GI, "disks", None if capacity is None else capacity * GI)
    claims = {"disk.example.com": [gone, ActiveClaim(("safe", "x"), 99 * GI)]}
    found = decide([there], volume(1), claims=claims)
    assert max(int(found.packing_pools.group_free[0]), 0) == most * GI
    assert found.packing_pools.group_free[1] == 3 * GI


def test_volumes_of_several_drivers_use_their_own_pools() -> None:
    one = driver(Storage("fast", (pool("p", 4),)))
    other = driver(Storage("fast", (pool("p", 9, node_list=("n3",)),)), name="other.example.com")
    found = decide([one, other], volume(4), volume(9, of="other"))
    assert fitting(found) == ["n3"]
    assert [(each.driver, each.pool) for each in found.placements(2)] == [
        ("disk.example.com", ("fast", "p")),
        ("other.example.com", ("fast", "p")),
    ]
    assert found.remaining_fraction().tolist() == [0.0, 0.0, 0.0]
    half = decide([one], volume(1), volume(1))
    assert half.remaining_fraction().tolist() == [0.5, 0.5, 0.5]
    assert decide([one]).remaining_fraction().tolist() == [1.0, 1.0, 1.0]
