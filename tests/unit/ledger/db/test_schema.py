# SPDX-License-Identifier: Apache-2.0
import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest
import sqlalchemy as sa
from alembic import script
from sqlalchemy import event

from tests.servers import ledger_schema
from tonnage import extension
from tonnage.capacity import errors
from tonnage.extension import Extension
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database, schema

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "ledger.rst"
EXTENSIONS = extension.installed()
HISTORY = {"history": EXTENSIONS["history"]}


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = database.create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_each_branch_has_one_line_of_revisions_and_ends_with_its_head(engine: sa.Engine) -> None:
    branches = schema.branches(engine, EXTENSIONS)
    assert [branch.name for branch in branches] == [schema.CORE, *(n for n, each in EXTENSIONS.items() if each.tables)]
    for branch in branches:
        revisions = script.ScriptDirectory(branch.folder, version_locations=[branch.folder])
        assert revisions.get_heads() == [branch.head]
        assert {schema._branch_of(revision.revision) for revision in revisions.walk_revisions()} == {branch.name}


def test_the_documentation_names_every_table_and_each_column_of_capacity_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(
        re.findall(
            r"``(\w+)``", page.replace("``shared_in_flight_``\n``physical_gb``", "``shared_in_flight_physical_gb``")
        )
    )
    tables = ledger_schema.metadata().tables
    assert tables.keys() - named == set()
    for name in ("backends", "pools", "claims", "volumes"):
        assert {column.name for column in tables[name].columns} - named == set()


def test_a_daemon_does_not_import_alembic() -> None:
    code = "import sys, tonnage.cli.daemons.scheduler; sys.exit('alembic' in sys.modules)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def violations(migration: str) -> list[str]:
    """Return the calls of a migration that processes of the previous release could not live with.

    They go on while it runs: they know none of the new columns, and write rows without them.
    """
    calls = [
        node
        for node in ast.walk(ast.parse(migration))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("op.")
    ]
    return [ast.unparse(call) for call in calls if not _only_adds(ast.unparse(call.func).removeprefix("op."), call)]


def _only_adds(operation: str, call: ast.Call) -> bool:
    arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if operation == "add_column":
        column = call.args[1]
        assert isinstance(column, ast.Call)
        settings = {keyword.arg: ast.unparse(keyword.value) for keyword in column.keywords}
        return "server_default" in settings or settings.get("nullable") == "True"
    if operation == "create_index":
        return arguments.get("unique", "False") == "False"
    return operation in ("create_table", "bulk_insert", "get_bind")


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ("op.create_table('t', sa.Column('id', sa.Integer()))", True),
        ("op.add_column('t', sa.Column('a', sa.Integer(), nullable=True))", True),
        ("op.add_column('t', sa.Column('a', sa.Integer(), nullable=False, server_default='0'))", True),
        ("op.add_column('t', sa.Column('a', sa.Integer(), nullable=False))", False),
        ("op.create_index('i', 't', ['a'])", True),
        ("op.create_index('i', 't', ['a'], unique=True)", False),
        ("op.alter_column('t', 'a', new_column_name='b')", False),
        ("op.drop_column('t', 'a')", False),
    ],
)
def test_a_migration_may_only_add(call: str, allowed: bool) -> None:
    assert violations(call) == ([] if allowed else [call])


def test_all_migrations_but_the_first_only_add(engine: sa.Engine) -> None:
    for branch in schema.branches(engine, EXTENSIONS):
        for path in sorted(branch.folder.glob("v[0-9]*.py"))[1:]:
            assert violations(path.read_text(encoding="utf-8")) == [], path


def test_the_tables_of_an_extension_are_those_of_its_branch(engine: sa.Engine) -> None:
    """The core's own are there without any extension."""
    schema.sync(engine, {})
    core = set(sa.inspect(engine).get_table_names())
    schema.sync(engine, HISTORY)
    history = set(sa.inspect(engine).get_table_names()) - core
    assert history == {"history_turn", "pool_history", "type_history", "pool_forecasts", "coming_refusals"}
    assert schema.current(engine) == {schema.CORE: schema.HEAD, "history": "history_0001"}


