# SPDX-License-Identifier: Apache-2.0
"""Upgrades of a database to the current schema of the ledger and of the enabled extensions, with Alembic.

The core's revisions are numbers, such as ``0001``. Each extension has a branch of its own, whose revisions begin with
its name, such as ``history_0001``; its tables may refer to those of the core, which is upgraded first. The revisions of
all branches are rows of the table ``alembic_version``. Tables of an extension that is not enabled stay as they are.

Alembic is imported only for an upgrade: the import takes a fifth of a second, and each daemon would wait for it at its
start.
"""

import contextlib
import functools
import importlib.util
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.extension import Extension

if TYPE_CHECKING:
    from alembic.operations import Operations

LOG = logging.getLogger(__name__)

#: The form of all revisions. Other programs, such as Cinder, also keep theirs in Alembic's table.
_REVISION = re.compile(r"(?:(?P<extension>[\w.-]+)_)?\d{4}")

#: The name of the file with a migration begins with the number of its revision.
_FILE = re.compile(r"v(\d{4})_\w+\.py")

#: The usual name of the URL in errors.
_OPTION = "[database] connection"

#: Number of times that a migration runs again after a deadlock.
_MAX_RETRIES = 10

#: The name of the core's branch.
CORE = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """The revisions of the tables of the core, or of an extension.

    ``name`` is that of the extension. ``head`` is the revision that this release needs, ``revision`` that of the
    database, None without any of these tables.
    """

    name: str
    folder: pathlib.Path
    head: str
    revision: str | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the database has to be upgraded."""
        return self.revision is None or self.revision < self.head

    @property
    def is_ahead(self) -> bool:
        """Whether the database has the schema of a later release."""
        return self.revision is not None and self.revision > self.head

    @property
    def text(self) -> str:
        """The revision of the database, as the begin of a sentence."""
        subject = f"the tables of extension {self.name} are" if self.name else "the database is"
        return f"{subject} at revision {self.revision or 'none'}"


def current(engine: sa.Engine, option: str = _OPTION) -> dict[str, str]:
    """Return the revisions of a database by their branches; none for an empty one.

    ``option`` is the name of the database's URL in errors. Raises
    :class:`~tonnage.capacity.errors.ConfigurationError` if the database cannot be reached, or belongs to another
    program.
    """
    with _explain_errors(engine, option), _connect(engine, option) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return {}
        revisions = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all()
    by_branch = {}
    for revision in sorted(revisions):
        branch = _branch_of(revision)
        if branch is None:
            raise errors.ConfigurationError(
                f"the database that {option} names is that of another program, whose tables have the revision "
                f"{revision}: give the ledger a database of its own"
            )
        by_branch[branch] = revision
    return by_branch


def branches(engine: sa.Engine, extensions: Mapping[str, Extension], option: str = _OPTION) -> list[Branch]:
    """Return the branches of the core, which is the first, and of extensions, with their revisions in a database.

    ``extensions`` are the enabled ones by their names. Raises the errors of :func:`current`.
    """
    revisions = current(engine, option)
    folders = {CORE: _CORE_FOLDER}
    folders |= {
        name: _folder(name, declaration.tables) for name, declaration in extensions.items() if declaration.tables
    }
    return [Branch(name, folder, _head(name, folder), revisions.get(name)) for name, folder in folders.items()]


def sync(engine: sa.Engine, extensions: Mapping[str, Extension]) -> None:
    """Upgrade the tables of the core and of the enabled extensions, by their names, to the revisions of this release.

    What is at that revision, or at one of a later release, stays as it is. Raises
    :class:`~tonnage.capacity.errors.ConfigurationError` if the database cannot be reached.
    """
    for branch in branches(engine, extensions):
        # This release does not have later migrations and does not need them: its processes work with that schema.
        _warn_if_ahead(branch)
        if branch.is_behind:
            _upgrade(engine, branch)


def require_current(engine: sa.Engine, extensions: Mapping[str, Extension], option: str = _OPTION) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if a branch is behind this release's revision.

    A later revision is accepted, as migrations only add: an upgrade starts with the database, and processes of the
    previous release go on with it, even if one of them restarts. The same error is raised for a ledger whose copy in
    another database is used instead. ``extensions`` are the enabled ones by their names, ``option`` is the name of the
    database's URL in errors.
    """
    require_revisions(engine, extensions, option)
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


