# SPDX-License-Identifier: Apache-2.0
"""Volumes: lists of them, their descriptive fields, and statuses that administrators set."""

from typing import Any

import pytest

from tests.unit.ledger.catalog.catalogues import row, volume_type
from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger.catalog import volumes
from tonnage.ledger.catalog.volumes import Changes, Query, Retyped
from tonnage.ledger.claims.bookings import SeenVolume
from tonnage.ledger.db.paging import Order, Page
from tonnage.ledger.models import claim_verbs

ALL = Query(project_id=None)


def ids(records: Records, **filters: str) -> set[str]:
    matches = records.run(volumes.page, Query(project_id=None, filters=filters), Page(100))
    assert records.run(volumes.count, Query(project_id=None, filters=filters)) == len(matches)
    return {volume.id for volume in matches}


def test_a_volume_has_its_type_and_pool_after_the_transaction(records: Records) -> None:
    volume_id = records.volume(records.pool("host@b#p"), volume_type_id=volume_type(records))
    volume = records.run(volumes.get, volume_id.upper(), "demo")
    assert (volume.volume_type, volume.pool) == ("gold", "host@b#p")


def test_a_volume_of_another_project_or_a_name_is_not_found(records: Records) -> None:
    volume_id = records.volume(name="data")
    for name, project in ((volume_id, "other"), ("data", "demo"), (new_id(), None)):
        with pytest.raises(errors.NotFound, match=f"Volume {name} could not be found"):
            records.run(volumes.get, name, project)


def test_volumes_are_loaded_in_the_order_of_the_ids_without_missing_ones(records: Records) -> None:
    first, second = records.volume(), records.volume()
    loaded = records.run(volumes.load, [second, new_id(), first])
    assert [volume.id for volume in loaded] == [second, first]


def test_a_page_begins_after_its_marker(records: Records) -> None:
    by_size = {size: records.volume(size_gb=size) for size in (3, 1, 2)}
    order = (Order("size", descending=True),)
    for marker in (by_size[3], by_size[3].upper()):
        page = records.run(volumes.page, ALL, Page(1, marker=marker, order=order))
        assert [volume.id for volume in page] == [by_size[2]]
    with pytest.raises(errors.NotFound):
        records.run(volumes.page, Query(project_id="other"), Page(1, marker=by_size[3]))


def test_volumes_are_filtered_by_host_backend_and_pool(records: Records) -> None:
    pools = {name: records.pool(name) for name in ("host@b#p", "host@b#q", "host@c#p", "host2@b#p")}
    placed = {name: records.volume(pool) for name, pool in pools.items()}
    records.volume()
    assert ids(records, host="host") == {placed["host@b#p"], placed["host@b#q"], placed["host@c#p"]}
    assert ids(records, host="host@b") == {placed["host@b#p"], placed["host@b#q"]}
    assert ids(records, host="host@b#p") == {placed["host@b#p"]}
    assert ids(records, host="ho%") == set()


def test_volumes_are_filtered_by_parts_of_names_and_by_metadata(records: Records) -> None:
    data = records.volume(name="data_1", user_metadata={"tier": "a", "use": "db"})
    records.volume(name="data11", user_metadata={"tier": "b"})
    assert ids(records, **{"name~": "a_1"}) == {data}
    assert ids(records, metadata="{'tier': 'a', 'use': 'db'}") == {data}
    assert ids(records, metadata="{'tier': 'b', 'use': 'db'}") == set()


def test_no_volume_is_bootable(records: Records) -> None:
    volume_id = records.volume()
    assert ids(records, bootable="False") == ids(records, bootable="0") == {volume_id}
    assert ids(records, bootable="true") == set()


def test_totals_are_those_of_the_matching_volumes(records: Records) -> None:
    records.volume(size_gb=3)
    records.volume(size_gb=4)
    records.volume(size_gb=5, project_id="other")
    assert records.run(volumes.totals, Query(project_id="demo")) == (2, 7)
    assert records.run(volumes.totals, Query(project_id="nobody")) == (0, 0)


def test_metadata_of_all_volumes_is_gathered_by_key(records: Records) -> None:
    for metadata in ({"use": "web"}, {"use": "db", "tier": "a"}, {"use": "web"}, {}):
        records.volume(user_metadata=metadata)
    assert records.run(volumes.all_metadata, ALL) == {"tier": ["a"], "use": ["db", "web"]}


def test_volumes_are_counted_by_project_and_by_pool(records: Records) -> None:
    pool, other_pool = records.pool("host@b#p"), records.pool("host@c#p")
    for project_id, pool_id, size in (("b", pool, 1), ("a", pool, 2), ("a", pool, 3), ("a", other_pool, 9)):
        records.volume(pool_id, project_id=project_id, size_gb=size)
    records.volume()
    assert records.run(volumes.per_project, "host@b") == [("a", 2, 5), ("b", 1, 1)]
    assert records.run(volumes.per_pool) == {pool: 3, other_pool: 1}


