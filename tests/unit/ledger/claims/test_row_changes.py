# SPDX-License-Identifier: Apache-2.0
"""Changes of locked rows: which statements write them, and what is written."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.ledger import faults
from tests.unit.ledger.records import Records
from tonnage.ledger.claims import row_changes
from tonnage.ledger.claims.row_changes import ClaimRow, LockedRows, VolumeRow


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool()


def volumes(session: orm.Session) -> LockedRows[VolumeRow]:
    columns = row_changes.columns(VolumeRow)
    return LockedRows(VolumeRow, session.execute(sa.select(*columns).order_by(columns[0])))


def write(session: orm.Session, rows: LockedRows[Any]) -> None:
    rows.write(session.connection())


def new_claim(id: str, volume_id: str, pool_id: int) -> ClaimRow:
    return ClaimRow(
        id=id,
        volume_id=volume_id,
        backend_id=1,
        pool_id=pool_id,
        verb="create",
        state="pending",
        size_gb=3,
        physical_gb=0,
        target_size_gb=3,
        provisioning="thin",
    )


def test_rows_that_did_not_change_are_not_written(records: Records, pool: int) -> None:
    records.volume(pool)

    def look(session: orm.Session) -> None:
        rows = volumes(session)
        for row in rows.rows.values():
            row.status = str(row.status)
        assert list(rows.changes()) == []
        write(session, rows)

    with faults.executions(records.database.engine, "UPDATE") as updates:
        records.run(look)
    assert updates == []


def test_one_statement_writes_all_rows_with_changes_in_the_same_columns(records: Records, pool: int) -> None:
    ids = sorted(records.volume(pool) for _ in range(3))

    def change(session: orm.Session) -> None:
        rows = volumes(session)
        rows.rows[ids[0]].status = "error"
        rows.rows[ids[1]].status = "extending"
        rows.rows[ids[2]].attempted_pools = ["host@b#p"]
        write(session, rows)

    with faults.executions(records.database.engine, "UPDATE volumes") as updates:
        records.run(change)
    assert len(updates) == 2, "one for two rows, and one for the third"
    assert records.rows("SELECT status, attempted_pools FROM volumes ORDER BY id") == [
        ("error", "[]"),
        ("extending", "[]"),
        ("available", '["host@b#p"]'),
    ]
    assert records.rows("SELECT count(*) FROM volumes WHERE updated_at IS NOT NULL") == [(3,)]


def test_rows_are_inserted_and_deleted(records: Records, pool: int) -> None:
    volume_id = records.volume(pool)
    records.claim(volume_id, pool, id="old")

    def change(session: orm.Session) -> None:
        columns = row_changes.columns(ClaimRow)
        rows = LockedRows(ClaimRow, session.execute(sa.select(*columns)))
        rows.insert(new_claim("new", volume_id, pool))
        rows.insert(new_claim("gone at once", volume_id, pool))
        rows.delete(rows.rows["gone at once"])
        rows.delete(rows.rows["old"])
        assert rows.is_deleted(rows.rows["old"])
        assert [(before and before.id, after and after.id) for before, after in rows.changes()] == [
            (None, "new"),
            ("old", None),
        ]
        write(session, rows)
        assert list(rows.rows) == ["new"]

    records.run(change)
    assert records.rows("SELECT id, state, contained, sent FROM claims") == [("new", "pending", 0, 1)]


def test_changes_count_once_although_they_are_written_twice(records: Records, pool: int) -> None:
    volume_id = records.volume(pool)

    def change(session: orm.Session) -> None:
        rows = volumes(session)
        rows.rows[volume_id].size_gb = 5
        write(session, rows)
        assert list(rows.changes()) == []
        rows.rows[volume_id].size_gb = 7
        [(before, after)] = rows.changes()
        assert (before and before.size_gb, after and after.size_gb) == (5, 7)
        write(session, rows)

    records.run(change)
    assert records.rows("SELECT size_gb FROM volumes") == [(7,)]
