# SPDX-License-Identifier: Apache-2.0
"""Which reservations count: those whose operation is under way, as the rows tell."""

import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Operation

_R = tables.RESERVATIONS.c

#: The status that a row has while its operation is under way.
_STATUS = {
    operations.EXTEND: (tables.VOLUMES, "extending"),
    operations.RETYPE: (tables.VOLUMES, "retyping"),
    operations.MANAGE_VOLUME: (tables.VOLUMES, "managing"),
    operations.MANAGE_SNAPSHOT: (tables.SNAPSHOTS, "creating"),
    operations.TRANSFER: (tables.VOLUMES, "awaiting-transfer"),
    operations.IMPORT_BACKUP: (tables.BACKUPS, "creating"),
}

#: The operations whose row may change after Cinder commits the reservation.
OUTLASTING = (operations.EXTEND, operations.RETYPE, operations.IMPORT_BACKUP)

#: The operations that reserve before they begin to change their row.
_RESERVING_FIRST = (operations.RETYPE, operations.IMPORT_BACKUP)


def first_value(operation: Operation, project_id: str) -> str | None:
    """Return the value to which an operation that reserves first sets a column of its row, None for any other."""
    if operation is operations.TRANSFER:
        return project_id
    return _STATUS[operation][1] if operation in _RESERVING_FIRST else None


def counts(dialect: str, lifetime: float) -> sa.ColumnElement[bool]:
    """Return the condition that a reservation counts.

    One that no row can tell of counts for ``lifetime`` seconds.
    """
    young = _R.created_at > tables.clock(dialect, lifetime)
    code = sa.func.substr(_R.uuid, operations.CODE_AT + 1, 1)
    is_absent = ~sa.exists().where(tables.BACKUPS.c.id == _row_id(), tables.BACKUPS.c.deleted == sa.false())
    moves = tables.VOLUMES.c.project_id != _R.project_id
    conditions = {
        operations.EXTEND: sa.or_(_has_status(operations.EXTEND), _is_swapped()),
        # The status is set after the reservation.
        operations.RETYPE: sa.or_(young, _has_status(operations.RETYPE)),
        operations.MANAGE_VOLUME: _has_status(operations.MANAGE_VOLUME),
        operations.MANAGE_SNAPSHOT: _has_status(operations.MANAGE_SNAPSHOT),
        operations.TRANSFER: sa.and_(young, _has_status(operations.TRANSFER, moves)),
        operations.IMPORT_BACKUP: sa.or_(_has_status(operations.IMPORT_BACKUP), sa.and_(young, is_absent)),
    }
    return sa.case(
        *((code == operation.code, condition) for operation, condition in conditions.items()),
        else_=sa.and_(young, _R.expire > tables.clock(dialect)),
    )


def outlasts(operation: Operation) -> sa.ColumnElement[bool]:
    """Return the condition that the row of a reservation still shows one of the operations ``OUTLASTING``."""
    return _has_status(operation)


def _has_status(operation: Operation, *more: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    table, status = _STATUS[operation]
    row = table.c
    return (
        sa.exists()
        .where(row.id == _row_id(), row.deleted == sa.false(), row.status == status, *more)
        .correlate(tables.RESERVATIONS)
    )


def _is_swapped() -> sa.ColumnElement[bool]:
    """Return the condition that a volume that moves to grow is available for the moment in which rows are swapped."""
    row = tables.VOLUMES.c
    return (
        sa.exists()
        .where(
            row.id == _row_id(),
            row.deleted == sa.false(),
            row.status == "available",
            row.previous_status == "extending",
            row.migration_status.is_(None),
        )
        .correlate(tables.RESERVATIONS)
    )


def _row_id() -> sa.ColumnElement[str]:
    """Return the id of the row that a reservation names, from its digits."""
    parts = [sa.func.substr(_R.uuid, start, length) for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    text: sa.ColumnElement[str] = sa.type_coerce(parts[0], sa.String)
    for part in parts[1:]:
        text = text + "-" + sa.type_coerce(part, sa.String)
    return text
