# SPDX-License-Identifier: Apache-2.0
"""The ends of claims: what counts as allocated and in flight afterwards, and which rows stay."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import orm

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import settlement
from tonnage.ledger.claims.settlement import EndedOperation, Result, Settlement
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import ledger_identity, pool_counters
from tonnage.ledger.models import claim_verbs


@pytest.fixture
def pool(records: Records) -> int:
    """A pool whose last report covers what ended before tick 10 of epoch 1."""
    return records.pool(covers_epoch=1, covers_tick=10)


def pending(records: Records, pool_id: int, verb: str = claim_verbs.CREATE, **values: object) -> str:
    """Add a volume with a pending claim of 3 GiB, and return the claim's id."""
    claim_id = records.claim(records.volume(pool_id), pool_id, verb=verb, state="pending", contained=False, **values)
    records.recount()
    return claim_id


def ending(claim_id: str, tick: int = 11, *, ok: bool = True, clean: bool = False, epoch: int = 1) -> EndedOperation:
    return EndedOperation(claim_id=claim_id, ok=ok, epoch=epoch, tick=tick, clean=clean)


def confirm(session: orm.Session, end: EndedOperation) -> Result:
    work = begun(session, end)
    work.confirm(work.claims[end.claim_id], end)
    return work.finish()


def release(session: orm.Session, end: EndedOperation, deleted: bool = False) -> Result:
    work = begun(session, end)
    work.release(work.claims[end.claim_id], end, deleted=deleted)
    return work.finish()


def begun(session: orm.Session, end: EndedOperation) -> Settlement:
    work = settlement.begin(session, [end.claim_id], max_attempts=3)
    assert work is not None
    return work


def claims(records: Records) -> list[tuple[object, ...]]:
    return records.rows("SELECT state, contained, end_epoch, end_tick FROM claims")


def counters(records: Records) -> tuple[object, ...]:
    return records.rows("SELECT allocated_capacity_gb, in_flight_gb, deleted_gb, moved_gb FROM pools ORDER BY id")[0]


@pytest.mark.parametrize(
    ("epoch", "tick", "contained"), [(1, 9, True), (1, 10, False), (1, 11, False), (0, 99, True), (2, 1, False)]
)
def test_a_claim_is_contained_once_a_report_covers_a_later_tick_or_epoch(
    records: Records, pool: int, epoch: int, tick: int, contained: bool
) -> None:
    result = records.run(confirm, ending(pending(records, pool), tick, epoch=epoch))
    assert claims(records) == [("confirmed", contained, epoch, tick)]
    assert counters(records) == (3, 0 if contained else 3, 0, 0)
    assert result.counters[pool].in_flight == (0 if contained else 3)


def test_a_released_claim_stays_in_flight_until_a_report_contains_it(records: Records, pool: int) -> None:
    records.run(release, ending(pending(records, pool), ok=False))
    assert claims(records) == [("released", False, 1, 11)]
    assert counters(records) == (0, 3, 0, 0)


def test_a_clean_failure_and_a_contained_end_leave_no_claim(records: Records, pool: int) -> None:
    records.run(release, ending(pending(records, pool), ok=False, clean=True))
    records.run(release, ending(pending(records, pool), tick=9, ok=False))
    assert claims(records) == []
    assert counters(records) == (0, 0, 0, 0)


def test_an_operation_that_succeeded_is_never_clean(records: Records, pool: int) -> None:
    records.run(release, ending(pending(records, pool), ok=True, clean=True), deleted=True)
    assert claims(records) == [("released", False, 1, 11)]


def test_deletions_and_moves_are_summed_apart(records: Records, pool: int) -> None:
    records.run(release, ending(pending(records, pool), ok=True), deleted=True)
    assert counters(records)[2:] == (3, 0)
    records.run(release, ending(pending(records, pool, claim_verbs.MIGRATE), ok=False))
    assert counters(records)[2:] == (3, -3)
    assert records.rows("SELECT allocated_capacity_gb FROM backends") == [(0,)]


