# SPDX-License-Identifier: Apache-2.0
import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from alembic import config, script

import tonnage.ledger
from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database, schema

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "ledger.rst"
VERSIONS = pathlib.Path(tonnage.ledger.__file__).parent / "migrations" / "versions"
LATER = sorted(VERSIONS.glob("v[0-9]*.py"))[1:]


def test_the_head_is_the_last_migration() -> None:
    alembic = config.Config()
    alembic.set_main_option("script_location", "tonnage.ledger:migrations")
    assert script.ScriptDirectory.from_config(alembic).get_heads() == [schema.HEAD]


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


def keywords(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def sets_true(call: ast.Call, keyword: str) -> bool:
    return any(
        each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in call.keywords
    )


@pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)
def test_a_migration_only_adds(path: pathlib.Path) -> None:
    """Processes of the previous release go on: they know none of the new columns and write rows without them."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "op"
    ]
    names = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    assert names <= {"create_table", "add_column", "create_index", "f", "get_bind", "alter_column", "drop_column"}
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "add_column":
            column = call.args[1]
            assert isinstance(column, ast.Call)
            assert "server_default" in keywords(column) or sets_true(column, "nullable"), ast.unparse(column)
        if call.func.attr == "drop_column":
            assert ast.unparse(call.args[1]) == "'rpc_version'", "no process of a release needs it"
        if call.func.attr == "alter_column":
            assert keywords(call) == {"type_", "existing_nullable"}, ast.unparse(call)
        if call.func.attr == "create_index":
            assert not sets_true(call, "unique"), ast.unparse(call)


def engine_at(revision: str | None) -> sa.Engine:
    engine = database.create_engine("sqlite://")
    if revision is not None:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{revision}')")
    return engine


@pytest.mark.parametrize("revision", [None, "0001"])
def test_a_database_that_is_behind_is_refused(revision: str | None) -> None:
    engine = engine_at(revision)
    with pytest.raises(errors.ConfigurationError, match=rf"at revision {revision or 'none'}, .* needs {schema.HEAD}"):
        schema.require_current(engine)
    engine.dispose()


def test_a_database_that_is_ahead_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    schema.require_current(engine)
    engine.dispose()
    assert "9999 of a later release" in caplog.text


def test_a_sync_does_not_change_a_database_that_is_ahead(caplog: pytest.LogCaptureFixture) -> None:
    """A service unit may run it at every start, also that of a process of the previous release."""
    engine = engine_at("9999")
    schema.sync(engine)
    assert schema.current(engine) == "9999"
    engine.dispose()
    assert "9999 of a later release" in caplog.text


@pytest.mark.parametrize("step", [schema.sync, schema.require_current])
def test_the_database_of_another_program_is_refused(step: Callable[[sa.Engine], None]) -> None:
    """Cinder keeps its revisions in a table of the same name."""
    engine = engine_at("9c74c1c6971f")
    with pytest.raises(
        errors.ConfigurationError, match="is that of another program, whose tables have the revision 9c7"
    ):
        step(engine)
    engine.dispose()


@pytest.mark.parametrize("known", [False, True])
def test_a_migration_creates_the_default_volume_type(known: bool) -> None:
    engine = database.create_engine("sqlite://")
    schema.sync(engine, "0020")
    kind = models.table(models.VolumeType)
    values = {"id": "own", "name": "__DEFAULT__", "description": "mine", "is_public": False}
    with engine.begin() as connection:
        if known:
            connection.execute(sa.insert(kind).values(values))
    schema.sync(engine)
    with engine.connect() as connection:
        [row] = connection.execute(sa.select(kind))
    engine.dispose()
    assert (row.name, row.description, row.is_public, row.id == "own") == (
        ("__DEFAULT__", "mine", False, True) if known else ("__DEFAULT__", "Default Volume Type", True, False)
    )
