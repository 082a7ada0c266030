# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder`` shows the record of the shadow."""

import json
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tests.unit.extensions.cinder.watch.test_shadow_record import DECIDED, FINDING
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.extensions.cinder.commands import cinder
from tonnage.extensions.cinder.watch.findings import Category, Finding
from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord
from tonnage.extensions.cinder.watch.verdicts import Verdict
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options

Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def record(tmp_path: pathlib.Path) -> Iterator[ShadowRecord]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    ledger_schema.create(engine)
    own = database.Database(engine, 2)
    yield ShadowRecord(own)
    own.close()


@pytest.fixture
def run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its exit status and its output."""
    options = {option.dest: option.default for option in database_options.OPTIONS}
    options["connection"] = f"sqlite:///{tmp_path}/tonnage.sqlite"
    conf: Any = SimpleNamespace(database=SimpleNamespace(**options), enabled_extensions=["cinder"])

    def run(line: str) -> tuple[int, str]:
        return command_runs.run(tonnage.program(), line.split(), conf), capsys.readouterr().out

    return run


def test_without_a_record_there_is_an_error(record: ShadowRecord, run: Run) -> None:
    with pytest.raises(errors.NotFound, match="there is no record of Cinder's schedulers in this database"):
        run("cinder")


def test_a_watch_without_decisions_is_no_finding(record: ShadowRecord, run: Run) -> None:
    record.write([], [Finding(category=Category.GAP, subject="watch", code="start", text="the watch began")], [])
    status, shown = run("cinder")
    assert status == 0
    assert "Over-commitments that Cinder made: none" in shown


def test_agreed_decisions_and_gaps_are_no_finding(record: ShadowRecord, run: Run) -> None:
    record.write([DECIDED], [Finding(category=Category.GAP, subject="watch", code="start", text="the watch began")], [])
    status, shown = run("cinder -f json")
    found = json.loads(shown)
    assert (status, found["decisions"], found["over_commitments_number"]) == (0, 1, 0)
    [total] = found["totals"]
    assert (total["verdict"], total["decisions"], total["cinder_mean_ms"], total["tonnage_mean_ms"]) == (
        "agreed",
        1,
        200.0,
        1.0,
    )
    assert [each["code"] for each in found["gaps"]] == ["start"]


@pytest.mark.parametrize(
    ("verdict", "part"),
    [
        (Verdict.WRONG_REFUSAL, "wrong_refusals"),
        (Verdict.WRONG_PLACEMENT, "wrong_placements"),
        (Verdict.OTHER_POOL, "other_pools"),
    ],
)
def test_a_wrong_decision_is_found(record: ShadowRecord, run: Run, verdict: Verdict, part: str) -> None:
    record.write([replace(DECIDED, verdict=verdict, reason="there is no room")], [], [])
    status, shown = run("cinder -f json")
    assert status == cinder.FOUND
    assert [each["reason"] for each in json.loads(shown)[part]] == ["there is no room"]


def test_an_over_commitment_is_found_with_its_volumes(record: ShadowRecord, run: Run) -> None:
    record.write([], [replace(FINDING, numbers={"held": 105.0, "limit": 100.0})], [])
    status, shown = run("cinder -f json")
    found = json.loads(shown)
    assert (status, found["over_commitments_number"], found["over_committed_bytes"]) == (
        cinder.FOUND,
        1,
        5 * 2**30,
    )
    assert found["over_commitments"][0]["volumes"] == ["v"]


def test_requests_without_a_verdict_are_counted_by_reason(record: ShadowRecord, run: Run) -> None:
    snapshot = replace(DECIDED, verb="create_snapshot", verdict=Verdict.NOT_JUDGED, reason="a snapshot")
    record.write([snapshot, snapshot], [], [])
    status, shown = run("cinder -f json")
    assert status == 0
    assert json.loads(shown)["not_judged"] == [{"verb": "create_snapshot", "requests": 2, "reason": "a snapshot"}]


def test_the_lists_are_cut_and_the_period_is_short(record: ShadowRecord, run: Run) -> None:
    record.write([replace(DECIDED, verdict=Verdict.OTHER_POOL) for _ in range(3)], [], [])
    assert run("cinder --rows 2")[1].count("create_volume") == 2
    assert run("cinder --days 0")[0] == 0


def test_the_report_tells_when_a_shadow_ran(record: ShadowRecord, run: Run) -> None:
    record.extend_period()
    status, shown = run("cinder -f json")
    [period] = json.loads(shown)["periods"]
    assert (status, set(period)) == (0, {"found_at", "seen_at"})
    assert "Periods of the watch: 1" in run("cinder")[1]


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "1e9", "36526", "many"])
def test_a_period_is_a_number_of_days(run: Run, capsys: pytest.CaptureFixture[str], days: str) -> None:
    with pytest.raises(SystemExit):
        run(f"cinder --days {days}")
    assert f"'{days}': expected a number of days from 0 to 36525" in capsys.readouterr().err