def test_a_claim_that_is_not_pending_locks_nothing(records: Records, pool: int) -> None:
    claim_id = records.claim(records.volume(pool), pool)
    assert records.run(settlement.begin, [claim_id], 3) is None
    assert records.run(settlement.begin, ["unknown"], 3) is None


def test_a_ledger_whose_copy_is_used_takes_no_outcome(records: Records, pool: int) -> None:
    records.add(models.Rules(id=1, default_ratio="20", calculation="cinder", generation=4))
    assert records.run(settlement.begin, ["unknown"], 3) is None
    records.run(ledger_identity.set_copy, "postgresql://new")
    with pytest.raises(errors.LedgerMoved):
        records.run(settlement.begin, ["unknown"], 3)


def test_a_removal_locks_all_pools_with_copies(records: Records, pool: int) -> None:
    other = records.pool("host@b#other")
    claim_id = pending(records, pool, claim_verbs.DELETE)
    [(volume_id,)] = records.rows("SELECT volume_id FROM claims")
    records.claim(volume_id, other)

    def locked(session: orm.Session, claim_id: str) -> set[int]:
        return set(begun(session, ending(claim_id)).locked.backends)

    assert records.run(locked, claim_id) == {pool, other}
    assert records.run(locked, pending(records, pool)) == {pool}


def test_the_end_of_a_copy_releases_all_its_live_claims_in_that_pool(records: Records, pool: int) -> None:
    other = records.pool("host@b#other")
    claim_id = pending(records, pool, claim_verbs.DELETE, size_gb=0)
    [(volume_id,)] = records.rows("SELECT volume_id FROM claims")
    for pool_id in (pool, pool, other):
        records.claim(volume_id, pool_id)
    records.recount()

    def delete(session: orm.Session, end: EndedOperation) -> Result:
        work = begun(session, end)
        work.release_copy(work.claims[end.claim_id], end)
        return work.finish()

    records.run(delete, ending(claim_id, tick=9))
    assert records.rows("SELECT COUNT(*) FROM claims WHERE state = 'confirmed'") == [(1,)]
    sums = "SELECT name, allocated_capacity_gb, deleted_gb FROM pools ORDER BY id"
    assert records.rows(sums) == [("host@b#p", 0, 6), ("host@b#other", 3, 0)]


def test_a_managed_copy_is_external_capacity_no_longer(records: Records, pool: int) -> None:
    claim_id = pending(records, pool, claim_verbs.MANAGE, reference="theirs")
    records.rows("UPDATE pools SET external_gb = 10")
    records.discrepancy(pool, "theirs", listings.ORPHAN, 4.5)

    def take_over(session: orm.Session, end: EndedOperation) -> float | None:
        work = begun(session, end)
        return work.remove_external(work.claims[end.claim_id])

    assert records.run(take_over, ending(claim_id)) == 4.5
    assert records.rows("SELECT external_gb FROM pools") == [(5.5,)]
    assert records.run(take_over, ending(claim_id)) is None


def test_the_end_of_a_claim_on_a_shared_storage_is_ordered_among_its_looks(records: Records) -> None:
    records.add(models.Storage(name="array", stamp=7))
    pool = records.pool(storage_id="array", covers_epoch=1, covers_tick=10)
    other = records.pool("other@b#p", storage_id="array", covers_stamp=7)
    claim_id = pending(records, pool, contained_by_all=False)
    records.run(confirm, ending(claim_id, tick=9))
    assert records.rows("SELECT contained, end_stamp FROM claims") == [(True, 8)]
    shared = "SELECT shared_allocated_gb, shared_in_flight_gb FROM pools WHERE id = :id"
    assert records.rows(shared, id=other) == [(3, 3)]


