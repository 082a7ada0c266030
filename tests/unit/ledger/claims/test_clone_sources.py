# SPDX-License-Identifier: Apache-2.0
"""Clone sources and hint targets stay as the decision read them until the transaction ends."""

import pytest

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger.claims import clone_sources


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool()


def test_a_volume_is_being_cloned_until_the_clone_is_made(records: Records, pool: int) -> None:
    source, idle = records.volume(pool), records.volume(pool)
    clone = records.volume(None, status="creating", source_volume_id=source)
    records.volume(pool, source_volume_id=idle)
    assert records.run(clone_sources.being_cloned, [source, idle]) == {source: clone}
    assert records.run(clone_sources.being_cloned, []) == {}
    with pytest.raises(errors.Conflict, match=f"{source} is being cloned"):
        records.run(clone_sources.require_not_cloning, [idle, source])
    records.run(clone_sources.require_not_cloning, [idle])
    records.run(clone_sources.require_not_cloning, [])


@pytest.mark.parametrize("status", ["available", "in-use"])
def test_a_source_at_rest_that_is_as_it_was_read_can_be_cloned(records: Records, pool: int, status: str) -> None:
    source = records.volume(pool, status=status, size_gb=5)
    records.run(clone_sources.lock, {source: (5, pool)}, {}, also_changed=[source])


@pytest.mark.parametrize("values", [{"size_gb": 6}, {"pool_id": None}, {"status": "extending"}])
def test_a_source_that_has_changed_is_refused(records: Records, pool: int, values: dict[str, str | int | None]) -> None:
    source = records.volume(**{"pool_id": pool, "size_gb": 5} | values)
    with pytest.raises(errors.Conflict, match=f"volume {source} was changed by another request"):
        records.run(clone_sources.lock, {source: (5, pool)}, {}, also_changed=[])


def test_a_source_that_the_same_batch_changes_is_refused(records: Records, pool: int) -> None:
    source = records.volume(pool, size_gb=5)
    with pytest.raises(errors.Conflict):
        records.run(clone_sources.lock, {source: (5, pool)}, {}, also_changed=[], changed=[source])


def test_a_hint_target_keeps_its_pool_and_may_change_otherwise(records: Records, pool: int) -> None:
    target, unplaced = records.volume(pool, status="extending"), records.volume()
    records.run(clone_sources.lock, {}, {target: pool, unplaced: None}, also_changed=[])
    for pool_seen in (None, pool + 1):
        with pytest.raises(errors.Conflict, match=f"volume {target} was given another place"):
            records.run(clone_sources.lock, {}, {target: pool_seen}, also_changed=[])


def test_a_target_that_is_gone_counts_as_one_without_a_pool(records: Records, pool: int) -> None:
    records.run(clone_sources.lock, {}, {"gone": None}, also_changed=[])
    with pytest.raises(errors.Conflict):
        records.run(clone_sources.lock, {}, {"gone": pool}, also_changed=[])
