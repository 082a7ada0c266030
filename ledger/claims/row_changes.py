# SPDX-License-Identifier: Apache-2.0
"""Rows of volumes and claims that a transaction has locked, and their changes.

They are plain records: a settlement changes their attributes, and :meth:`LockedRows.write` then executes one statement
for all rows in which the same columns have changed, one for all deletions, and one for all insertions.
"""

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import sqlalchemy as sa

from tonnage.ledger import models
from tonnage.ledger.db.prepared_statements import Prepared


class _Record(Protocol):
    """A dataclass whose fields are columns of :attr:`table`."""

    table: ClassVar[sa.Table]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    id: str


@dataclass(slots=True, kw_only=True)
class ClaimRow:
    """A claim; see :class:`tonnage.ledger.models.Claim`."""

    table: ClassVar[sa.Table] = models.table(models.Claim)

    id: str
    volume_id: str
    backend_id: int
    pool_id: int
    verb: str
    state: str
    size_gb: int
    physical_gb: int
    target_size_gb: int
    provisioning: str
    contained: bool = False
    end_epoch: int | None = None
    end_tick: int | None = None
    contained_by_all: bool = True
    end_stamp: int | None = None
    sent: bool = True
    source_pool_id: int | None = None
    reference: str | None = None
    volume_type_id: str | None = None
    request_id: str = ""


@dataclass(slots=True, kw_only=True)
class VolumeRow:
    """The part of a volume that operations change or read; see :class:`tonnage.ledger.models.Volume`."""

    table: ClassVar[sa.Table] = models.table(models.Volume)

    id: str
    project_id: str
    size_gb: int
    status: str
    status_reason: str | None
    volume_type_id: str | None
    availability_zone: str | None
    pool_id: int | None
    provisioning: str | None
    attempted_pools: Sequence[str]
    request_id: str
    migration_status: str | None


Row = TypeVar("Row", bound=_Record)


class LockedRows(Generic[Row]):
    """Rows by id, and the changes to them that are not written yet."""

    def __init__(self, record: type[Row], rows: Iterable[Sequence[Any]] = ()) -> None:
        """Store rows with the columns of :func:`columns`."""
        names = _names(record)
        self._record = record
        self.rows: dict[str, Row] = {row[0]: record(**dict(zip(names, row, strict=True))) for row in rows}
        self._before = {id: copy.copy(row) for id, row in self.rows.items()}
        self._deleted: set[str] = set()

    def insert(self, row: Row) -> None:
        """Insert a new row."""
        self.rows[row.id] = row

    def delete(self, row: Row) -> None:
        """Delete a row."""
        self._deleted.add(row.id)

    def is_deleted(self, row: Row) -> bool:
        """Return whether a row is deleted and the deletion is not written yet."""
        return row.id in self._deleted

    def changes(self) -> Iterator[tuple[Row | None, Row | None]]:
        """Yield each changed row as it was and as it is, by id; None before an insertion and after a deletion."""
        for id, row in sorted(self.rows.items()):
            before, after = self._before.get(id), None if id in self._deleted else row
            if before != after:
                yield before, after

    def write(self, connection: sa.Connection) -> None:
        """Write all changes, sorted by id."""
        table, names = self._record.table, _names(self._record)
        changes = list(self.changes())
        deleted = [{"of": before.id} for before, after in changes if before is not None and after is None]
        inserted = [after for before, after in changes if before is None and after is not None]
        updated: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for before, after in changes:
            if before is not None and after is not None:
                changed = tuple(name for name in names if getattr(before, name) != getattr(after, name))
                values = {f"new_{name}": getattr(after, name) for name in changed}
                updated.setdefault(changed, []).append({"of": after.id, **values})
        if deleted:
            _DELETE[table].change(connection, deleted)
        for changed, rows in updated.items():
            _update(table, changed).change(connection, rows)
        if inserted:
            connection.execute(_INSERT[table], [{name: getattr(row, name) for name in names} for row in inserted])
        self.rows = {id: row for id, row in self.rows.items() if id not in self._deleted}
        self._before = {id: copy.copy(row) for id, row in self.rows.items()}
        self._deleted = set()


def columns(record: type[Row]) -> list[sa.ColumnElement[Any]]:
    """Return the columns of a record, in the order of its fields."""
    return [record.table.c[name] for name in _names(record)]


def lock_volumes(connection: sa.Connection, ids: Collection[str]) -> LockedRows[VolumeRow]:
    """Lock volumes, sorted by id, and return their rows; those that do not exist are left out."""
    return LockedRows(VolumeRow, _LOCK_VOLUMES.rows(connection, {"ids": sorted(ids)}) if ids else ())


def _names(record: type[Any]) -> tuple[str, ...]:
    return _NAMES[record]


_NAMES = {record: tuple(field.name for field in fields(record)) for record in (ClaimRow, VolumeRow)}
_LOCK_VOLUMES = Prepared(
    sa.select(*columns(VolumeRow))
    .where(VolumeRow.table.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(VolumeRow.table.c.id)
    .with_for_update()
)
_TABLES = (ClaimRow.table, VolumeRow.table)
_DELETE = {table: Prepared(sa.delete(table).where(table.c.id == sa.bindparam("of"))) for table in _TABLES}
_INSERT = {table: sa.insert(table) for table in _TABLES}
_UPDATES: dict[tuple[sa.Table, tuple[str, ...]], Prepared] = {}


def _update(table: sa.Table, names: tuple[str, ...]) -> Prepared:
    """Return the update of these columns. There are few sets of columns that change together; each is built once."""
    statement = _UPDATES.get((table, names))
    if statement is None:
        values = {name: sa.bindparam(f"new_{name}", type_=table.c[name].type) for name in names}
        statement = Prepared(sa.update(table).where(table.c.id == sa.bindparam("of")).values(values))
        _UPDATES[table, names] = statement
    return statement
