# SPDX-License-Identifier: Apache-2.0
"""Reservations count while the rows show their operations."""

import uuid

import pytest
import sqlalchemy as sa

from tests.unit.extensions.cinder.quota.quota_rows import GIGABYTES, LATE, PROJECT, VOLUMES, QuotaRows
from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota import reservation_ends
from tonnage.extensions.cinder.quota.quota_operations import Booking, Operation


def reserved(rows: QuotaRows) -> int:
    return rows.use().get("gigabytes", (0, 0))[1]


@pytest.mark.parametrize(
    ("operation", "table", "status"),
    [
        (operations.EXTEND, tables.VOLUMES, "extending"),
        (operations.MANAGE_VOLUME, tables.VOLUMES, "managing"),
        (operations.RETYPE, tables.VOLUMES, "retyping"),
        (operations.MANAGE_SNAPSHOT, tables.SNAPSHOTS, "creating"),
        (operations.IMPORT_BACKUP, tables.BACKUPS, "creating"),
    ],
    ids=lambda value: value.name if isinstance(value, Operation) else str(value),
)
def test_a_reservation_ends_with_the_operation_of_its_row(
    operation: Operation, table: sa.Table, status: str, rows: QuotaRows
) -> None:
    row_id = rows.put(table, status=status)
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operation, row_id))
    rows.age(100_000)
    assert reserved(rows) == 2
    rows.change(table, row_id, status="error")
    assert reserved(rows) == 0
    rows.change(table, row_id, status=status)
    assert reserved(rows) == 2
    rows.change(table, row_id, deleted=True)
    assert reserved(rows) == 0


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        (operations.TRANSFER, PROJECT),
        (operations.RETYPE, "retyping"),
        (operations.IMPORT_BACKUP, "creating"),
        (operations.EXTEND, None),
        (operations.CREATE_VOLUME, None),
    ],
    ids=lambda value: value.name if isinstance(value, Operation) else str(value),
)
def test_operations_that_reserve_first_begin_with_a_value(operation: Operation, value: str | None) -> None:
    assert reservation_ends.first_value(operation, PROJECT) == value


def test_an_extension_counts_while_rows_are_swapped_for_it(rows: QuotaRows) -> None:
    """cinder-volume lets a volume that it has copied be available for a moment."""
    row_id = rows.put(tables.VOLUMES, status="available", previous_status="extending")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, row_id))
    rows.age(100_000)
    assert reserved(rows) == 2
    rows.change(tables.VOLUMES, row_id, migration_status="success")
    assert reserved(rows) == 0
    rows.change(tables.VOLUMES, row_id, migration_status=None, previous_status="available")
    assert reserved(rows) == 0


def test_a_retype_counts_before_its_row_shows_it(rows: QuotaRows) -> None:
    row_id = rows.put(tables.VOLUMES)
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.RETYPE, row_id))
    assert reserved(rows) == 2
    rows.age(61)
    assert reserved(rows) == 0


def test_an_import_counts_before_its_row_is_there(rows: QuotaRows) -> None:
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.IMPORT_BACKUP, str(uuid.uuid4())))
    assert reserved(rows) == 2
    rows.age(61)
    assert reserved(rows) == 0


def test_a_transfer_counts_until_the_volume_has_moved_and_not_for_long(rows: QuotaRows) -> None:
    row_id = rows.put(tables.VOLUMES, project_id="giver", status="awaiting-transfer")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.TRANSFER, row_id))
    assert reserved(rows) == 2
    rows.change(tables.VOLUMES, row_id, project_id=PROJECT, size=2, status="available")
    assert rows.use()["gigabytes"] == (2, 0)
    rows.change(tables.VOLUMES, row_id, project_id="giver", status="awaiting-transfer")
    rows.age(61)
    assert reserved(rows) == 0


@pytest.mark.parametrize("operation", [operations.CREATE_VOLUME, operations.CREATE_BACKUP, operations.OTHER])
def test_a_reservation_without_a_row_has_a_short_life(operation: Operation, rows: QuotaRows) -> None:
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operation))
    rows.age(50)
    assert reserved(rows) == 2
    rows.age(11)
    assert reserved(rows) == 0


@pytest.mark.parametrize(("expire", "counted"), [(LATE, 3), (LATE.replace(year=2000), 0)])
def test_a_reservation_of_cinders_own_driver_counts_until_it_expires(expire, counted, rows: QuotaRows) -> None:  # type: ignore[no-untyped-def]
    rows.reserve((VOLUMES, 1, 10))
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.RESERVATIONS).values(
                uuid=str(uuid.uuid4()),
                project_id=PROJECT,
                resource="gigabytes",
                delta=3,
                expire=expire,
                created_at=tables.clock(connection.dialect.name),
                deleted=False,
            )
        )
    assert reserved(rows) == counted
    rows.age(61)
    assert reserved(rows) == 0


def test_another_row_does_not_count(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, status="extending")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, str(uuid.uuid4())))
    assert reserved(rows) == 0
