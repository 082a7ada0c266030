# SPDX-License-Identifier: Apache-2.0
"""Processes with the extension ``history`` alone."""

import pathlib

from tests.unit.api.cluster import configuration
from tests.unit.extensions import alone
from tonnage import enabled_extensions, extension
from tonnage.extensions.history.history_thread import HistoryThread
from tonnage.ledger.db.database import Database


def test_a_ledger_has_the_tables_of_the_history() -> None:
    assert alone.tables("history") == {
        "history_turn",
        "pool_history",
        "type_history",
        "pool_forecasts",
        "coming_refusals",
    }


def test_a_scheduler_writes_and_purges_on_a_thread(tmp_path: pathlib.Path, ledger: Database) -> None:
    with alone.scheduler(alone.conf_of(tmp_path, "history"), ledger) as parts:
        assert [type(work) for work in parts.background] == [HistoryThread]
        assert len(parts.purges) == 2
        assert parts.report_observers == parts.decision_observers == []


def test_the_api_serves_forecasts_without_the_web_page() -> None:
    expected = {f"/capacity-overview/{part}" for part in ("forecasts", "coming-refusals", "history")}
    assert alone.paths("history") == expected
    assert alone.rules("history") == {"capacity:overview"}


def test_the_page_of_metrics_has_its_series() -> None:
    [build] = enabled_extensions.parts(configuration(enabled_extensions=["history"]), "metrics").values()
    assert callable(build(10).add)


def test_it_adds_no_statements_to_transactions_of_the_core() -> None:
    assert enabled_extensions.with_transaction_hooks(configuration(enabled_extensions=["history"])) == ""
    assert extension.installed()["history"].commands.keys() == {"forecast"}
