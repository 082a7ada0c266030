# SPDX-License-Identifier: Apache-2.0
"""A scheduler with the extension ``replay`` alone."""

import pathlib

import pytest

from tests.unit.extensions import alone
from tonnage import extension
from tonnage.capacity import errors
from tonnage.extensions.replay.decision_log import DecisionLog
from tonnage.ledger.db.database import Database


@pytest.mark.parametrize("is_set", [False, True])
def test_decisions_are_recorded_if_a_file_is_named(tmp_path: pathlib.Path, ledger: Database, is_set: bool) -> None:
    log = tmp_path / "decisions.jsonl"
    conf = alone.conf_of(tmp_path, "replay", f"decision_log = {log}\n" if is_set else "")
    with alone.scheduler(conf, ledger) as parts:
        assert [type(observer) for observer in parts.decision_observers] == [DecisionLog] * is_set
        assert len(parts.closers) == is_set
    assert log.exists() is is_set


def test_a_file_that_cannot_be_written_keeps_the_scheduler_from_starting(
    tmp_path: pathlib.Path, ledger: Database
) -> None:
    conf = alone.conf_of(tmp_path, "replay", f"decision_log = {tmp_path}/nowhere/log\n")
    with pytest.raises(errors.ConfigurationError, match="decision_log"), alone.scheduler(conf, ledger):
        pass


def test_it_stores_and_serves_nothing() -> None:
    assert alone.tables("replay") == alone.paths("replay") == alone.rules("replay") == set()
    assert extension.installed()["replay"].commands.keys() == {"replay"}
