# SPDX-License-Identifier: Apache-2.0
"""Forecasts from the history: made once a day, checked after two weeks, and kept for a while."""

import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.ledger import faults
from tonnage.extensions.history import daily_forecasts, last_forecasts, tables
from tonnage.extensions.history.daily_forecasts import Forecaster
from tonnage.extensions.history.forecast.time_to_full import PHYSICAL, PROMISED
from tonnage.extensions.history.last_forecasts import MadeForecast
from tonnage.ledger import models
from tonnage.ledger.db import database

DAY = datetime.timedelta(days=1)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[database.Database]:
    """A ledger with two pools."""
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        session.add(models.Backend(id=1, name="host@b", last_report_at=models.utcnow()))
        session.flush()
        session.add_all(models.Pool(id=number, backend_id=1, name=f"host@b#p{number}") for number in (1, 2))
        session.commit()
    found = database.Database(engine)
    yield found
    found.close()


def today(ledger: database.Database) -> datetime.datetime:
    with ledger.reading() as session:
        now = session.execute(sa.select(models.utcnow())).scalar_one()
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def add_days(ledger: database.Database, number: int, growth: float, pool_id: int = 1, limit: float = 1000.0) -> None:
    """Add the rows of some days up to yesterday, with 500 GiB in use at the end."""
    last = today(ledger) - DAY
    names = ("in_flight_max", "allocated", "created", "deleted", "moved", "deleted_sum", "moved_sum")
    zero = [f"{name}_gb" for name in names]
    rows = [
        {
            **dict.fromkeys(zero, 0),
            **{"grain": "day", "slot": last - ago * DAY, "pool_id": pool_id, "samples": 144},
            **{"total_gb": 1000.0, "used_gb": 500 - ago * growth, "provisioned_gb": 700.0},
            **{"physical_limit_gb": limit, "virtual_limit_gb": 2000.0},
        }
        for ago in range(number)
    ]
    ledger.run(lambda session: session.execute(sa.insert(tables.PoolHistory), rows))


def latest(ledger: database.Database) -> dict[tuple[str, str], MadeForecast]:
    with ledger.reading() as session:
        return {(row.pool, row.forecast.bound): row for row in last_forecasts.latest(session, hits=True)}


def test_each_bound_of_each_pool_has_a_forecast(ledger: database.Database) -> None:
    add_days(ledger, 60, 10.0)
    add_days(ledger, 7, 10.0, pool_id=2)
    assert Forecaster(ledger).work(lambda: True) == 2
    found = latest(ledger)
    physical = found["host@b#p1", PHYSICAL].forecast
    assert physical.time_to_full is not None
    # The 50 days begin at midnight.
    assert 49 <= physical.time_to_full.p10 <= physical.time_to_full.p90 <= 50
    assert found["host@b#p1", PROMISED].forecast.text() == "not within 90 days"
    assert found["host@b#p2", PHYSICAL].forecast.text() == "no forecast: 6 of 21 days of history"
    assert Forecaster(ledger).work(lambda: True) == 0


def test_forecasts_are_made_in_parts_and_go_on_where_they_ended(ledger: database.Database) -> None:
    for pool_id in (1, 2):
        add_days(ledger, 30, 1.0, pool_id)
    assert Forecaster(ledger, part=1).work(lambda: False) == 1
    assert Forecaster(ledger, part=1).work(lambda: True) == 1
    assert len(latest(ledger)) == 4


def test_a_pool_without_a_limit_is_looked_at_once_a_day(ledger: database.Database) -> None:
    add_days(ledger, 30, 1.0)
    none = {"physical_limit_gb": None, "virtual_limit_gb": None}
    ledger.run(lambda session: session.execute(sa.update(tables.PoolHistory).values(none)))
    forecaster = Forecaster(ledger)
    assert [forecaster.work(lambda: True) for _ in range(2)] == [1, 0]
    assert latest(ledger) == {}


def test_two_schedulers_make_each_forecast_once(ledger: database.Database) -> None:
    add_days(ledger, 30, 1.0)
    made = []

    def overtake(connection: sa.Connection) -> None:
        made.append(Forecaster(ledger).work(lambda: True))

    with faults.before_transaction(ledger.engine, faults.once(overtake)):
        Forecaster(ledger).work(lambda: True)
    assert made == [1]
    assert len(latest(ledger)) == 2


def test_without_a_row_of_yesterday_there_is_no_forecast(ledger: database.Database) -> None:
    add_days(ledger, 60, 10.0)
    ledger.run(lambda session: session.execute(sa.delete(tables.PoolHistory).where(tables.PoolHistory.used_gb == 500)))
    assert Forecaster(ledger).work(lambda: True) == 0
    assert latest(ledger) == {}


def test_after_two_weeks_a_forecast_is_checked(ledger: database.Database) -> None:
    """It has expected a growth of 130 to 150 GiB; another one, made on the day after, is not due."""
    add_days(ledger, 60, 10.0)
    add_days(ledger, 60, 20.0, pool_id=2)
    then = today(ledger) - 14 * DAY
    rows = [
        {"made_on": made_on, "pool_id": pool_id, "bound": PHYSICAL, "known_days": 46, "low_gb": 130.0, "high_gb": 150.0}
        for made_on in (then, then + DAY)
        for pool_id in (1, 2)
    ]
    ledger.run(lambda session: session.execute(sa.insert(tables.PoolForecast), rows))
    Forecaster(ledger).work(lambda: True)
    found = latest(ledger)
    checked = [found[f"host@b#p{number}", PHYSICAL] for number in (1, 2)]
    assert [(row.hits, row.checked) for row in checked] == [(1, 1), (0, 1)]
    assert found["host@b#p1", PHYSICAL].hit_rate == 1.0
    assert found["host@b#p1", PROMISED].hit_rate is None


def test_old_forecasts_are_deleted_in_slices(ledger: database.Database) -> None:
    now = today(ledger)
    rows = [
        {"made_on": now - ago * DAY, "pool_id": 1, "bound": bound, "known_days": 1}
        for ago in (1, 44, 46, 47)
        for bound in (PHYSICAL, PROMISED)
    ]
    ledger.run(lambda session: session.execute(sa.insert(tables.PoolForecast), rows))
    while ledger.run(daily_forecasts.purge, 1):
        pass
    with ledger.reading() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(tables.PoolForecast)) == 4


def test_an_old_forecast_is_not_shown(ledger: database.Database) -> None:
    rows = [{"made_on": today(ledger) - 2 * DAY, "pool_id": 1, "bound": PHYSICAL, "known_days": 1}]
    ledger.run(lambda session: session.execute(sa.insert(tables.PoolForecast), rows))
    assert latest(ledger) == {}
