# SPDX-License-Identifier: Apache-2.0
"""Upgrades of a database to the ledger's current schema, with Alembic.

Revisions are numbered. Alembic is imported only for an upgrade: the import takes a fifth of a second, and each daemon
would wait for it at its start.
"""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

#: The revision that this release needs.
HEAD = "0027"

#: The form of all revisions. Other programs, such as Cinder, also keep theirs in Alembic's table.
_REVISION = re.compile(r"\d{4}")

#: The usual name of the URL in errors.
_OPTION = "[database] connection"

#: Number of times that a migration runs again after a deadlock.
_MAX_RETRIES = 10


def current(engine: sa.Engine, option: str = _OPTION) -> str | None:
    """Return the revision of the database, None for an empty one. ``option`` is the name of its URL in errors.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the database cannot be reached, or belongs to another
    program.
    """
    with _explain_errors(engine, option), _connect(engine, option) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        current_revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    if current_revision is not None and not _REVISION.fullmatch(current_revision):
        raise errors.ConfigurationError(
            f"the database that {option} names is that of another program, whose tables have the revision "
            f"{current_revision}: give the ledger a database of its own"
        )
    return current_revision


def sync(engine: sa.Engine, revision: str = "head") -> None:
    """Upgrade the database to ``revision``. A database at that revision, or at one of a later release, stays as it is.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the database cannot be reached.
    """
    current_revision = current(engine)
    if current_revision is not None and current_revision > HEAD:
        # This release does not have those migrations and does not need them: its processes work with that schema.
        LOG.warning("The database is at revision %s of a later release; this release has %s", current_revision, HEAD)
        return
    from alembic import command, config

    alembic = config.Config()
    alembic.set_main_option("script_location", "tonnage.ledger:migrations")
    with _explain_errors(engine):
        for last in (*[False] * _MAX_RETRIES, True):
            try:
                with _connect(engine) as connection, connection.begin():
                    alembic.attributes["connection"] = connection
                    command.upgrade(alembic, revision)
                return
            except db_exc.DBDeadlock:
                # Other processes keep working meanwhile and take locks in their own order. Only PostgreSQL rolls back
                # all changes of the schema, so only there the upgrade can start again.
                if last or engine.dialect.name != "postgresql":
                    raise
                LOG.info("The migration collided with other transactions and starts again")


def require_current(engine: sa.Engine, option: str = _OPTION) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if the database is behind this release's revision.

    A later revision is accepted, as migrations only add: an upgrade starts with the database, and processes of the
    previous release go on with it, even if one of them restarts. The same error is raised for a ledger whose copy in
    another database is used instead. ``option`` is the name of the database's URL in errors.
    """
    require_revision(engine, option)
    with _explain_errors(engine, option), _connect(engine, option) as connection:
        copy = connection.execute(
            sa.text("SELECT copied_to, copied_at FROM ledger_identity WHERE copied_to IS NOT NULL")
        ).one_or_none()
    if copy is not None:
        raise errors.ConfigurationError(describe_copy(copy.copied_to, copy.copied_at, option))


def describe_copy(address: str | None, at: object, option: str = _OPTION) -> str:
    """Return the message about a ledger whose copy in another database is used since a time (UTC)."""
    return (
        f"the ledger was copied from this database to {address} at {at} (UTC): set {option} to that; to "
        "use this one again, without all that has been decided since, run 'tonnage-manage db copy --undo'"
    )


def require_revision(engine: sa.Engine, option: str = _OPTION) -> None:
    """Do the same as :func:`require_current`, also for a ledger that was copied to another database."""
    current_revision = current(engine, option)
    if current_revision is None or current_revision < HEAD:
        raise errors.ConfigurationError(
            f"the database is at revision {current_revision or 'none'}, this release needs {HEAD}: "
            "run 'tonnage-manage db sync'"
        )
    if current_revision > HEAD:
        LOG.warning("The database is at revision %s of a later release; this release has %s", current_revision, HEAD)


def _connect(engine: sa.Engine, option: str = _OPTION) -> sa.Connection:
    """Return a connection; turn any error of the driver into a ConfigurationError.

    The URL's parameters reach the driver unchecked, and may fail there in any way.
    """
    try:
        return engine.connect()
    except (db_exc.DBError, sa.exc.SQLAlchemyError):
        raise
    except Exception as error:
        raise errors.ConfigurationError(f"option {option} cannot be used: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _explain_errors(engine: sa.Engine, option: str = _OPTION) -> Iterator[None]:
    """Turn an error of the database into a ConfigurationError that tells an operator the cause."""
    try:
        yield
    except (db_exc.DBError, sa.exc.SQLAlchemyError) as error:
        cause = str(error).strip().splitlines()[0] + _full_disk_note(engine)
        raise errors.ConfigurationError(f"the database that {option} names cannot be used: {cause}") from error


def _full_disk_note(engine: sa.Engine) -> str:
    """Return a note if the disk is full: SQLite reports that for some writes, and a general failure for others."""
    file = engine.url.database
    if engine.dialect.name != "sqlite" or not file:
        return ""
    with contextlib.suppress(OSError):
        if not shutil.disk_usage(os.path.dirname(os.path.abspath(file))).free:
            return f"; the disk of {file} is full"
    return ""
