# SPDX-License-Identifier: Apache-2.0
"""Usage of projects: each volume counts once, with the size that it has or gets."""

import dataclasses
import datetime

import pytest

from tests.unit.ledger.catalog.catalogues import volume_type
from tests.unit.ledger.records import Records
from tonnage.ledger import models
from tonnage.ledger.locks import volume_usage
from tonnage.ledger.locks.volume_usage import Share
from tonnage.ledger.models import claim_verbs


def usage(records: Records, project_id: str = "demo", *, placed_only: bool = False) -> list[Share]:
    """Return the usage of a project, in the order of its fields."""
    shares = records.run(volume_usage.count, project_id, placed_only=placed_only)
    return sorted(shares, key=dataclasses.astuple)


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool()


def test_volumes_are_counted_by_user_type_and_state(records: Records, pool: int) -> None:
    gold = volume_type(records)
    records.volume(pool, size_gb=1)
    records.volume(pool, size_gb=2)
    records.volume(pool, size_gb=4, volume_type_id=gold)
    records.volume(pool, size_gb=8, user_id="another", status="creating")
    records.volume(pool, size_gb=16, project_id="other")
    assert usage(records) == [
        Share("another", "", new=True, reserved=True, volumes=1, gigabytes=8),
        Share("user", "", new=True, reserved=False, volumes=2, gigabytes=3),
        Share("user", gold, new=True, reserved=False, volumes=1, gigabytes=4),
    ]
    assert usage(records, "nobody") == []


def test_a_volume_without_a_pool_has_no_size_among_the_placed(records: Records) -> None:
    records.volume(size_gb=5, status="error")
    [share] = usage(records)
    assert (share.volumes, share.gigabytes) == (1, 5)
    [share] = usage(records, placed_only=True)
    assert (share.volumes, share.gigabytes) == (1, 0)
    records.rows("UPDATE volumes SET status = 'creating'")
    [share] = usage(records, placed_only=True)
    assert (share.volumes, share.gigabytes, share.reserved) == (1, 5, True)


def test_a_volume_that_grows_counts_with_its_new_size(records: Records, pool: int) -> None:
    volume_id = records.claimed_volume(pool, 3)
    records.claim(volume_id, pool, verb=claim_verbs.EXTEND, state="pending", size_gb=4, target_size_gb=7)
    assert sum(share.gigabytes for share in usage(records)) == 7
    assert sum(share.volumes for share in usage(records)) == 1
    records.rows("UPDATE claims SET state = 'released' WHERE verb = 'extend'")
    assert sum(share.gigabytes for share in usage(records)) == 3


def test_a_volume_that_is_managed_counts_with_its_listed_size(records: Records, pool: int) -> None:
    volume_id = records.volume(pool, size_gb=0, status="managing")
    records.claim(volume_id, pool, verb=claim_verbs.MANAGE, state="pending", size_gb=0, target_size_gb=6)
    assert sum(share.gigabytes for share in usage(records)) == 6


def test_a_volume_that_is_retyped_by_a_migration_counts_for_both_types(records: Records, pool: int) -> None:
    gold, silver = volume_type(records, "gold"), volume_type(records, "silver")
    volume_id = records.volume(pool, size_gb=3, volume_type_id=gold)
    records.claim(volume_id, pool, verb=claim_verbs.MIGRATE, state="pending", volume_type_id=silver)
    by_type = {share.volume_type_id: share for share in usage(records)}
    assert by_type == {
        gold: Share("user", gold, new=True, reserved=False, volumes=1, gigabytes=3),
        silver: Share("user", silver, new=False, reserved=True, volumes=1, gigabytes=3),
    }


def test_a_plain_migration_counts_once(records: Records, pool: int) -> None:
    gold = volume_type(records)
    volume_id = records.volume(pool, volume_type_id=gold)
    records.claim(volume_id, pool, verb=claim_verbs.MIGRATE, state="pending", volume_type_id=gold)
    records.claim(records.volume(pool), pool, verb=claim_verbs.MIGRATE, state="pending")
    assert sum(share.volumes for share in usage(records)) == 2


def test_sums_are_those_of_the_first_projects(records: Records) -> None:
    for project_id, size in (("b", 1), ("a", 2), ("a", 3), ("c", 4)):
        records.volume(project_id=project_id, size_gb=size)
    assert records.run(volume_usage.gigabytes_by_project, 2) == {"a": 5, "b": 1}


def test_only_the_counters_of_the_projects_are_marked_for_a_recount(records: Records) -> None:
    for project_id, user_id in (("a", ""), ("a", "user"), ("b", "")):
        counter = models.QuotaUsage(
            project_id=project_id, user_id=user_id, counted_at=datetime.datetime.fromisoformat("2026-01-01")
        )
        records.add(counter)

    def trusted() -> list[str]:
        rows = records.rows("SELECT project_id FROM quota_usages WHERE counted_at IS NOT NULL ORDER BY 1")
        return [project_id for (project_id,) in rows]

    records.run(volume_usage.mark_for_recount, ["nobody"])
    assert trusted() == ["a", "a", "b"]
    records.run(volume_usage.mark_owners_for_recount, [records.volume(project_id="a")])
    assert trusted() == ["b"]
    records.run(volume_usage.mark_all_for_recount)
    assert trusted() == []
