# SPDX-License-Identifier: Apache-2.0
"""The last forecast of each pool."""

import datetime
import math
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.history import last_forecasts, tables
from tonnage.extensions.history.forecast.time_to_full import PHYSICAL, PROMISED, BoundForecast, TimeToFull
from tonnage.extensions.history.last_forecasts import MadeForecast
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.scheduler.simulation.growth_forecasts import PoolGrowth

DAY = datetime.timedelta(days=1)


@pytest.fixture
def session() -> Iterator[orm.Session]:
    """A ledger with the pools 1 and 2 of one backend, and 3 of another one."""
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        session.add_all([models.Backend(id=1, name="h@b"), models.Backend(id=2, name="h@c")])
        session.flush()
        session.add_all(
            models.Pool(id=number, backend_id=backend, name=name, present=True)
            for number, backend, name in ((1, 1, "h@b#p"), (2, 1, "h@b#q"), (3, 2, "h@c#p"))
        )
        session.flush()
        yield session
    engine.dispose()


def midnight(session: orm.Session, days_ago: float = 0) -> datetime.datetime:
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - days_ago * DAY


def add(session: orm.Session, pool_id: int, *days: float | None, days_ago: float = 0, **columns: Any) -> None:
    """Add a forecast with its three days."""
    p10, p50, p90 = days or (None, None, None)
    row = {"bound": PHYSICAL, "known_days": 30, "low_gb": 1.0, "high_gb": 9.0, **columns}
    session.add(
        tables.PoolForecast(
            made_on=midnight(session, days_ago), pool_id=pool_id, p10_days=p10, p50_days=p50, p90_days=p90, **row
        )
    )
    session.flush()


def pools(rows: list[MadeForecast]) -> list[tuple[str, str]]:
    return [(row.pool, row.forecast.bound) for row in rows]


def test_the_days_of_a_forecast_count_from_now(session: orm.Session) -> None:
    add(session, 1, 0.0, 40.0, None)
    [row] = last_forecasts.latest(session)
    estimate = row.forecast.time_to_full
    assert estimate is not None
    # The full day has begun at midnight, and what is over is not in the past.
    assert 39.0 <= estimate.p50 <= 40.0
    assert (estimate.p10, estimate.p90, estimate.low_gb, estimate.high_gb) == (0.0, math.inf, 1.0, 9.0)
    assert (row.pool, row.backend, row.made_on) == ("h@b#p", "h@b", midnight(session))


def test_a_pool_with_too_short_a_history_has_no_days(session: orm.Session) -> None:
    add(session, 1, low_gb=None, high_gb=None, known_days=6)
    [row] = last_forecasts.latest(session)
    assert row.forecast == BoundForecast(PHYSICAL, 6, None)


def test_the_growth_of_a_pool_is_the_upper_range_of_both_bounds(session: orm.Session) -> None:
    add(session, 1, 1.0, 2.0, 3.0)
    add(session, 1, bound=PROMISED, high_gb=20.0)
    add(session, 2, bound=PROMISED, high_gb=-3.0)
    add(session, 3, low_gb=None, high_gb=None, known_days=6)
    session.commit()
    assert last_forecasts.growth(database.Database(session.get_bind().engine)) == {
        "h@b#p": PoolGrowth(physical_gb=9.0, promised_gb=20.0),
        "h@b#q": PoolGrowth(physical_gb=None, promised_gb=-3.0),
    }


def test_forecasts_are_sorted_and_limited_to_a_backend_or_a_pool(session: orm.Session) -> None:
    for pool_id in (3, 1, 2):
        add(session, pool_id, 1.0, 2.0, 3.0)
    add(session, 1, 1.0, 2.0, 3.0, bound=PROMISED)
    expected = [("h@b#p", PHYSICAL), ("h@b#p", PROMISED), ("h@b#q", PHYSICAL), ("h@c#p", PHYSICAL)]
    assert pools(last_forecasts.latest(session)) == expected
    assert pools(last_forecasts.latest(session, backend="h@c")) == expected[3:]
    assert pools(last_forecasts.latest(session, pool_name="h@b#p")) == expected[:2]


def test_a_pool_without_a_forecast_of_today_has_that_of_yesterday(session: orm.Session) -> None:
    for pool_id, days_ago in ((1, 0), (1, 1), (2, 1)):
        add(session, pool_id, 50.0, 50.0, 50.0, days_ago=days_ago)
    rows = last_forecasts.latest(session)
    assert [(row.pool, row.made_on) for row in rows] == [
        ("h@b#p", midnight(session)),
        ("h@b#q", midnight(session, 1)),
    ]
    assert last_forecasts.soon_full(session).pools == ["h@b#p", "h@b#q"]


@pytest.mark.parametrize("days_ago", [3, -1])
def test_older_forecasts_and_those_of_the_future_are_not_shown(session: orm.Session, days_ago: int) -> None:
    add(session, 1, 1.0, 2.0, 3.0, days_ago=days_ago)
    assert last_forecasts.latest(session) == []
    assert last_forecasts.soon_full(session).pools == []


def test_a_pool_that_is_not_reported_has_no_forecast(session: orm.Session) -> None:
    add(session, 1, 1.0, 2.0, 3.0)
    session.execute(sa.update(models.Pool).values(present=False))
    assert last_forecasts.latest(session) == []
    assert last_forecasts.soon_full(session).pools == []


