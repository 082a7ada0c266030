# SPDX-License-Identifier: Apache-2.0
"""What the tables of groups refuse, and what is deleted with a group."""

import pytest
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger import models


@pytest.fixture
def group(records: Records) -> str:
    """The id of a group that takes volumes of the types ``zinc`` and ``gold``."""
    group_type = models.GroupType(id=new_id(), name="consistent")
    types = [models.VolumeType(id=new_id(), name=name) for name in ("zinc", "gold")]
    row = models.Group(id=new_id(), project_id="p", status="available", group_type=group_type, volume_types=types)
    records.add(row)
    return row.id


def test_the_types_of_a_group_are_ordered_by_name(records: Records, group: str) -> None:
    [row] = records.run(lambda session: session.query(models.Group).all())
    assert [volume_type.name for volume_type in row.volume_types] == ["gold", "zinc"]


def test_a_new_group_type_is_public_and_requires_nothing(records: Records, group: str) -> None:
    [row] = records.run(lambda session: session.query(models.GroupType).all())
    assert (row.is_public, row.specs, row.description) == (True, {}, None)


def test_a_group_type_has_a_name_of_its_own(records: Records, group: str) -> None:
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.GroupType(id=new_id(), name="consistent"))


def test_a_group_needs_a_type(records: Records) -> None:
    with pytest.raises(db_exc.DBReferenceError):
        records.add(models.Group(id=new_id(), project_id="p", status="available", group_type_id=new_id()))


@pytest.mark.parametrize("table", ["group_types", "volume_types"])
def test_the_types_of_a_group_cannot_be_deleted(records: Records, group: str, table: str) -> None:
    with pytest.raises(db_exc.DBReferenceError):
        records.rows(f"DELETE FROM {table}")


def test_the_choice_of_types_is_deleted_with_the_group_and_the_types_stay(records: Records, group: str) -> None:
    records.rows("DELETE FROM groups WHERE id = :id", id=group)
    assert records.rows("SELECT * FROM group_volume_types") == []
    assert {("gold",), ("zinc",)} <= set(records.rows("SELECT name FROM volume_types"))


def test_the_time_of_a_change_is_null_until_there_is_one(records: Records, group: str) -> None:
    assert records.rows("SELECT updated_at FROM groups") == [(None,)]

    def rename(session: orm.Session) -> None:
        session.get_one(models.Group, group).name = "another"

    records.run(rename)
    assert records.rows("SELECT updated_at >= created_at FROM groups") == [(1,)]
