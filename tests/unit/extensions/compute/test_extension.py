# SPDX-License-Identifier: Apache-2.0
"""A scheduler with the extension ``compute`` alone."""

import pathlib

import pytest

from tests.unit.extensions import alone
from tonnage import enabled_extensions, extension
from tonnage.capacity import errors
from tonnage.extensions.compute.instance_hosts import InstanceHosts
from tonnage.ledger.db.database import Database

ACCOUNT = "[nova]\nauth_type = none\nendpoint = http://127.0.0.1:1\n"


@pytest.mark.parametrize(("text", "number"), [("", 0), (ACCOUNT, 1)])
def test_requests_are_prepared_if_there_is_an_account(
    tmp_path: pathlib.Path, ledger: Database, text: str, number: int
) -> None:
    with alone.scheduler(alone.conf_of(tmp_path, "compute", text), ledger) as parts:
        assert [type(preparation) for preparation in parts.preparations] == [InstanceHosts] * number
        assert [preparation.extension for preparation in parts.preparations] == ["compute"] * number


def test_an_unusable_account_is_refused_before_the_start(tmp_path: pathlib.Path) -> None:
    enabled_extensions.check(alone.conf_of(tmp_path, "compute"))
    with pytest.raises(errors.ConfigurationError, match=r"section \[nova\]"):
        enabled_extensions.check(alone.conf_of(tmp_path, "compute", "[nova]\nauth_type = sorcery\n"))


def test_it_stores_and_serves_nothing() -> None:
    assert alone.tables("compute") == alone.paths("compute") == alone.rules("compute") == set()
    assert not extension.installed()["compute"].has_transaction_hooks
