# SPDX-License-Identifier: Apache-2.0
"""Tests of ``tonnage-manage`` without a database, and with an empty one."""

import os
import pathlib
from types import SimpleNamespace

import pytest

from tests.unit.cli import command_runs
from tonnage.capacity import errors
from tonnage.cli import manage
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import options as database_options

COMMANDS = (
    "ledger check",
    "ledger repair",
    "ledger repair --dry-run",
    "orphan list",
    "orphan purge h@b#p name --yes",
    "backend list",
    "driver audit",
    "backend disable h@b",
    "backend remove h@b --volumes-are-lost",
)


def run(line: str, folder: pathlib.Path) -> int:
    options = {option.dest: option.default for option in database_options.OPTIONS}
    options["connection"] = f"sqlite:///{folder}/sub/tonnage.sqlite"
    conf = SimpleNamespace(database=SimpleNamespace(**options), service_down_time=60, enabled_extensions=["history"])
    return command_runs.run(manage.program(), line.split(), conf)


def test_only_a_sync_creates_a_database(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (*COMMANDS, "db version"):
        with pytest.raises(errors.ConfigurationError, match=r"there is no database .* run 'tonnage-manage db sync'"):
            run(line, tmp_path)
    assert run("db check", tmp_path) == 3
    assert capsys.readouterr().out.startswith("There is no database ")
    assert os.listdir(tmp_path) == []
    assert run("db sync", tmp_path) == 0
    assert run("db check", tmp_path) == 0
    assert run("backend list", tmp_path) == 0
    assert f"The database is at revision {schema.HEAD} (it was at none)" in capsys.readouterr().out


def test_the_database_commands_show_each_extension(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = "The tables of extension history are at revision"
    assert run("db sync", tmp_path) == 0
    assert f"{tables} history_0001 (they were at none)\n" in capsys.readouterr().out
    assert run("db version", tmp_path) == 0
    assert capsys.readouterr().out == f"{schema.HEAD}\nhistory_0001\n"
    engine = database.create_engine(f"sqlite:///{tmp_path}/sub/tonnage.sqlite")
    for revision, status, text in (
        ("history_0001", 0, f"{tables} history_0001, as this release needs it\n"),
        ("history_0009", 0, f"{tables} history_0009; this release is made for history_0001\n"),
        ("history_0000", 3, f"{tables} history_0000; this release is made for history_0001\n"),
    ):
        with engine.begin() as connection:
            connection.exec_driver_sql(
                f"UPDATE alembic_version SET version_num = '{revision}' WHERE version_num LIKE 'history%'"
            )
        assert run("db check", tmp_path) == status
        assert text in capsys.readouterr().out
    engine.dispose()


def test_a_reason_that_is_too_long_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PostgreSQL and MariaDB store at most 255 characters, and fail with a traceback otherwise."""
    assert run("db sync", tmp_path) == 0
    for action in ("disable", "drain"):
        with pytest.raises(SystemExit) as ended:
            run(f"backend {action} h@b --reason {'x' * 256}", tmp_path)
        assert ended.value.code == 2
        assert "--reason: it has 256 characters: expected at most 255" in capsys.readouterr().err
        with pytest.raises(errors.NotFound):
            run(f"backend {action} h@b --reason {'x' * 255}", tmp_path)


@pytest.mark.parametrize("line", COMMANDS)
def test_errors_about_a_database_without_tables_name_the_solution(line: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tonnage.sqlite").touch()
    with pytest.raises(errors.ConfigurationError, match=r"at revision none, .* run 'tonnage-manage db sync'"):
        run(line, tmp_path)
