# SPDX-License-Identifier: Apache-2.0
"""Series of forecasts and of refusals to come."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.api.monitoring.ledger_pages import page_of, samples, world_with_volumes
from tests.unit.scheduler.world import World
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.extensions.history import coming_refusals, history_writer, tables
from tonnage.extensions.history.api.history_metrics import HistorySeries
from tonnage.extensions.history.coming_refusals import ComingRefusals
from tonnage.ledger import models


@pytest.fixture
def world() -> World:
    """A thin and a thick pool."""
    return world_with_volumes()


def page_with_forecasts(world: World, **options: Any) -> LedgerPage:
    return page_of(world, series=[HistorySeries(100)], **options)


def add_forecast(world: World, pool: str, bound: str, days: Sequence[float | None], age: float = 0.0) -> None:
    """Add the forecast for a bound of a pool that was made some days ago."""

    def add(session: orm.Session) -> None:
        ids = dict(session.execute(sa.select(models.Pool.name, models.Pool.id)).all())
        now = history_writer.database_time(session)
        row = {"made_on": now - datetime.timedelta(days=age), "known_days": 60, "low_gb": 1.0, "high_gb": 2.0}
        found = dict(zip(("p10_days", "p50_days", "p90_days"), days, strict=True))
        pool_id = next(ids[name] for name in ids if name.endswith(f"#{pool}"))
        session.execute(sa.insert(tables.PoolForecast).values(**row, **found, pool_id=pool_id, bound=bound))

    world.database.run(add)


def times_to_full(page: LedgerPage) -> dict[str, float]:
    """Return the times to full in days."""
    return {
        label: value / 86400
        for (name, label), value in samples(page).items()
        if name == "tonnage_pool_time_to_full_seconds"
    }


def test_the_time_to_full_has_the_estimates_below_90_days_of_pools_that_are_up(world: World) -> None:
    add_forecast(world, "thin", "physical", (9.0, 14.0, None))
    add_forecast(world, "thick", "promised", (None, None, None))
    assert times_to_full(page_with_forecasts(world)) == {
        "host@backend#thin physical p10": pytest.approx(9, abs=0.01),
        "host@backend#thin physical p50": pytest.approx(14, abs=0.01),
    }
    assert times_to_full(page_with_forecasts(world, down_time=-1.0)) == {}


def test_the_forecast_of_the_day_before_counts_until_there_is_a_new_one(world: World) -> None:
    for pool in ("thin", "thick"):
        add_forecast(world, pool, "physical", (9.0, None, None), age=1)
    add_forecast(world, "thick", "physical", (None, None, None))
    assert times_to_full(page_with_forecasts(world)) == {"host@backend#thin physical p10": pytest.approx(8, abs=0.01)}


def test_refusals_to_come_are_shares_of_the_runs(world: World) -> None:
    found = [
        ComingRefusals(type_id="", known_days=30, runs=20, refused=12),
        ComingRefusals(type_id="deleted", known_days=6),
    ]
    world.database.run(coming_refusals.store, found)
    series = samples(page_with_forecasts(world))
    assert series["tonnage_volume_type_coming_refusals_ratio", ""] == 0.6
    now = series["tonnage_metrics_snapshot_timestamp_seconds", ""]
    assert series["tonnage_coming_refusals_timestamp_seconds", ""] == pytest.approx(now, abs=60)
