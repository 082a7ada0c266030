# SPDX-License-Identifier: Apache-2.0
"""Common parts of all tables: column types, the database's clock, the base class of the models."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql
from sqlalchemy.ext import compiler
from sqlalchemy.sql import functions

#: Times have microseconds, which MariaDB would otherwise cut off.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Json = sa.JSON()
#: Longest id of a volume, in characters.
LONGEST_ID = 36


def exact_text(length: int | None = None) -> sa.String:
    """Return the type of a text column of at most ``length`` characters, None for 64 KiB.

    Texts are equal only if all their characters are, on every database. MariaDB's usual collations ignore case, and all
    that pad, its ``utf8mb4_bin`` too, ignore spaces at the end. InnoDB's keys have at most 3072 bytes, which are 768
    characters.
    """
    charset, collation = "utf8mb4", "utf8mb4_nopad_bin"
    if length is None:
        return sa.Text().with_variant(mysql.TEXT(charset=charset, collation=collation), "mysql", "mariadb")
    exact = mysql.VARCHAR(length, charset=charset, collation=collation)
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


Uuid = exact_text(LONGEST_ID)


class utcnow(functions.FunctionElement[datetime.datetime]):  # noqa: N801  (reads as the SQL function that it is)
    """The database's clock, in UTC."""

    type = sa.DateTime()
    inherit_cache = True


@compiler.compiles(utcnow, "sqlite")
def _utcnow_sqlite(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')"


@compiler.compiles(utcnow, "postgresql")
def _utcnow_postgresql(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "timezone('utc', clock_timestamp())"


@compiler.compiles(utcnow, "mysql")
@compiler.compiles(utcnow, "mariadb")
def _utcnow_mysql(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "utc_timestamp(6)"


def age(now: datetime.datetime, then: datetime.datetime | None) -> float | None:
    """Return the seconds from ``then`` to ``now``, both by :class:`utcnow`; None if ``then`` is None."""
    return None if then is None else max(0.0, (now - then).total_seconds())


def silence(
    now: datetime.datetime, reported_at: datetime.datetime | None, *, observed: bool, notice: str | None = None
) -> float | None:
    """Return the seconds since the last report of a backend; None if there was none.

    An observed backend is asked for reports only after changes, and the other system tells whether it is up: it is
    never silent here, and None while it has a ``notice``, which tells that it is down.
    """
    if not observed:
        return age(now, reported_at)
    return None if reported_at is None or notice is not None else 0.0


class Base(orm.DeclarativeBase):
    """Base of the ledger's models. Constraint names are fixed so that migrations can name them."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def table(model: type[Base]) -> sa.Table:
    """Return the table of a model, for statements that bypass the ORM because they run very often."""
    core_table = model.__table__
    assert isinstance(core_table, sa.Table)  # noqa: S101  -- the declared type of the attribute is wider
    return core_table
