# SPDX-License-Identifier: Apache-2.0
"""The copy of a ledger in another database, of the same kind or another one."""

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database, dialects, schema
from tonnage.ledger.db.database import Database
from tonnage.ledger.locks import heartbeats, ledger_identity

#: All tables but the one that describes the servers of the database.
_TABLES = [table for table in models.Base.metadata.sorted_tables if table is not models.table(models.WriterSlot)]

_TYPES = models.table(models.VolumeType)


def copy(source: Database, target: Database, down_time: float, on_table: Callable[[str, int], None]) -> None:
    """Copy all rows of a ledger into an empty database, and record in the source that its copy is used from now on.

    That is recorded first, so that no scheduler changes the source meanwhile or later, and taken back if the copy
    fails. ``down_time`` is the time in seconds after which a silent scheduler counts as down. ``on_table`` gets the
    name of each table that has been copied, and the number of its rows. The copy has all rows or none.

    Raises :class:`~tonnage.capacity.errors.Conflict` while a scheduler uses the source, and for a target that is not
    empty, :class:`~tonnage.capacity.errors.ConfigurationError` for a source without the current schema.
    """
    schema.require_current(source.engine)
    with source.reading() as session:
        heartbeats.require_no_scheduler(session, down_time)
    schema.sync(target.engine)
    with target.engine.connect() as connection:
        _require_empty(connection)
    source.run(_close, dialects.public_address(target.engine.url)[:255], down_time)
    try:
        _copy_rows(source, target, on_table)
    except BaseException:
        undo(source)
        raise


def _close(session: orm.Session, address: str, down_time: float) -> None:
    """Let no scheduler change the source any more."""
    other = ledger_identity.set_copy(session, address)
    if other is not None and not database.may_be_committed(session):
        raise errors.Conflict(f"the ledger is being copied to {other}")
    # Under these locks no scheduler can start.
    heartbeats.require_no_scheduler(session, down_time)


def _copy_rows(source: Database, target: Database, on_table: Callable[[str, int], None]) -> None:
    with source.reading(snapshot=True) as session, orm.Session(target.engine) as copy, copy.begin():
        writing = copy.connection()
        _require_empty(writing)
        writing.execute(sa.delete(_TYPES))
        for table in _TABLES:
            count = 0
            rows = session.connection().execution_options(yield_per=dialects.CHUNK_SIZE).execute(sa.select(table))
            for part in rows.mappings().partitions():
                writing.execute(sa.insert(table), [dict(row) for row in part])
                count += len(part)
            _advance_sequence(writing, table)
            on_table(table.name, count)
        ledger_identity.set_copy(copy, None)


def undo(source: Database) -> None:
    """Let the source of a copy be used again."""
    schema.require_revision(source.engine)
    source.run(ledger_identity.set_copy, None)


def _require_empty(writing: sa.Connection) -> None:
    """Raise Conflict if a table has other rows than the volume type that the migrations create."""
    for table in _TABLES:
        rows = sa.select(sa.literal(1)).select_from(table).limit(1)
        if table is _TYPES:
            rows = rows.where(_TYPES.c.name != volume_types.DEFAULT)
        if writing.execute(rows).scalar():
            raise errors.Conflict(f"the database has rows in table {table.name} already: name an empty database")


def _advance_sequence(writing: sa.Connection, table: sa.Table) -> None:
    """Let PostgreSQL number new rows behind the copied ones; the other databases do so by themselves."""
    column = table.autoincrement_column
    if writing.dialect.name != "postgresql" or column is None:
        return
    last = sa.select(sa.func.max(column)).scalar_subquery()
    sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
    writing.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(last, 1), last.is_not(None))))
