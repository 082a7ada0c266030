# SPDX-License-Identifier: Apache-2.0
"""Text columns that do not take any text, or do not tell all texts apart.

The migrations make no such columns: other programs do, which convert tables or restore them from a dump. SQLite has
none, as its texts are Unicode, and compared exactly.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from tonnage import extension
from tonnage.extension import Extension
from tonnage.ledger import models
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: The command that mends all of them.
WAY_OUT = (
    "stop all schedulers and tonnage-api, copy the ledger to an empty database with 'tonnage-manage db copy --to -', "
    "which reads the URL of that database, and set [database] connection to it"
)

#: Most columns that are named.
_MOST = 10

#: The character set of JSON, which MariaDB keeps as text. JSON is not compared.
_JSON_CHARSET = "utf8mb4"

_MARIADB_COLUMNS = sa.text(
    "SELECT table_name, column_name, character_set_name, collation_name FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND character_set_name IS NOT NULL"
)

#: Columns whose collation takes different texts for equal ones.
_POSTGRESQL_COLUMNS = sa.text(
    "SELECT c.relname, a.attname, o.collname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_collation o ON o.oid = a.attcollation"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped"
    " AND NOT o.collisdeterministic ORDER BY 1, 2"
)


def find_faults(connection: sa.Connection, extensions: Mapping[str, Extension]) -> list[str]:
    """Return a clause about each fault of the text columns of the core and of these extensions, by their names."""
    for declaration in extensions.values():
        if declaration.tables:
            extension.load(declaration.tables)
    checks: Mapping[str, Callable[[sa.Connection], Iterator[str]]] = {
        "postgresql": _postgresql,
        "mysql": _mariadb,
        "mariadb": _mariadb,
    }
    find = checks.get(connection.dialect.name)
    return list(find(connection)) if find else []


def describe(faults: Sequence[str]) -> str:
    """Return the message about these faults, at least one, with the way out."""
    more = f"; and {len(faults) - _MOST} more" if len(faults) > _MOST else ""
    return f"texts may be refused or confused: {'; '.join(faults[:_MOST])}{more}: {WAY_OUT}"


def warn(ledger: Database, extensions: Mapping[str, Extension]) -> None:
    """Log an error if the core or one of these extensions has such columns.

    Raises :class:`~tonnage.capacity.errors.Unavailable` if the database cannot be reached.
    """
    with ledger.reading() as session:
        faults = find_faults(session.connection(), extensions)
    if faults:
        LOG.error("The tables of the ledger are wrong, %s", describe(faults))


def _mariadb(connection: sa.Connection) -> Iterator[str]:
    columns = {(table, column): names for table, column, *names in connection.execute(_MARIADB_COLUMNS)}
    for table in models.Base.metadata.sorted_tables:
        for column in table.columns:
            charset, collation = columns.get((table.name, column.name), (None, None))
            if charset is None:
                continue
            right = _charset_and_collation(column, connection.dialect)
            if isinstance(column.type, sa.JSON):
                if charset != _JSON_CHARSET:
                    yield f"{table.name}.{column.name} has {charset} and must have {_JSON_CHARSET}"
            elif right is not None and (charset, collation) != right:
                yield f"{table.name}.{column.name} has {charset} {collation} and must have {' '.join(right)}"


def _charset_and_collation(column: sa.Column[object], dialect: sa.Dialect) -> tuple[str, str] | None:
    """Return the character set and the collation that a text column has by its model; None for other columns."""
    column_type = column.type.dialect_impl(dialect)
    if isinstance(column_type, sa.TypeDecorator):
        column_type = column_type.impl_instance.dialect_impl(dialect)
    if not isinstance(column_type, (mysql.VARCHAR, mysql.TEXT)):
        return None
    assert column_type.charset  # noqa: S101  -- each text column of a model states it
    assert column_type.collation  # noqa: S101
    return column_type.charset, column_type.collation


def _postgresql(connection: sa.Connection) -> Iterator[str]:
    encoding = connection.scalar(sa.text("SHOW server_encoding"))
    if encoding != "UTF8":
        yield f"the database has encoding {encoding} and must have UTF8"
    for table, column, collation in connection.execute(_POSTGRESQL_COLUMNS):
        yield f"{table}.{column} has the nondeterministic collation {collation} and must have a deterministic one"
