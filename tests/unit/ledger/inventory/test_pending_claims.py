# SPDX-License-Identifier: Apache-2.0
"""The claims that wait for their agents, with their sources, and the volumes that wait for a pool."""

import datetime

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import pending_claims
from tonnage.ledger.inventory.pending_claims import PendingClaim, SourceVolume
from tonnage.ledger.models import claim_verbs

EARLY, LATE = (datetime.datetime(2026, 1, day) for day in (1, 2))  # noqa: DTZ001  (UTC, as in the ledger)


@pytest.fixture
def records() -> Records:
    return Records()


def pending(records: Records, **selection: object) -> list[PendingClaim]:
    with records.database.reading() as session:
        return pending_claims.load(session, **selection)  # type: ignore[arg-type]


def test_claims_are_read_by_backend_or_by_id_oldest_first(records: Records) -> None:
    pools = [records.pool(name) for name in ("a@b#p", "a@c#p")]
    volumes = [records.volume(pool) for pool in (*pools, pools[0])]
    late, other, early = (
        records.claim(volume, pool, state="pending", created_at=moment)
        for volume, pool, moment in zip(volumes, (*pools, pools[0]), (LATE, LATE, EARLY), strict=True)
    )
    assert [claim.id for claim in pending(records)] == [early, *sorted((late, other))]
    backend_id = pending(records, ids=[late])[0].backend_id
    assert [claim.id for claim in pending(records, backend_id=backend_id)] == [early, late]
    assert [claim.id for claim in pending(records, ids=[other, "no claim"])] == [other]
    assert pending(records, ids=[]) == []


def test_a_claim_that_its_agent_has_ended_is_not_pending(records: Records) -> None:
    pool = records.pool()
    records.claim(records.volume(pool), pool, state="settling")
    assert pending(records) == []


def test_the_source_of_a_move_is_the_copy_in_the_old_pool(records: Records) -> None:
    old, new = records.pool("a@b#old"), records.pool("a@b#new")
    volume = records.volume(old, size_gb=3)
    records.claim(volume, new, verb=claim_verbs.MIGRATE, state="pending", source_pool_id=old, target_size_gb=5)
    [claim] = pending(records)
    assert claim.source == SourceVolume(volume_id=volume, pool_name="a@b#old", size_gb=3)


def test_the_source_of_a_clone_is_the_volume_that_is_copied(records: Records) -> None:
    pool = records.pool("a@b#p")
    source = records.volume(pool, size_gb=3)
    clone = records.volume(pool, size_gb=4, source_volume_id=source)
    records.claim(clone, pool, verb=claim_verbs.CREATE, state="pending", source_pool_id=pool, target_size_gb=4)
    [claim] = pending(records)
    assert claim.source == SourceVolume(volume_id=source, pool_name="a@b#p", size_gb=3)


def test_volumes_without_a_pool_wait_in_the_order_of_their_requests(records: Records) -> None:
    late = records.volume(None, status="creating", created_at=LATE)
    early = records.volume(None, status="creating", created_at=EARLY)
    records.volume(None, status="error")
    records.volume(records.pool(), status="creating")
    with records.database.reading() as session:
        assert pending_claims.unplaced_volumes(session) == [early, late]
