# SPDX-License-Identifier: Apache-2.0
"""The copy of a ledger in another database, of the same kind or another one."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage import extension
from tonnage.capacity import errors
from tonnage.extension import Extension
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database, dialects, schema, text_columns
from tonnage.ledger.db.database import Database
from tonnage.ledger.locks import heartbeats, ledger_identity

#: Queries for the last id that a table has given, by SQLAlchemy's name of the database.
_LAST_ID = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
    "postgresql": "SELECT pg_sequence_last_value(pg_get_serial_sequence('{table}', '{column}')::regclass)",
    "mysql": "SELECT auto_increment - 1 FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = '{table}'",
}

#: Statements after which a table gives later ids than ``last``. MariaDB commits a transaction before its statement.
_CONTINUE = {
    "sqlite": "INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {last})",
    "postgresql": "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last})",
    "mysql": "ALTER TABLE {table} AUTO_INCREMENT = {next}",
}

_TYPES = models.table(models.VolumeType)


def copy(
    source: Database,
    target: Database,
    extensions: Mapping[str, Extension],
    down_time: float,
    on_table: Callable[[str, int], None],
) -> None:
    """Copy all rows of a ledger into an empty database, and record in the source that its copy is used from now on.

    ``extensions`` are all that are installed, by their names: the tables of those that are not enabled are copied as
    well, if the source has them.

    That is recorded first, so that no scheduler changes the source meanwhile or later, and taken back if the copy
    fails. ``down_time`` is the time in seconds after which a silent scheduler counts as down. ``on_table`` gets the
    name of each table that has been copied, and the number of its rows. The copy has all rows or none.

    Raises :class:`~tonnage.capacity.errors.Conflict` while a scheduler uses the source, and for a target that is not
    empty, :class:`~tonnage.capacity.errors.ConfigurationError` for a source without the current schema, and for a
    target that does not take all texts.
    """
    extensions = _extensions_of(source, extensions)
    schema.require_current(source.engine, extensions)
    with source.reading() as session:
        heartbeats.require_no_scheduler(session, down_time)
    schema.sync(target.engine, extensions)
    tables = _tables(source, extensions)
    with target.engine.connect() as connection:
        _require_empty(connection, tables)
        if faults := text_columns.find_faults(connection, extensions):
            raise errors.ConfigurationError(f"--to names a database that is wrong, as {'; '.join(faults)}")
    source.run(_close, dialects.public_address(target.engine.url)[:255], down_time)
    try:
        _continue_ids(source, target, tables)
        _copy_rows(source, target, tables, on_table)
    except BaseException:
        undo(source)
        raise


def _extensions_of(source: Database, extensions: Mapping[str, Extension]) -> dict[str, Extension]:
    """Return the extensions whose tables the source has."""
    branches = schema.current(source.engine)
    return {name: declaration for name, declaration in extensions.items() if name in branches}


def _tables(source: Database, extensions: Mapping[str, Extension]) -> list[sa.Table]:
    """Return all tables of the source, but for the one that describes the servers of the database."""
    for declaration in extensions.values():
        extension.load(declaration.tables)
    names = set(sa.inspect(source.engine).get_table_names()) - {models.WriterSlot.__tablename__}
    return [table for table in models.Base.metadata.sorted_tables if table.name in names]


def _close(session: orm.Session, address: str, down_time: float) -> None:
    """Let no scheduler change the source any more."""
    other = ledger_identity.set_copy(session, address)
    if other is not None and not database.may_be_committed(session):
        raise errors.Conflict(f"the ledger is being copied to {other}")
    # Under these locks no scheduler can start.
    heartbeats.require_no_scheduler(session, down_time)


def _copy_rows(
    source: Database, target: Database, tables: Sequence[sa.Table], on_table: Callable[[str, int], None]
) -> None:
    with source.reading(snapshot=True) as session, orm.Session(target.engine) as copy, copy.begin():
        writing = copy.connection()
        _require_empty(writing, tables)
        writing.execute(sa.delete(_TYPES))
        for table in tables:
            count = 0
            rows = session.connection().execution_options(yield_per=dialects.CHUNK_SIZE).execute(sa.select(table))
            for part in rows.mappings().partitions():
                writing.execute(sa.insert(table), [dict(row) for row in part])
                count += len(part)
            on_table(table.name, count)
        ledger_identity.set_copy(copy, None)


def undo(source: Database) -> None:
    """Let the source of a copy be used again."""
    schema.require_revisions(source.engine, {})
    source.run(ledger_identity.set_copy, None)


def _require_empty(writing: sa.Connection, tables: Iterable[sa.Table]) -> None:
    """Raise Conflict if a table has other rows than the volume type that the migrations create."""
    for table in tables:
        rows = sa.select(sa.literal(1)).select_from(table).limit(1)
        if table is _TYPES:
            rows = rows.where(_TYPES.c.name != volume_types.DEFAULT)
        if writing.execute(rows).scalar():
            raise errors.Conflict(f"the database has rows in table {table.name} already: name an empty database")


def _continue_ids(source: Database, target: Database, tables: Iterable[sa.Table]) -> None:
    """Let the tables of the target, which are empty, give later ids than those of the source have given.

    The last pools may be deleted; their ids are not given again.
    """
    for table in tables:
        column = table.autoincrement_column
        if column is None:
            continue
        names = {"table": table.name, "column": column.name}
        with source.reading() as session:
            given_id = session.execute(sa.text(_LAST_ID[session.connection().dialect.name].format(**names))).scalar()
            last = max(given_id or 0, session.scalar(sa.select(sa.func.max(column))) or 0)
        without_sequence = (
            target.engine.dialect.name == "sqlite" and not table.dialect_options["sqlite"]["autoincrement"]
        )
        if last and not without_sequence:
            with target.engine.begin() as writing:
                statement = _CONTINUE[target.engine.dialect.name].format(**names, last=last, next=last + 1)
                writing.execute(sa.text(statement))