def require_revisions(engine: sa.Engine, extensions: Mapping[str, Extension], option: str = _OPTION) -> None:
    """Do the same as :func:`require_current`, also for a ledger that was copied to another database."""
    for branch in branches(engine, extensions, option):
        if branch.is_behind:
            raise errors.ConfigurationError(
                f"{branch.text}, this release needs {branch.head}: run 'tonnage-manage db sync'"
            )
        _warn_if_ahead(branch)


def _warn_if_ahead(branch: Branch) -> None:
    if branch.is_ahead:
        LOG.warning("%s of a later release; this release has %s", branch.text, branch.head)


def _branch_of(revision: str) -> str | None:
    """Return the branch of a revision; None for one of another program."""
    match = _REVISION.fullmatch(revision)
    return None if match is None else match["extension"] or CORE


def _head(name: str, folder: pathlib.Path) -> str:
    """Return the last revision of a branch."""
    numbers = [match[1] for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))]
    if not numbers:
        raise errors.ConfigurationError(
            f"extension '{name}' has tables, but no migration such as v0001_*.py in {folder}"
        )
    return f"{name}_{max(numbers)}" if name else max(numbers)


def _folder(name: str, tables: str) -> pathlib.Path:
    """Return the folder of the migrations of an extension, which is beside the module of its tables."""
    spec = importlib.util.find_spec(tables)
    folder = None if spec is None or spec.origin is None else pathlib.Path(spec.origin).with_name("migrations")
    if folder is None or not folder.is_dir():
        raise errors.ConfigurationError(f"extension '{name}' has no folder 'migrations' beside its tables, {tables}")
    return folder


_CORE_FOLDER = pathlib.Path(__file__).parents[1] / "migrations"

#: The revision of the core that this release needs.
HEAD = _head(CORE, _CORE_FOLDER)


def _upgrade(engine: sa.Engine, branch: Branch) -> None:
    with _explain_errors(engine):
        for last in (*[False] * _MAX_RETRIES, True):
            try:
                with _connect(engine) as connection, connection.begin():
                    _run_migrations(connection, branch)
                return
            except db_exc.DBDeadlock:
                # Other processes keep working meanwhile and take locks in their own order. Only PostgreSQL rolls back
                # all changes of the schema, so only there the upgrade can start again.
                if last or engine.dialect.name != "postgresql":
                    raise
                LOG.info("The migration collided with other transactions and starts again")


def _run_migrations(connection: sa.Connection, branch: Branch) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(branch.folder, version_locations=[branch.folder])

    def steps(revisions: Any, context: MigrationContext) -> list[RevisionStep]:
        """Return the migrations of the branch that the database lacks; rows of other branches do not matter."""
        start = next((revision for revision in revisions if _branch_of(revision) == branch.name), "base")
        missing = reversed(list(script.iterate_revisions("head", start)))
        return [RevisionStep(script.revision_map, revision, is_upgrade=True) for revision in missing]

    # SQLite cannot alter most of a table in place.
    options = {"fn": steps, "script": script, "render_as_batch": connection.dialect.name == "sqlite"}
    context = MigrationContext.configure(connection, opts=options)
    with context.begin_transaction(), Operations.context(context) as operations:
        # alembic before 1.13.3 does not know if_not_exists for tables.
        operations.create_table = functools.partial(_create_table, operations)  # type: ignore[method-assign]
        context.run_migrations()


def _create_table(
    operations: "Operations", name: str, *columns: sa.schema.SchemaItem, if_not_exists: bool = False, **options: Any
) -> sa.Table:
    """Create a table as ``op.create_table`` does. With ``if_not_exists`` a table that exists is left as it is."""
    from alembic.operations.ops import CreateTableOp

    table = CreateTableOp(name, columns, **options).to_table(operations.get_context())
    operations.execute(sa.schema.CreateTable(table, if_not_exists=if_not_exists))
    for index in table.indexes:
        operations.execute(sa.schema.CreateIndex(index, if_not_exists=if_not_exists))
    return table


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
