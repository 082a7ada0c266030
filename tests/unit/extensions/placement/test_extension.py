# SPDX-License-Identifier: Apache-2.0
"""Processes with the extension ``placement`` alone."""

import pathlib

import pytest

from tests.unit.extensions import alone
from tonnage import enabled_extensions, extension
from tonnage.capacity import errors
from tonnage.extensions.placement.sync_thread import SyncThread
from tonnage.ledger.db.database import Database

ACCOUNT = "[placement]\nauth_type = admin_token\nendpoint = http://127.0.0.1:1\ntoken = t\n"
SOURCE = "[quota]\nusage_source = placement\n"


def test_a_ledger_has_the_table_of_allocations() -> None:
    assert alone.tables("placement") == {"placement_allocations"}
    assert alone.paths("placement") == set()


@pytest.mark.parametrize(("text", "number"), [("", 0), (ACCOUNT, 0), (ACCOUNT + SOURCE, 1)])
def test_a_scheduler_writes_allocations_only_if_usage_is_counted_from_there(
    tmp_path: pathlib.Path, ledger: Database, text: str, number: int
) -> None:
    with alone.scheduler(alone.conf_of(tmp_path, "placement", text), ledger) as parts:
        assert [type(work) for work in parts.background] == [SyncThread] * number
        assert len(parts.preparations) == number


def test_a_source_without_an_account_is_refused_before_the_start(tmp_path: pathlib.Path) -> None:
    enabled_extensions.check(alone.conf_of(tmp_path, "placement"))
    with pytest.raises(errors.ConfigurationError, match=r"section \[placement\] names no account"):
        enabled_extensions.check(alone.conf_of(tmp_path, "placement", SOURCE))


def test_its_commands_and_its_source_have_the_names_that_operators_type() -> None:
    declaration = extension.installed()["placement"]
    assert declaration.manage_commands.keys() == {"db online_data_migrations"}
    assert declaration.usage_sources.keys() == {"placement"}
