# SPDX-License-Identifier: Apache-2.0
"""``tonnage forecast`` shows the last forecasts, the soonest first."""

import datetime
import json
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tonnage.capacity import errors
from tonnage.cli import setup, tonnage
from tonnage.extensions.history import coming_refusals, tables
from tonnage.extensions.history import forecast_commands as forecasts
from tonnage.extensions.history.coming_refusals import ComingRefusals, WantedVolume
from tonnage.extensions.history.forecast import growth_paths
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options

Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> Iterator[sa.Engine]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def run(engine: sa.Engine, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command and return its exit status and its output."""
    options = {option.dest: option.default for option in database_options.OPTIONS}
    own_database = SimpleNamespace(**{**options, "connection": str(engine.url)})
    conf: Any = SimpleNamespace(database=own_database, enabled_extensions=["history"])

    def run(line: str) -> tuple[int, str]:
        return command_runs.run(tonnage.program(), line.split(), conf), capsys.readouterr().out

    return run


def add(engine: sa.Engine, pool_id: int, p10: float | None, p50: float | None, p90: float | None, known: int) -> None:
    """Add a pool with a forecast of this moment, and two checked ones."""
    with orm.Session(engine) as session:
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        if pool_id == 1:
            session.add(models.Backend(id=1, name="host@b"))
            session.flush()
        session.add(models.Pool(id=pool_id, backend_id=1, name=f"host@b#p{pool_id}"))
        found = {"p10_days": p10, "p50_days": p50, "p90_days": p90}
        known_growth = {"low_gb": 1.0, "high_gb": 2.0} if known >= 21 else {}
        rows: list[dict[str, Any]] = [{"made_on": now, "known_days": known, **found, **known_growth}]
        rows += [
            {"made_on": now - datetime.timedelta(days=15 + hit), "known_days": 9, "hit": bool(hit)} for hit in (0, 1)
        ]
        for row in rows:
            session.execute(sa.insert(tables.PoolForecast), {"pool_id": pool_id, "bound": "physical", **row})
        session.commit()


def test_forecasts_are_ranges_and_the_soonest_is_first(engine: sa.Engine, run: Run) -> None:
    add(engine, 1, None, None, None, 60)
    add(engine, 2, 9.4, 14.0, 20.5, 60)
    add(engine, 3, None, None, None, 6)
    status, text = run("forecast")
    assert status == 0
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| host")
    ]
    assert lines == [
        ["host@b#p2", "physical", "full in 9 to 21 days (80 %)", "50 % of 2"],
        ["host@b#p1", "physical", "not within 90 days", "50 % of 2"],
        ["host@b#p3", "physical", "no forecast: 6 of 21 days of history", "50 % of 2"],
    ]
    rows = {row["pool"]: row for row in json.loads(run("forecast -f json")[1])}
    assert rows["host@b#p2"]["p10_days"] == pytest.approx(9.4, abs=0.1)
    assert (rows["host@b#p1"]["p10_days"], rows["host@b#p1"]["known_days"]) == (None, 60)
    assert rows["host@b#p1"]["hit_rate"] == 0.5


def test_within_selects_the_pools_that_are_likely_full_and_tells_by_the_status(engine: sa.Engine, run: Run) -> None:
    add(engine, 1, 3.0, 20.0, None, 60)
    add(engine, 2, 9.4, 14.0, 20.5, 60)
    status, text = run("forecast --within 14 -f value -c pool")
    assert (status, text) == (3, "host@b#p2\n")
    assert run("forecast --within 5") == (0, "No pool is expected to be full within 5 days\n")
    assert forecasts.HORIZON == growth_paths.HORIZON
    with pytest.raises(SystemExit):
        run("forecast --within 91")


def test_within_without_a_forecast_is_an_error(engine: sa.Engine, run: Run) -> None:
    with pytest.raises(errors.NotFound, match="There is no forecast: the first one is made on the day after"):
        run("forecast --within 14")
    add(engine, 1, None, None, None, 6)
    with pytest.raises(
        errors.NotFound, match=r"no pool has a forecast yet \(host@b#p1: no forecast: 6 of 21 days of history\)"
    ):
        run("forecast --within 14")


def test_a_backend_without_pools_differs_from_one_that_nobody_knows(engine: sa.Engine, run: Run) -> None:
    add(engine, 1, 3.0, 20.0, None, 60)
    assert run("forecast --backend host@b -f value -c pool") == (0, "host@b#p1\n")
    with pytest.raises(errors.NotFound, match="backend host@c could not be found"):
        run("forecast --backend host@c")


def test_without_a_forecast_the_reason_is_told(engine: sa.Engine, run: Run) -> None:
    assert run("forecast") == (
        0,
        "There is no forecast: the first one is made on the day after the first sample of the history\n",
    )


@pytest.fixture
def refusals(engine: sa.Engine) -> None:
    """Add the refusals to come of two types."""
    with orm.Session(engine) as session:
        session.add(models.VolumeType(id="t1", name="gold"))
        session.flush()
        refused = ComingRefusals(
            type_id="t1",
            known_days=30,
            runs=20,
            refused=12,
            filter="CapacityFilter",
            message="No pool for 10 GiB 'gold'",
            requests=[WantedVolume("", 5), WantedVolume("t1", 10)],
        )
        coming_refusals.store(session, [ComingRefusals(type_id="", known_days=30, runs=20), refused])
        session.commit()


@pytest.mark.usefixtures("refusals")
def test_the_types_that_will_be_refused_come_first(run: Run) -> None:
    status, text = run("forecast --refusals -f json")
    gold, none = json.loads(text)
    assert status == 3
    assert gold["forecast"] == "refused in 12 of 20 runs within 14 days, CapacityFilter first"
    assert (gold["volume_type"], gold["message"]) == ("gold", "No pool for 10 GiB 'gold'")
    assert (none["volume_type"], none["forecast"]) == ("", "not refused in 20 runs of 14 days")
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(gold["made_at"])
    assert abs(age) < datetime.timedelta(minutes=5)
    table = run("forecast --refusals")[1]
    assert "made at" in table
    assert "message" not in table


@pytest.mark.usefixtures("refusals")
def test_the_requests_up_to_a_refusal_are_printed_for_what_if(run: Run) -> None:
    first, second = run("forecast --refusals -f value -c requests")[1].splitlines()
    assert json.loads(first) == [
        {"volume": {"size": 5, "volume_type": None}},
        {"volume": {"size": 10, "volume_type": "t1"}},
    ]
    assert second == "None"
    with pytest.raises(setup.UsageError):
        run("forecast --refusals --within 3")


@pytest.mark.usefixtures("refusals")
def test_a_deleted_type_is_not_shown(engine: sa.Engine, run: Run) -> None:
    with engine.begin() as connection:
        connection.execute(sa.delete(models.VolumeType))
    assert [row["volume_type"] for row in json.loads(run("forecast --refusals -f json")[1])] == [""]


def test_without_refusals_to_come_the_source_is_told(run: Run) -> None:
    assert run("forecast --refusals") == (
        0,
        "There is no forecast of refusals: a scheduler makes one each hour from the history of volume types\n",
    )


def test_a_full_pool_is_found_without_a_forecast(engine: sa.Engine, run: Run) -> None:
    with orm.Session(engine) as session:
        session.add(models.Backend(id=1, name="host@b"))
        session.flush()
        session.add(models.Pool(id=1, backend_id=1, name="host@b#p", physical_limit_gb=0.4))
        session.commit()
    status, output = run("forecast --within 14 -f json")
    [row] = json.loads(output)
    assert (status, row["pool"], row["forecast"], row["p50_days"]) == (forecasts.FOUND, "host@b#p", "full", 0.0)