def set_revision(engine: sa.Engine, old: str, new: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{new}' WHERE version_num = '{old}'")


@pytest.mark.parametrize("revision", [None, "history_0000"])
def test_an_extension_that_is_behind_is_refused_by_its_name(engine: sa.Engine, revision: str | None) -> None:
    ledger_schema.create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version WHERE version_num = 'history_0001'")
        if revision is not None:
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{revision}')")
    expected = (
        rf"^the tables of extension history are at revision {revision or 'none'}, this release needs history_0001: "
        "run 'tonnage-manage db sync'$"
    )
    with pytest.raises(errors.ConfigurationError, match=expected):
        schema.require_current(engine, EXTENSIONS)
    schema.require_current(engine, {name: each for name, each in EXTENSIONS.items() if name != "history"})


def test_revisions_of_extensions_that_are_not_installed_or_disabled_stay(engine: sa.Engine) -> None:
    schema.sync(engine, HISTORY)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('elsewhere_0003')")
    schema.sync(engine, {})
    schema.sync(engine, {"placement": EXTENSIONS["placement"]})
    assert schema.current(engine) == {
        schema.CORE: schema.HEAD,
        "elsewhere": "elsewhere_0003",
        "history": "history_0001",
        "placement": "placement_0001",
    }


def test_an_extension_without_migrations_is_refused(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for tables in ("tonnage.ledger.models", "tonnage.missing"):
        with pytest.raises(errors.ConfigurationError, match="'odd' has no folder 'migrations' beside its tables"):
            schema.sync(engine, {"odd": Extension(summary="odd", tables=tables)})


def engine_at(revision: str | None) -> sa.Engine:
    engine = database.create_engine("sqlite://")
    if revision is not None:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{revision}')")
    return engine


@pytest.mark.parametrize("revision", [None, "0000"])
def test_a_database_that_is_behind_is_refused(revision: str | None) -> None:
    engine = engine_at(revision)
    with pytest.raises(errors.ConfigurationError, match=rf"at revision {revision or 'none'}, .* needs {schema.HEAD}"):
        schema.require_current(engine, {})
    engine.dispose()


def test_a_database_that_is_ahead_is_accepted(engine: sa.Engine, caplog: pytest.LogCaptureFixture) -> None:
    ledger_schema.create(engine)
    set_revision(engine, schema.HEAD, "9999")
    set_revision(engine, "history_0001", "history_9999")
    schema.require_current(engine, EXTENSIONS)
    assert "the database is at revision 9999 of a later release" in caplog.text
    assert "the tables of extension history are at revision history_9999 of a later release" in caplog.text


def test_a_sync_does_not_change_what_is_ahead(engine: sa.Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A service unit may run it at every start, also that of a process of the previous release."""
    schema.sync(engine, {})
    set_revision(engine, schema.HEAD, "9999")
    schema.sync(engine, HISTORY)
    assert schema.current(engine) == {schema.CORE: "9999", "history": "history_0001"}
    assert "9999 of a later release" in caplog.text


@pytest.mark.parametrize("step", [schema.sync, schema.require_current])
def test_the_database_of_another_program_is_refused(step: Callable[[sa.Engine, dict[str, Extension]], None]) -> None:
    """Cinder keeps its revisions in a table of the same name."""
    engine = engine_at("9c74c1c6971f")
    with pytest.raises(
        errors.ConfigurationError, match="is that of another program, whose tables have the revision 9c7"
    ):
        step(engine, {})
    engine.dispose()


def test_a_migration_creates_the_default_volume_type(engine: sa.Engine) -> None:
    schema.sync(engine, {})
    with engine.connect() as connection:
        [row] = connection.execute(sa.select(models.table(models.VolumeType)))
    assert (row.name, row.description, row.is_public) == (volume_types.DEFAULT, "Default Volume Type", True)


def test_the_reason_is_named_for_which_a_server_ends_a_new_connection(postgresql_url: str) -> None:
    """A server that shuts down ends connections before SQLAlchemy's first statements."""
    engine = database.create_engine(postgresql_url)

    def end(connection: psycopg.Connection[object], record: object) -> None:
        with psycopg.connect(connection.info.dsn) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])

    event.listen(engine, "connect", end, insert=True)
    expected = (
        r"^the database that \[database\] connection names cannot be used: .*terminating connection due to "
        "administrator command"
    )
    with pytest.raises(errors.ConfigurationError, match=expected):
        schema.current(engine)
    event.remove(engine, "connect", end)
    assert isinstance(schema.current(engine), dict)
    engine.dispose()
