# SPDX-License-Identifier: Apache-2.0
"""Volumes and claims that contradict each other are found with their reason."""

from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger.inventory.listings import LOST, ORPHAN
from tonnage.ledger.models import claim_verbs
from tonnage.ledger.repair import claim_check
from tonnage.ledger.repair.claim_check import Leak, MisplacedVolume, OddVolume


def misplaced(session: orm.Session, volume_id: str | None = None) -> list[MisplacedVolume]:
    return list(claim_check.misplaced(session, volume_id))


def odd_volumes(session: orm.Session, volume_ids: list[str] | None = None) -> list[OddVolume]:
    return list(claim_check.odd_volumes(session, volume_ids))


def leaks(session: orm.Session, pool_ids: list[int] | None = None) -> list[Leak]:
    return list(claim_check.leaks(session, pool_ids))


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool()


@pytest.fixture
def other(records: Records) -> int:
    return records.pool("host@b#other")


def moved_by_hand(records: Records, pool: int, *targets: int, listed_gb: float = 3.0, **values: Any) -> str:
    """Add a volume that the listings show in the target pools only."""
    volume_id = records.claimed_volume(pool, **values)
    records.discrepancy(pool, volume_id, LOST)
    for target in targets:
        records.discrepancy(target, volume_id, ORPHAN, listed_gb)
    return volume_id


def test_a_volume_in_one_other_pool_can_be_adopted_there(records: Records, pool: int, other: int) -> None:
    volume_id = moved_by_hand(records, pool, other)
    [found] = records.run(misplaced)
    assert found == MisplacedVolume(
        id=volume_id, pool_id=pool, listed_in=[other], size_gb=3, listed_gb=3.0, target_id=other
    )
    assert records.run(misplaced, new_id()) == []


def test_a_volume_that_is_only_lost_or_only_copied_is_not_misplaced(records: Records, pool: int, other: int) -> None:
    moved_by_hand(records, pool)
    records.discrepancy(other, records.claimed_volume(pool), ORPHAN)
    assert records.run(misplaced) == []


def test_two_copies_another_size_or_a_pending_operation_need_a_decision(
    records: Records, pool: int, other: int
) -> None:
    third = records.pool("host@b#third")
    twice = moved_by_hand(records, pool, other, third)
    moved_by_hand(records, pool, other, listed_gb=4.0)
    records.claim(moved_by_hand(records, pool, other), pool, state="pending", verb=claim_verbs.EXTEND)
    rows = records.run(misplaced)
    assert [row.target_id for row in rows] == [None] * 3
    assert {row.id: row.listed_in for row in rows}[twice] == [other, third]


def test_a_volume_leaves_its_group_for_no_other_backend(records: Records, pool: int, other: int) -> None:
    elsewhere = records.pool("host@elsewhere#p")
    moved_by_hand(records, pool, elsewhere, group_id=new_id())
    [row] = records.run(misplaced)
    assert row.target_id is None
    moved_by_hand(records, pool, other, group_id=new_id())
    assert {row.target_id for row in records.run(misplaced)} == {None, other}


def test_a_volume_with_its_claims_is_not_odd(records: Records, pool: int) -> None:
    records.claimed_volume(pool)
    grown = records.claimed_volume(pool, size_gb=5)
    records.rows("UPDATE claims SET size_gb = 3 WHERE volume_id = :id", id=grown)
    records.claim(grown, pool, verb=claim_verbs.EXTEND, size_gb=2)
    assert records.run(odd_volumes) == []


def test_a_size_that_the_claims_contradict_is_odd(records: Records, pool: int) -> None:
    volume_id = records.claimed_volume(pool)
    records.rows("UPDATE volumes SET size_gb = 9")
    [row] = records.run(odd_volumes)
    assert (row.id, row.size_gb, row.claimed_gb, row.counted, row.settled) == (volume_id, 9, 3, True, True)
    assert records.run(odd_volumes, [new_id()]) == []


def test_a_pending_growth_and_an_unknown_size_are_not_odd(records: Records, pool: int) -> None:
    growing = records.claimed_volume(pool, status="extending")
    records.claim(growing, pool, verb=claim_verbs.EXTEND, size_gb=2, state="pending")
    managed = records.volume(pool, size_gb=1, status="creating")
    records.claim(managed, pool, verb=claim_verbs.MANAGE, size_gb=8, state="pending")
    assert records.run(odd_volumes) == []


