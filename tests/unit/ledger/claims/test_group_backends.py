# SPDX-License-Identifier: Apache-2.0
"""The backend of a group is that of its volumes, and two bookings do not split it."""

import pytest

from tests.unit.ledger.catalog.catalogues import group, volume_type
from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger.claims import group_backends


@pytest.fixture
def group_id(records: Records) -> str:
    return group(records, volume_type(records))


def test_a_group_has_the_backend_of_its_placed_volumes(records: Records, group_id: str) -> None:
    records.volume(group_id=group_id)
    states = records.run(group_backends.load, [group_id, new_id()])
    assert states.keys() == {group_id}
    assert (states[group_id].backend, states[group_id].status) == (None, "available")
    assert [allowed.name for allowed in states[group_id].volume_types] == ["gold"]
    for name in ("host@b#p", "host@b#q"):
        records.volume(records.pool(name), group_id=group_id)
    assert records.run(group_backends.load, [group_id])[group_id].backend == "host@b"
    assert records.run(group_backends.load, []) == {}


def test_volumes_of_a_group_are_booked_on_one_backend(records: Records, group_id: str) -> None:
    backend, elsewhere = records.backend("host@b"), records.backend("host@c")
    records.run(group_backends.lock_for_members, [])
    records.run(group_backends.lock_for_members, [(group_id, backend), (group_id, backend)])
    for joining in ([(group_id, backend), (group_id, elsewhere)], [(new_id(), backend)]):
        with pytest.raises(errors.Conflict, match="was changed by another request"):
            records.run(group_backends.lock_for_members, joining)


def test_a_booking_follows_the_volumes_that_the_group_has(records: Records, group_id: str) -> None:
    records.volume(records.pool("host@b#p"), group_id=group_id)
    records.run(group_backends.lock_for_members, [(group_id, records.backend("host@b"))])
    with pytest.raises(errors.Conflict):
        records.run(group_backends.lock_for_members, [(group_id, records.backend("host@c"))])


@pytest.mark.parametrize("status", ["deleting", "error"])
def test_a_group_that_is_not_available_takes_no_volumes(records: Records, group_id: str, status: str) -> None:
    records.rows("UPDATE groups SET status = :status", status=status)
    with pytest.raises(errors.Conflict):
        records.run(group_backends.lock_for_members, [(group_id, records.backend())])


def test_only_deleted_groups_without_volumes_are_purged(records: Records) -> None:
    type_id = volume_type(records)
    kept, with_volume, *empty = (group(records, type_id, name=name) for name in "abcd")
    records.volume(group_id=with_volume)
    records.rows("UPDATE groups SET status = 'deleting' WHERE id != :id", id=kept)
    assert [records.run(group_backends.purge, limit=1) for _ in range(3)] == [1, 1, 0]
    assert len(empty) == 2
    assert {row[0] for row in records.rows("SELECT id FROM groups")} == {kept, with_volume}
    assert {row[0] for row in records.rows("SELECT group_id FROM group_volume_types")} == {kept, with_volume}
