# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db online_data_migrations``: its exit statuses, which scripts rely on."""

import pathlib

import pytest

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tests.unit.extensions import alone
from tonnage.cli import manage
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options

#: A Placement that does not answer.
ACCOUNT = "[placement]\nauth_type = admin_token\nendpoint = http://127.0.0.1:1\ntoken = t\n"
SOURCE = "[quota]\nusage_source = placement\n"


def run(folder: pathlib.Path, text: str = "", arguments: str = "", *, with_ledger: bool = True) -> int:
    url = f"sqlite:///{folder}/ledger.sqlite"
    if with_ledger:
        engine = database.create_engine(url)
        ledger_schema.create(engine)
        engine.dispose()
    conf = alone.conf_of(folder, "placement", f"{text}[database]\nconnection = {url}\n")
    database_options.register(conf)
    return command_runs.run(manage.program(), f"db online_data_migrations {arguments}".split(), conf)


def test_without_an_account_nothing_is_left_to_be_done(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "placement_allocations | 0            | 0" in printed
    assert "The section [placement] names no account, so no allocations are written" in printed


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_number_of_volumes_below_1_has_a_status_of_its_own(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    assert run(tmp_path, arguments=f"--max-count={number}") == 127
    assert capsys.readouterr().err == "--max-count takes a whole number from 1 on\n"


def test_a_source_without_an_account_is_a_failure_and_no_partial_success(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts repeat the command while its status is 1."""
    assert run(tmp_path, SOURCE) == 2
    assert "names no account" in capsys.readouterr().err


def test_without_a_database_it_fails(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, with_ledger=False) == 2
    assert "there is no database" in capsys.readouterr().err


def test_an_empty_ledger_has_no_allocations_to_write(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ACCOUNT, "--max-count 5") == 0
    assert "Running batches" not in capsys.readouterr().out