def test_an_update_changes_the_named_fields_alone(records: Records) -> None:
    volume_id = records.volume(name="old", description="text", user_metadata={"key": "value"})
    volume = records.run(volumes.update, volume_id, "demo", Changes(name="new"))
    assert (volume.name, volume.description, volume.user_metadata) == ("new", "text", {"key": "value"})
    assert volume.updated_at is not None
    volume = records.run(volumes.update, volume_id, "demo", Changes(description="", metadata={}))
    assert (volume.name, volume.description, volume.user_metadata) == ("new", "", {})


def test_metadata_is_merged_or_replaced(records: Records) -> None:
    volume_id = records.volume(user_metadata={"a": "1", "b": "2"})
    merged = records.run(volumes.set_metadata, volume_id, "demo", {"b": "3"}, replace=False)
    assert merged == row(records, volume_id).user_metadata == {"a": "1", "b": "3"}
    assert records.run(volumes.set_metadata, volume_id, "demo", {"c": "4"}, replace=True) == {"c": "4"}
    records.run(volumes.unset_metadata, volume_id, "demo", "c")
    assert row(records, volume_id).user_metadata == {}
    with pytest.raises(errors.NotFound, match="has no metadata with key c"):
        records.run(volumes.unset_metadata, volume_id, "demo", "c")


def test_metadata_does_not_grow_beyond_its_limit(records: Records) -> None:
    volume_id = records.volume(user_metadata={"key": "x" * (volumes.MAX_METADATA - 5)})
    records.run(volumes.set_metadata, volume_id, "demo", {"a": "b"}, replace=False)
    with pytest.raises(errors.InvalidInput, match=f"would have {volumes.MAX_METADATA + 1} characters"):
        records.run(volumes.set_metadata, volume_id, "demo", {"c": ""}, replace=False)


def test_a_status_is_set_only_where_the_ledger_permits_it(records: Records) -> None:
    pool = records.pool()
    volume_id = records.claimed_volume(pool)
    records.run(volumes.reset_status, volume_id, "error")
    assert (row(records, volume_id).status, row(records, volume_id).status_reason) == (
        "error",
        "declared so by an administrator",
    )
    records.claim(volume_id, pool, verb=claim_verbs.PURGE, state="pending")
    records.run(volumes.reset_status, volume_id, "available")
    assert (row(records, volume_id).status, row(records, volume_id).status_reason) == ("available", None)
    records.claim(volume_id, pool, verb=claim_verbs.EXTEND, state="pending")
    with pytest.raises(errors.Conflict, match="its operation has not ended"):
        records.run(volumes.reset_status, volume_id, "error")
    with pytest.raises(errors.Conflict, match="can only be deleted"):
        records.run(volumes.reset_status, records.volume(), "available")
    with pytest.raises(errors.InvalidInput, match="expected available or error"):
        records.run(volumes.reset_status, volume_id, "in-use")


def test_the_result_of_a_migration_is_cleared_at_rest(records: Records) -> None:
    pool = records.pool()
    volume_id = records.volume(pool, migration_status="error")
    records.run(volumes.reset_migration_status, volume_id)
    assert row(records, volume_id).migration_status is None
    records.claim(volume_id, pool, verb=claim_verbs.MIGRATE, state="pending")
    with pytest.raises(errors.Conflict):
        records.run(volumes.reset_migration_status, volume_id)


@pytest.mark.parametrize(
    "values", [{"status": "extending"}, {"pool_id": None}, {"size_gb": 4}, {"group_id": "group"}, {}]
)
def test_a_type_is_set_only_on_the_volume_that_the_decision_read(records: Records, values: dict[str, Any]) -> None:
    pool, type_id = records.pool(), volume_type(records)
    volume_id = records.volume(**{"pool_id": pool} | values)
    retyped = Retyped(volume_id=volume_id, pool_id=pool, volume_type_id=type_id)
    if values:
        with pytest.raises(errors.Conflict, match="changed by another request"):
            records.run(volumes.set_type, retyped, SeenVolume(3, None))
    else:
        records.run(volumes.set_type, retyped, SeenVolume(3, None))
        # The volume has another type now than the decision read.
        with pytest.raises(errors.Conflict):
            records.run(volumes.set_type, retyped, SeenVolume(3, None))
    assert row(records, volume_id).volume_type_id == (None if values else type_id)


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("0f4cbe3c-1a53-4c4c-9a54-3c8b7d6a2f10", True),
        ("0F4CBE3C-1A53-4C4C-9A54-3C8B7D6A2F10", True),
        ("0f4cbe3c1a534c4c9a543c8b7d6a2f10", False),
        ("{0f4cbe3c-1a53-4c4c-9a54-3c8b7d6a2f10}", False),
        ("data", False),
    ],
)
def test_only_the_usual_spelling_is_an_id(text: str, is_id: bool) -> None:
    assert volumes.is_id(text) is is_id
