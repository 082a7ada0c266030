# SPDX-License-Identifier: Apache-2.0
"""Sums of claims, compared with the claims one by one."""

import random

import pytest

from tests.unit.extensions.kubernetes.fit.decisions import GI, driver, pool
from tonnage.extensions.kubernetes.capacity import node_packing, pool_columns
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, ClaimSums
from tonnage.extensions.kubernetes.capacity.driver_storage import Storage
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns


def free(columns: PoolColumns, claims: list[ActiveClaim]) -> list[int]:
    """Return what claims leave of each group, with the claims subtracted one by one."""
    pools = columns.packing_pools(0, ClaimSums())
    for claim in claims:
        pools = columns.subtract(pools, [(claim, 1)])
    return pools.group_free.tolist()


def random_columns(lots: random.Random) -> PoolColumns:
    """Return pools, some on the same disks: plain and mirrored ones, without figures, expired, and full ones."""
    pools = []
    for number in range(6):
        capacity = lots.choice([None, 0, 7 * GI, 10 * GI, 20 * GI, 20 * GI + 1, lots.randint(1, 2**62)])
        backing = lots.choice([None, "disks", "others"])
        expires_at = lots.choice([None, None, pool_columns._EPOCH])
        pools.append(
            pool(f"p{number}", None if capacity is None else capacity / GI, backing_id=backing, expires_at=expires_at)
        )
    return pool_columns.from_driver(driver(Storage("fast", tuple(pools))))


def random_claim(lots: random.Random) -> ActiveClaim:
    size = lots.choice([0, 1, GI, 3 * GI + 1, 2**61]) if lots.random() < 0.05 else lots.randint(0, 3 * GI)
    backing = lots.choice([None, "disks", "gone"])
    return ActiveClaim(("fast", f"p{lots.randrange(8)}"), size, backing, lots.choice([None, 5 * GI]))


@pytest.mark.parametrize("seed", range(40))
def test_sums_are_those_of_the_claims_one_by_one(seed: int) -> None:
    """While claims come and go, and pools change, as they do in a process that runs."""
    lots = random.Random(seed)
    columns, sums = random_columns(lots), ClaimSums()
    claims: list[ActiveClaim] = []
    for _ in range(60):
        if claims and lots.random() < 0.4:
            sums.remove(claims.pop(lots.randrange(len(claims))))
        else:
            claims.append(random_claim(lots))
            sums.add(claims[-1])
        if lots.random() < 0.1:
            columns = random_columns(lots)
        expected = [max(left, -node_packing.MAX_CAPACITY) for left in free(columns, claims)]
        assert columns.packing_pools(0, sums).group_free.tolist() == expected


def test_claims_that_are_removed_leave_nothing() -> None:
    claims = [ActiveClaim(("fast", "p"), 3 * GI), ActiveClaim(("fast", "p"), 3 * GI), ActiveClaim(("gone", "x"), GI)]
    sums = ClaimSums(claims)
    columns = pool_columns.from_driver(driver(Storage("fast", (pool("p", 9),))))
    assert columns.packing_pools(0, sums).group_free.tolist() == [3 * GI]
    assert sums.on_removed_pools() == [("gone", "x")]
    for claim in claims:
        sums.remove(claim)
    assert columns.packing_pools(0, sums).group_free.tolist() == [9 * GI]
    assert (sums.total, list(sums.on()), sums.on_removed_pools()) == (0, [], [])


def test_sums_that_columns_do_not_take_are_subtracted_one_by_one() -> None:
    sums = ClaimSums()
    columns = pool_columns.from_driver(driver(Storage("fast", (pool("p", 9),))))
    huge = ActiveClaim(("fast", "p"), 2**62)
    for claim in (huge, ActiveClaim(("fast", "p"), GI), huge):
        sums.add(claim)
    assert sums.by_row(columns.row_of) is None
    assert columns.packing_pools(0, sums).group_free.tolist() == [-node_packing.MAX_CAPACITY]
    sums.remove(huge)
    sums.remove(huge)
    assert columns.packing_pools(0, sums).group_free.tolist() == [8 * GI]
