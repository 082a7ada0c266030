# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db``: the revisions of the core and of each extension."""

import pathlib

import pytest

from tests.unit.cli import command_runs
from tonnage.capacity import errors
from tonnage.ledger.db import database, schema


def test_the_database_commands_show_each_extension(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = "The tables of extension history are at revision"
    assert command_runs.manage("db sync", tmp_path) == 0
    assert f"{tables} history_0001 (they were at none)\n" in capsys.readouterr().out
    assert command_runs.manage("db version", tmp_path) == 0
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
        assert command_runs.manage("db check", tmp_path) == status
        assert text in capsys.readouterr().out
    engine.dispose()


def test_a_sync_of_a_ledger_that_cannot_be_written_fails(tmp_path: pathlib.Path) -> None:
    assert command_runs.manage("db sync", tmp_path) == 0
    assert command_runs.manage("db sync", tmp_path) == 0
    engine = database.create_engine(f"sqlite:///{tmp_path}/sub/tonnage.sqlite")
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE write_probes RENAME TO elsewhere")
    with pytest.raises(errors.DatabaseUnreachable, match=r"the ledger cannot be written: .*write_probes"):
        command_runs.manage("db sync", tmp_path)
    engine.dispose()