def test_a_volume_that_no_claim_counts_is_odd(records: Records, pool: int) -> None:
    records.volume(pool)
    [row] = records.run(odd_volumes)
    assert (row.counted, row.claimed_gb, row.unexplained) == (False, 3, "")


@pytest.mark.parametrize(
    ("status", "verb", "reason"),
    [
        ("creating", claim_verbs.CREATE, "nothing is making it"),
        ("extending", claim_verbs.EXTEND, "nothing is extending it"),
        ("deleting", claim_verbs.DELETE, "nothing is deleting it"),
        ("maintenance", claim_verbs.MIGRATE, "nothing is moving it"),
        ("retyping", claim_verbs.MIGRATE, "nothing is moving it"),
    ],
)
def test_a_status_needs_a_pending_operation(
    records: Records, pool: int, other: int, status: str, verb: str, reason: str
) -> None:
    volume_id = records.claimed_volume(pool, status=status)
    assert [row.unexplained for row in records.run(odd_volumes)] == [reason]
    target = other if verb == claim_verbs.MIGRATE else pool
    size = 0 if verb in (claim_verbs.DELETE, claim_verbs.CREATE) else 2
    records.claim(volume_id, target, verb=verb, state="pending", size_gb=size)
    assert records.run(odd_volumes) == []


def test_an_available_volume_is_in_a_pool(records: Records) -> None:
    records.volume()
    records.volume(status="creating")
    assert [row.unexplained for row in records.run(odd_volumes)] == ["is in no pool"]


def test_a_claim_leaks_if_its_volume_is_elsewhere_or_gone(records: Records, pool: int, other: int) -> None:
    claims = {
        records.claim(new_id(), pool): "does not exist",
        records.claim(records.volume(), pool): "is in no pool",
        records.claim(records.volume(other), pool): "is in another pool",
    }
    records.claim(records.volume(pool), pool)
    assert {leak.claim_id: leak.why for leak in records.run(leaks)} == claims
    assert records.run(leaks, [other]) == []


def test_a_copy_in_the_making_or_about_to_end_is_no_leak(records: Records, pool: int, other: int) -> None:
    moving = records.claimed_volume(pool, status="maintenance")
    records.claim(moving, other, verb=claim_verbs.MIGRATE, state="pending")
    leaving = new_id()
    records.claim(leaving, pool)
    records.claim(leaving, pool, verb=claim_verbs.PURGE, state="pending", size_gb=0)
    records.claim(new_id(), pool, state="released")
    assert records.run(leaks) == []


def test_volumes_of_observed_backends_are_in_another_system(records: Records) -> None:
    records.backend("real@b", observed=True)
    records.claim(new_id(), records.pool("real@b#p"))
    assert records.run(leaks) == []


def test_live_claims_are_summed_where_they_are_asked_for(records: Records, pool: int, other: int) -> None:
    volume_id = records.claimed_volume(pool)
    records.claim(volume_id, pool, verb=claim_verbs.EXTEND, size_gb=2)
    records.claim(volume_id, other, verb=claim_verbs.DELETE, size_gb=7)
    records.claim(volume_id, other, state="released", size_gb=7)
    assert records.run(claim_check.live_sizes, [(pool, volume_id), (other, volume_id)]) == {(pool, volume_id): 5}
    assert records.run(claim_check.live_sizes, [(other, volume_id)]) == {}


def test_a_copy_is_named_by_a_claim_or_while_it_is_managed(records: Records, pool: int) -> None:
    volume_id = records.claimed_volume(pool)
    records.claim(records.volume(pool), pool, verb=claim_verbs.MANAGE, state="pending", reference="theirs")
    records.claim(records.volume(pool), pool, verb=claim_verbs.MANAGE, reference="done")
    locations = [(pool, volume_id), (pool, "theirs"), (pool, "done"), (pool, "unknown")]
    assert records.run(claim_check.named, locations) == {(pool, volume_id), (pool, "theirs")}
    assert records.run(claim_check.named, []) == set()
