# SPDX-License-Identifier: Apache-2.0
"""Orphans are listed, and purged only where nothing else needs the copy."""

from typing import Any

import pytest

from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger.inventory.listings import LOST, ORPHAN
from tonnage.ledger.repair import orphans
from tonnage.ledger.repair.orphans import UnknownPool

POOL = "host@b#p"


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool(POOL)


def purge(records: Records, name: str, pool: str = POOL, **values: Any) -> str:
    return records.database.run(orphans.purge, pool, name, **values)


def test_orphans_are_listed_unless_a_claim_names_them_by_now(records: Records, pool: int) -> None:
    records.discrepancy(pool, "theirs", ORPHAN, 4.5)
    records.discrepancy(pool, "missing", LOST)
    records.discrepancy(pool, records.claimed_volume(pool), ORPHAN)
    [orphan] = records.run(orphans.load)
    assert (orphan.pool, orphan.name, orphan.size_gb) == (POOL, "theirs", 4.5)


def test_a_purge_is_a_pending_claim_without_capacity(records: Records, pool: int) -> None:
    records.discrepancy(pool, "theirs", ORPHAN)
    claim_id = purge(records, "theirs")
    assert records.rows("SELECT id, verb, state, size_gb, volume_id FROM claims") == [
        (claim_id, "purge", "pending", 0, "theirs")
    ]
    assert records.run(orphans.load) == []
    with pytest.raises(errors.NotFound, match="is no orphan"):
        purge(records, "theirs")


def test_the_copy_of_a_leaked_claim_can_be_purged(records: Records, pool: int) -> None:
    volume_id = new_id()
    records.claim(volume_id, pool)
    purge(records, volume_id)
    assert records.rows("SELECT verb FROM claims ORDER BY verb") == [("create",), ("purge",)]


def test_only_known_orphans_of_known_pools_are_purged(records: Records, pool: int) -> None:
    records.discrepancy(pool, "missing", LOST)
    with pytest.raises(errors.NotFound, match=r"no report has named it; did you mean host@b#p\?"):
        purge(records, "theirs", pool="p")
    for name in ("unknown", "missing"):
        with pytest.raises(errors.NotFound, match="is no orphan"):
            purge(records, name)


def test_a_copy_with_the_id_of_a_volume_is_kept(records: Records, pool: int) -> None:
    here, elsewhere = records.claimed_volume(pool), records.claimed_volume(records.pool("host@b#other"))
    for volume_id in (here, elsewhere):
        records.discrepancy(pool, volume_id, ORPHAN)
    with pytest.raises(errors.Conflict, match="delete the volume"):
        purge(records, here)
    with pytest.raises(errors.Conflict, match="which the ledger has in host@b#other; this may be its only copy"):
        purge(records, elsewhere, force=True)


@pytest.mark.parametrize(
    "values", [{"verb": "delete"}, {"verb": "manage", "reference": "theirs", "volume_id": new_id()}]
)
def test_a_copy_that_something_is_under_way_for_is_kept(records: Records, pool: int, values: dict[str, str]) -> None:
    records.discrepancy(pool, "theirs", ORPHAN)
    records.claim(values.pop("volume_id", "theirs"), pool, state="pending", **values)
    with pytest.raises(errors.Conflict, match="something is under way for it"):
        purge(records, "theirs")


def test_a_leaked_claim_is_not_purged_before_its_operation_has_ended(records: Records, pool: int) -> None:
    volume_id = new_id()
    records.claim(volume_id, pool, state="pending")
    with pytest.raises(errors.Conflict, match="wait until it has ended"):
        purge(records, volume_id)


def test_a_ledger_that_knows_too_few_volumes_may_be_the_wrong_one(records: Records, pool: int) -> None:
    records.claimed_volume(pool)
    names = [new_id() for _ in range(5)]
    for name in names[:4]:
        records.discrepancy(pool, name, ORPHAN)
    assert records.run(orphans.unknown_pools) == {}
    records.discrepancy(pool, names[4], ORPHAN)
    assert records.run(orphans.unknown_pools) == {pool: UnknownPool(orphans=5, volumes=1)}
    with pytest.raises(errors.Conflict, match=r"knows 1 volume\(s\) in host@b#p, and does not know 5"):
        purge(records, names[0])
    purge(records, names[0], force=True)


def test_orphans_with_other_names_are_not_lost_volumes(records: Records, pool: int) -> None:
    for number in range(9):
        records.discrepancy(pool, f"snapshot-{number}", ORPHAN)
    assert records.run(orphans.unknown_pools) == {}


def test_a_name_that_is_too_long_for_a_claim_is_left_to_the_storage(records: Records, pool: int) -> None:
    name = "x" * 255
    records.discrepancy(pool, name, ORPHAN)
    with pytest.raises(errors.InvalidInput, match="delete it with the storage's own tools"):
        purge(records, name)
