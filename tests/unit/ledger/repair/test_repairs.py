# SPDX-License-Identifier: Apache-2.0
"""A repair makes counters agree with claims, in the ledger alone, and leaves what only the storage can tell."""

import pytest

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger.inventory.listings import LOST, ORPHAN, SIZE
from tonnage.ledger.repair import repairs
from tonnage.ledger.repair.consistency_check import Cause
from tonnage.ledger.repair.repairs import Repaired


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool()


def repaired(records: Records) -> Repaired:
    planned = repairs.plan(records.database)
    done = repairs.repair(records.database)
    assert {(change.where, change.subject) for change in planned.changes} <= {
        (change.where, change.subject) for change in done.changes
    }
    assert repairs.repair(records.database).changes == [], "a second repair changes nothing"
    return done


def summary(done: Repaired) -> list[tuple[Cause, str, float, float]]:
    return [(change.cause, change.subject, change.before_gb, change.after_gb) for change in done.changes]


def test_a_consistent_ledger_stays_as_it_is(records: Records, pool: int) -> None:
    records.claimed_volume(pool)
    records.recount()
    assert summary(repaired(records)) == []
    assert records.rows("SELECT generation FROM pools") == [(0,)]


def test_counters_follow_the_claims_and_outdate_decisions(records: Records, pool: int) -> None:
    records.claim(records.claimed_volume(pool), pool, contained=False, size_gb=2, physical_gb=1, verb="extend")
    records.rows("UPDATE volumes SET size_gb = 5")
    assert summary(repaired(records)) == [
        (Cause.COUNTER, "allocated_capacity_gb", 0, 5),
        (Cause.COUNTER, "in_flight_gb", 0, 2),
        (Cause.COUNTER, "in_flight_physical_gb", 0, 1),
        (Cause.BACKEND_COUNTER, "allocated_capacity_gb", 0, 5),
    ]
    assert records.rows("SELECT generation FROM pools") == [(1,)]


def test_a_backend_without_pools_counts_nothing(records: Records) -> None:
    records.backend(allocated_capacity_gb=7)
    assert summary(repaired(records)) == [(Cause.BACKEND_COUNTER, "allocated_capacity_gb", 7, 0)]


def test_shared_counters_of_a_pool_that_shares_nothing_are_zero(records: Records) -> None:
    records.pool(shared_allocated_gb=4)
    assert summary(repaired(records)) == [(Cause.SHARED_COUNTER, "shared_allocated_gb", 4, 0)]


def test_a_leaked_claim_is_dropped_only_if_the_storage_has_no_copy(records: Records, pool: int) -> None:
    gone, unseen = new_id(), new_id()
    for volume_id in (gone, unseen):
        records.claim(volume_id, pool)
    records.discrepancy(pool, gone, LOST)
    records.recount()
    changes = summary(repairs.repair(records.database))
    assert (Cause.LEAKED, gone, 3, 0) in changes
    assert records.rows("SELECT volume_id FROM claims") == [(unseen,)]
    assert records.rows("SELECT allocated_capacity_gb FROM pools") == [(3,)]


def test_an_orphan_is_left_to_an_operator(records: Records, pool: int) -> None:
    records.discrepancy(pool, "theirs", ORPHAN)
    assert summary(repaired(records)) == []
    assert records.rows("SELECT volume_id FROM discrepancies") == [("theirs",)]


def test_a_volume_that_has_grown_on_the_storage_counts_with_its_size(records: Records, pool: int) -> None:
    grown = records.claimed_volume(pool, size_gb=2, status="error_extending")
    records.recount()
    records.discrepancy(pool, grown, SIZE, listed_gb=3.5, ledger_gb=2)
    assert summary(repaired(records)) == [
        (Cause.SIZE, grown, 2, 4),
        (Cause.COUNTER, "allocated_capacity_gb", 2, 4),
        (Cause.BACKEND_COUNTER, "allocated_capacity_gb", 2, 4),
    ]
    assert records.rows("SELECT size_gb, status FROM volumes") == [(4, "error_extending")]
    assert records.rows("SELECT SUM(size_gb) FROM claims WHERE state = 'confirmed' AND contained") == [(4,)]
    assert records.rows("SELECT volume_id FROM discrepancies") == []


@pytest.mark.parametrize(
    ("listed_gb", "ledger_gb", "claim"),
    [
        # Giving up capacity is the owner's decision.
        (1, 2, None),
        # No volume can have such a size.
        (1e12, 2, None),
        # The claims have changed since the listing.
        (4, 1, None),
        (4, 2, {"verb": "extend", "state": "pending", "size_gb": 2, "target_size_gb": 4, "contained": False}),
        (4, 2, {"verb": "delete", "state": "pending", "size_gb": 0}),
    ],
)
def test_another_size_on_the_storage_is_left_if_the_claims_may_be_right(
    records: Records, pool: int, listed_gb: float, ledger_gb: float, claim: dict[str, object] | None
) -> None:
    volume = records.claimed_volume(pool, size_gb=2)
    if claim is not None:
        records.claim(volume, pool, **claim)
    records.recount()
    records.discrepancy(pool, volume, SIZE, listed_gb=listed_gb, ledger_gb=ledger_gb)
    assert summary(repaired(records)) == []
    assert records.rows("SELECT size_gb FROM volumes") == [(2,)]


def test_many_pools_are_repaired_in_several_transactions(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "_POOLS_PER_TRANSACTION", 2)
    for number in range(5):
        records.pool(f"host@b#p{number}", in_flight_gb=1)
    assert len(repaired(records).changes) == 5
    assert records.rows("SELECT SUM(in_flight_gb) FROM pools") == [(0,)]
