# SPDX-License-Identifier: Apache-2.0
"""Group types: a type in use stays, and a change of one type's specs leaves those of the others."""

import pytest

from tests.unit.ledger.catalog.catalogues import group, volume_type
from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger.catalog import group_types, groups


def test_a_type_is_deleted_after_its_last_group(records: Records) -> None:
    group_id = group(records, volume_type(records))
    type_id = records.run(groups.get, group_id, None).row.group_type_id
    with pytest.raises(errors.Conflict, match="is still in use by a group"):
        records.run(group_types.delete, type_id)
    records.run(groups.begin_deletion, group_id, None, with_volumes=False)
    records.run(group_types.delete, type_id)
    with pytest.raises(errors.NotFound):
        records.run(group_types.get, type_id)


def test_a_group_that_ended_with_its_last_volume_does_not_keep_its_type(records: Records) -> None:
    group_id = group(records, volume_type(records))
    type_id = records.run(groups.get, group_id, None).row.group_type_id
    records.rows("UPDATE groups SET status = 'deleting'")
    records.run(group_types.delete, type_id)
    assert records.rows("SELECT * FROM groups") == []


def test_changed_specs_are_stored_for_that_type_alone(records: Records) -> None:
    first = records.run(group_types.create, "first", None, True, {"a": "1"}).id
    second = records.run(group_types.create, "second", None, True, {"a": "1"}).id
    records.run(group_types.set_specs, first, {"b": "2"})
    records.run(group_types.unset_spec, first, "a")
    assert records.run(group_types.get, first).specs == {"b": "2"}
    assert records.run(group_types.get, second).specs == {"a": "1"}
