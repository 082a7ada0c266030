# SPDX-License-Identifier: Apache-2.0
"""What the tables of volumes and claims refuse, and the values of a new row."""

from typing import Any

import pytest
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger import models


@pytest.mark.parametrize("reference", [{"pool_id": 7}, {"volume_type_id": new_id()}])
def test_a_volume_is_in_a_pool_of_the_ledger_and_of_a_type_of_the_ledger(
    records: Records, reference: dict[str, Any]
) -> None:
    records.volume()
    with pytest.raises(db_exc.DBReferenceError):
        records.volume(**reference)


def test_a_pool_with_a_volume_cannot_be_deleted(records: Records) -> None:
    records.volume(records.pool())
    with pytest.raises(db_exc.DBReferenceError):
        records.rows("DELETE FROM pools")


def test_the_metadata_of_a_volume_is_in_the_column_that_operators_read(records: Records) -> None:
    """The attribute has another name, because ``metadata`` belongs to SQLAlchemy."""
    volume_id = records.volume(user_metadata={"tier": "gold"})
    assert records.rows("SELECT metadata FROM volumes") == [('{"tier":"gold"}',)]
    [row] = records.run(lambda session: session.query(models.Volume).all())
    assert (row.id, row.user_metadata, row.hints, row.attempted_pools) == (volume_id, {"tier": "gold"}, {}, [])


def test_the_time_of_a_change_is_null_until_there_is_one(records: Records) -> None:
    volume_id = records.volume()
    assert records.rows("SELECT created_at IS NULL, updated_at FROM volumes") == [(0, None)]

    def extend(session: orm.Session) -> None:
        session.get_one(models.Volume, volume_id).size_gb = 4

    records.run(extend)
    assert records.rows("SELECT updated_at >= created_at FROM volumes") == [(1,)]


@pytest.mark.parametrize("column", ["pool_id", "backend_id"])
def test_a_claim_needs_its_pool_and_its_backend(records: Records, column: str) -> None:
    records.claim(new_id(), records.pool())
    with pytest.raises(db_exc.DBReferenceError):
        records.rows(f"UPDATE claims SET {column} = 99")


def test_a_claim_may_outlive_its_volume(records: Records) -> None:
    """The capacity of a copy stays counted until it is purged, after the row of its volume is gone."""
    claim_id = records.claim(new_id(), records.pool())
    assert records.rows("SELECT id FROM claims") == [(claim_id,)]


def test_a_new_claim_is_in_flight_and_sent(records: Records) -> None:
    pool_id = records.pool()
    sizes = {"size_gb": 3, "physical_gb": 0, "target_size_gb": 3}
    keys = {"id": new_id(), "volume_id": new_id(), "backend_id": records.backend(), "pool_id": pool_id}
    records.add(models.Claim(**keys, **sizes, verb="create", state="pending", provisioning="thin"))
    columns = "contained, contained_by_all, sent, end_epoch, end_tick, end_stamp"
    assert records.rows(f"SELECT {columns} FROM claims") == [(0, 1, 1, None, None, None)]


def test_a_request_is_answered_once(records: Records) -> None:
    records.add(models.RequestKey(request_id="req-1", volume_id=new_id(), answer={"pool": "host@b#p"}))
    assert records.rows("SELECT refused, counted_from IS NULL FROM request_keys") == [(0, 0)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.RequestKey(request_id="req-1", volume_id=new_id(), answer={}))


def test_a_message_is_about_the_error_of_a_volume_unless_it_says_otherwise(records: Records) -> None:
    records.add(models.Message(id=new_id(), project_id="p", resource_id=new_id(), event="e", text="a\0b"))
    columns = "resource_type, level, text, request_id, created_at IS NULL"
    assert records.rows(f"SELECT {columns} FROM messages") == [("VOLUME", "ERROR", "a?b", "", 0)]
