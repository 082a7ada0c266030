# SPDX-License-Identifier: Apache-2.0
"""The reasons of refusals of nodes."""

import datetime

from tests.unit.extensions.kubernetes.fit.decisions import GI, NOW, decide, driver, fitting, pool, reason, volume
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.capacity.driver_storage import Storage
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalReasons


def test_claims_and_shared_disks_count_and_appear_in_reasons() -> None:
    both = driver(
        Storage("fast", (pool("p", 10, backing_id="disks"),)), Storage("safe", (pool("m", 5, backing_id="disks"),))
    )
    claims = {"disk.example.com": [ActiveClaim(("safe", "m"), 2 * GI), ActiveClaim(("gone", "x"), 99 * GI, "others")]}
    assert fitting(decide([both], volume(6), claims=claims)) == ["n1", "n2", "n3"]
    assert reason(decide([both], volume(7), claims=claims), 0).message == (
        "volume 'data' of 7Gi (storage class 'fast'): pool p has 6Gi left of 10Gi"
    )
    assert RefusalReasons(decide([both], volume(4, "safe"), claims=claims)).accessible_pools(0)[0].headroom == 3 * GI
    assert fitting(decide([both], volume(4), volume(1, "safe"), claims=claims)) == ["n1", "n2", "n3"]
    assert fitting(decide([both], volume(4), volume(1.5, "safe"), claims=claims)) == []


def test_a_refusal_names_the_competing_volumes() -> None:
    """A volume with a pool of its own is not among them."""
    there = driver(
        Storage("fast", (pool("p", 10, backing_id="disks"),)),
        Storage("safe", (pool("p", 5, backing_id="disks"),)),
        Storage("slow", (pool("p", 9),)),
    )
    found = decide([there], volume(6, name="a"), volume(9, "slow", name="b"), volume(3, "safe", name="c"))
    refusal = reason(found, 0)
    assert refusal.volumes == ("a", "c")
    assert refusal.message == (
        "volumes 'a' 6Gi + 'c' 3Gi, together 9Gi, do not fit: pool p has 10Gi left and, of the same disks, "
        "pool p has 5Gi left"
    )


def test_a_refusal_of_many_volumes_names_the_competing_ones() -> None:
    there = driver(Storage("fast", (pool("p", 9), pool("q", 1))), Storage("slow", (pool("p", 9),)))
    many = [volume(2, name=f"v{number}") for number in range(9)]
    refusal = reason(decide([there], *many[:5], volume(9, "slow", name="b"), *many[5:]), 2)
    assert refusal.volumes == tuple(each.name for each in many)
    assert refusal.message.endswith("+ 'v8' 2Gi, together 18Gi, do not fit: pool p has 9Gi left; pool q has 1Gi left")


def test_the_refusal_of_an_expired_pool_has_its_expiry() -> None:
    stale = driver(Storage("fast", (pool("p", 9, expires_at=NOW - datetime.timedelta(minutes=1)),)))
    assert (
        reason(decide([stale], volume(1)), 0).message == "storage class 'fast': pool p expired at 2026-11-21T11:59:00Z"
    )