ENDS = st.fixed_dictionaries(
    {
        "pool": st.integers(0, 3),
        "state": st.sampled_from([pool_counters.PENDING, pool_counters.CONFIRMED]),
        "earlier": st.none() | st.tuples(st.integers(1, 9), st.integers(1, 5)),
        "contained": st.booleans(),
        "how": st.sampled_from(["confirm", "release", "clean", "delete", "leave"]),
        "tick": st.integers(1, 12),
    }
)
POOLS = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 12), st.integers(0, 6)), min_size=4, max_size=4)


@settings(max_examples=40)
@given(pools=POOLS, ends=st.lists(ENDS, min_size=1, max_size=4), stamp=st.integers(0, 6))
def test_a_settlement_changes_the_counters_as_a_recount_would(
    pools: list[tuple[bool, bool, int, int]], ends: list[dict[str, Any]], stamp: int
) -> None:
    """Pools of two backends, three of them on one storage; claims in any state end in any way."""
    records = Records()
    records.add(models.Storage(name="array", stamp=stamp))
    ids = [
        records.pool(
            f"host@{'ab'[number % 2]}#{number}",
            storage_id="array" if number < 3 else None,
            storage_free_gb=50.0 if is_part else None,
            present=present,
            covers_tick=tick,
            covers_stamp=covered,
        )
        for number, (is_part, present, tick, covered) in enumerate(pools)
    ]
    claim_ids = []
    for number, end in enumerate(ends):
        shares, (tick, its_stamp) = end["pool"] < 3, end["earlier"] or (None, None)
        volume_id, ended = records.volume(ids[end["pool"]]), end["state"] == pool_counters.CONFIRMED
        claim_ids.append(
            records.claim(
                volume_id,
                ids[end["pool"]],
                state=end["state"],
                size_gb=2**number,
                physical_gb=number,
                contained=end["contained"] and ended,
                contained_by_all=not shares,
                end_epoch=1 if ended and tick else None,
                end_tick=tick if ended else None,
                end_stamp=its_stamp if ended and shares else None,
            )
        )
    records.recount()

    def settle(session: orm.Session) -> Result:
        work = settlement.lock(session, ids, [], claim_ids, 3)
        for claim_id, end in zip(claim_ids, ends, strict=True):
            # The recount may have dropped it.
            claim, outcome = work.claims[claim_id], ending(claim_id, end["tick"], ok=end["how"] == "confirm")
            if end["how"] == "confirm" and claim.state == pool_counters.PENDING:
                work.confirm(claim, outcome)
            elif end["how"] != "leave":
                work.release(claim, replace(outcome, clean=end["how"] == "clean"), deleted=end["how"] == "delete")
        return work.finish()

    def recount(session: orm.Session) -> Mapping[int, pool_counters.Counters]:
        pool_counters.recount_in_flight(session, ids)
        pool_counters.recount_shared(session, ["array"])
        return pool_counters.read(session, ids)

    rows = "SELECT id, state, contained, contained_by_all FROM claims ORDER BY id"
    result, settled = records.run(settle), records.rows(rows)
    assert records.run(pool_counters.read, ids) == result.counters
    assert records.run(recount) == result.counters
    assert records.rows(rows) == settled


def test_a_purge_is_ordered_in_the_pool_with_the_copy(records: Records, pool: int) -> None:
    other = records.pool("elsewhere@b#p")
    claim_id = pending(records, pool, claim_verbs.MIGRATE)

    def order(session: orm.Session, end: EndedOperation) -> Result:
        work = settlement.lock(session, [pool, other], [], [end.claim_id], 3)
        work.purge(work.claims[end.claim_id], other)
        return work.finish()

    result = records.run(order, ending(claim_id))
    purges = records.rows("SELECT id, pool_id, size_gb, state FROM claims WHERE verb = 'purge'")
    assert purges == [(*result.ordered, other, 0, pool_counters.PENDING)]


def test_an_empty_result_has_no_counters_unless_a_commit_was_lost(records: Records, pool: int) -> None:
    assert records.run(settlement.empty_result) == Result({}, (), (), ())