def test_the_hit_rate_counts_the_checked_forecasts(session: orm.Session) -> None:
    add(session, 1, 1.0, 2.0, 3.0)
    for days_ago, hit in ((14, True), (15, True), (16, False), (17, None)):
        add(session, 1, 1.0, 2.0, 3.0, days_ago=days_ago, hit=hit)
    for options in ({}, {"pool_name": "h@b#p"}):
        [row] = last_forecasts.latest(session, hits=True, **options)
        assert (row.hits, row.checked, row.hit_rate) == (2, 3, pytest.approx(2 / 3))
    [row] = last_forecasts.latest(session)
    assert (row.checked, row.hit_rate) == (0, None)


def test_pools_that_are_not_full_within_the_horizon_are_left_out(session: orm.Session) -> None:
    add(session, 1, 2.0, 9.0, None)
    add(session, 2, None, None, None)
    add(session, 3, 0.0, 0.0, 9.0, bound=PROMISED)
    columns = last_forecasts.soon_full(session)
    assert (columns.pools, columns.bounds) == (["h@b#p", "h@c#p"], [PHYSICAL, PROMISED])
    assert 1.0 <= columns.p10[0] <= 2.0
    assert columns.p90[0] == math.inf
    assert (columns.p10[1], columns.p50[1]) == (0.0, 0.0)
    assert last_forecasts.soon_full(session, backend="h@c").pools == ["h@c#p"]


def test_the_pools_that_are_full_soonest_come_first() -> None:
    def made(name: str, *days: float) -> MadeForecast:
        estimate = TimeToFull(*days, low_gb=0.0, high_gb=0.0) if days else None
        return MadeForecast(name, "h@b", datetime.datetime(2026, 1, 1), BoundForecast(PHYSICAL, 30, estimate))  # noqa: DTZ001  -- as the ledger has times

    rows = [made("none"), made("later", 1, 9, 9), made("never", math.inf, math.inf, math.inf), made("soon", 2, 8, 9)]
    rows.append(made("sooner", 1, 8, 20))
    order = [row.pool for row in sorted(rows, key=last_forecasts.soonest)]
    assert order[:3] == ["sooner", "soon", "later"]


def full_bounds(session: orm.Session) -> list[tuple[str, str]]:
    """Return the bounds of pools that are full."""
    return pools([row for row in last_forecasts.latest(session) if row.forecast.text() == "full"])


THIN = {"thin_provisioning_support": True}


@pytest.mark.parametrize(
    ("figures", "bounds"),
    [
        ({"physical_limit_gb": 0.0}, [PHYSICAL]),
        ({"physical_limit_gb": 5.0, "in_flight_physical_gb": 3, "shared_in_flight_physical_gb": 2}, [PHYSICAL]),
        ({"physical_limit_gb": 5.0, "in_flight_physical_gb": 3}, []),
        # A part of a storage: the claims of other parts are those of the storage.
        ({"physical_limit_gb": 5.0, "shared_in_flight_physical_gb": 5, "storage_free_gb": 9.0}, []),
        ({"physical_limit_gb": 5.0, "shared_in_flight_physical_gb": 9, "storage_free_gb": 9.0}, [PHYSICAL]),
        ({"thin_limit_gb": 36.0, "provisioned_capacity_gb": 144.0, "stats": THIN}, [PROMISED]),
        ({"thin_limit_gb": 36.0, "provisioned_capacity_gb": 30.0, "in_flight_gb": 6, "stats": THIN}, [PROMISED]),
        ({"thin_limit_gb": 36.0, "allocated_capacity_gb": 36, "stats": THIN}, [PROMISED]),
        ({"thin_limit_gb": 36.0, "provisioned_capacity_gb": 35.0, "stats": THIN}, []),
        # Nothing counts against the limit of thin volumes in a pool without them.
        ({"thin_limit_gb": 36.0, "provisioned_capacity_gb": 144.0, "stats": {}}, []),
        ({"present": False, "physical_limit_gb": 0.0}, []),
    ],
)
def test_a_bound_without_room_is_full_with_and_without_a_forecast(
    session: orm.Session, figures: dict[str, Any], bounds: list[str]
) -> None:
    session.execute(sa.update(models.Pool).where(models.Pool.id == 1).values(figures))
    assert full_bounds(session) == [("h@b#p", bound) for bound in bounds]
    for bound in (PHYSICAL, PROMISED):
        add(session, 1, 5.0, 5.5, 6.0, bound=bound)
    assert full_bounds(session) == [("h@b#p", bound) for bound in bounds]


def test_full_pools_are_those_of_the_backend_and_the_first(session: orm.Session) -> None:
    session.execute(sa.update(models.Pool).values(physical_limit_gb=0.0))
    add(session, 2, 5.0, 5.5, 6.0, bound=PROMISED)
    assert pools(last_forecasts.latest(session, backend="h@c")) == [("h@c#p", PHYSICAL)]
    assert pools(last_forecasts.latest(session, pool_name="h@b#q")) == [("h@b#q", PHYSICAL), ("h@b#q", PROMISED)]
    soonest = sorted(last_forecasts.latest(session), key=last_forecasts.soonest)
    assert [row.forecast.text() for row in soonest][:3] == ["full"] * 3
