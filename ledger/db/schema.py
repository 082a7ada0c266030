# SPDX-License-Identifier: Apache-2.0
"""Bringing a database to the ledger's current schema, with Alembic.

Revisions are numbered. Alembic is imported only by those who change a database: it takes a fifth of a second, which
every daemon would wait for when it starts.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

#: The revision that this code works with.
HEAD = "0016"

#: How often a migration that got into the way of others is run again.
_TRIES = 10


def current(engine: sa.Engine) -> str | None:
    """Return the revision that the database is at, None for an empty one.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be reached.
    """
    with _reached(engine), _connected(engine) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def sync(engine: sa.Engine, revision: str = "head") -> None:
    """Bring the database up to ``revision``. Nothing happens if it is there already, or at that of a later release.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be reached.
    """
    found = current(engine)
    if found is not None and found > HEAD:
        # Its migrations are not known here, and nothing has to be done: a process of this release works with it.
        LOG.warning("The database is at revision %s, of a later release than this one, which is of %s", found, HEAD)
        return
    from alembic import command, config

    alembic = config.Config()
    alembic.set_main_option("script_location", "tonnage.ledger:migrations")
    with _reached(engine):
        for last in (*[False] * _TRIES, True):
            try:
                with _connected(engine) as connection, connection.begin():
                    alembic.attributes["connection"] = connection
                    command.upgrade(alembic, revision)
                return
            except db_exc.DBDeadlock:
                # Processes go on meanwhile, and need locks in their own order. Only PostgreSQL takes back all of it.
                if last or engine.dialect.name != "postgresql":
                    raise
                LOG.info("The database is in use; its tables are changed again from the start")


def require_current(engine: sa.Engine) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if the database is behind this code's revision.

    One that is ahead will do, as migrations only add: in an upgrade the database comes first, and processes of the
    release before go on, also if one of them has to start again.
    """
    found = current(engine)
    if found is None or found < HEAD:
        raise errors.ConfigurationError(
            f"the database is at revision {found or 'none'}, this release needs {HEAD}: run 'tonnage-manage db sync'"
        )
    if found > HEAD:
        LOG.warning("The database is at revision %s, of a later release than this one, which is of %s", found, HEAD)


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
