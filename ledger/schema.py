# SPDX-License-Identifier: Apache-2.0
"""Bringing a database to the ledger's current schema, with Alembic."""

import contextlib
import os
import shutil
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import command
from alembic import config
from alembic import script
from alembic.runtime import migration
from oslo_db import exception as db_exc

from tonnage.capacity import errors


def _alembic(connection: sa.Connection | None = None) -> config.Config:
    alembic = config.Config()
    alembic.set_main_option("script_location", "tonnage.ledger:migrations")
    alembic.attributes["connection"] = connection
    return alembic


def head() -> str | None:
    """Return the revision that this code works with."""
    return script.ScriptDirectory.from_config(_alembic()).get_current_head()


def current(engine: sa.Engine) -> str | None:
    """Return the revision that the database is at, None for an empty one.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be reached.
    """
    with _reached(engine), _connected(engine) as connection:
        return migration.MigrationContext.configure(connection).get_current_revision()


def sync(engine: sa.Engine, revision: str = "head") -> None:
    """Bring the database up to ``revision``. Nothing happens if it is there already.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be reached.
    """
    with _reached(engine), _connected(engine) as connection, connection.begin():
        command.upgrade(_alembic(connection), revision)


def require_current(engine: sa.Engine) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` unless the database is at this code's revision."""
    found, wanted = current(engine), head()
    if found != wanted:
        raise errors.ConfigurationError(
            f"the database is at revision {found or 'none'}, this release needs {wanted}: run 'tonnage-manage db sync'"
        )


def _connected(engine: sa.Engine) -> sa.Connection:
    """Return a connection. What stands in the URL reaches the database's driver unseen, which may fail in any way."""
    try:
        return engine.connect()
    except (db_exc.DBError, sa.exc.SQLAlchemyError):
        raise
    except Exception as error:
        raise errors.ConfigurationError(
            f"option [database] connection cannot be used: {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _reached(engine: sa.Engine) -> Iterator[None]:
    """Turn the database's refusal into what an operator can act on."""
    try:
        yield
    except (db_exc.DBError, sa.exc.SQLAlchemyError) as error:
        cause = str(error).strip().splitlines()[0] + _disk(engine)
        raise errors.ConfigurationError(
            f"the database that [database] connection names cannot be used: {cause}"
        ) from error


def _disk(engine: sa.Engine) -> str:
    """Tell if the disk is full: SQLite says so of some writes, of others that they failed."""
    file = engine.url.database
    if engine.dialect.name != "sqlite" or not file:
        return ""
    with contextlib.suppress(OSError):
        if not shutil.disk_usage(os.path.dirname(os.path.abspath(file))).free:
            return f"; the disk of {file} is full"
    return ""
