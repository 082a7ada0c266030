# SPDX-License-Identifier: Apache-2.0
"""The last forecast of each pool, with the hit rate of those before it."""

import datetime
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import arithmetic
from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.history.forecast.time_to_full import (
    PHYSICAL,
    PROMISED,
    BoundForecast,
    TimeToFull,
)
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database
from tonnage.scheduler.simulation.growth_forecasts import PoolGrowth

#: A forecast that is older is not shown: its figures are too old.
_LONGEST_AGE = datetime.timedelta(days=2)

_DAY_SECONDS = 86400.0

#: The size of the smallest volume in GiB, less the rounding of binary fractions.
_SMALLEST_GB = 1.0 - arithmetic.TOLERANCE_GB


class MadeForecast(NamedTuple):
    """A forecast for a pool, its days counted from now.

    ``checked`` is the number of forecasts whose outcome is known, and ``hits`` the number of those with an outcome in
    the 80 % interval; both are 0 if they were not requested.
    """

    pool: str
    backend: str
    made_on: datetime.datetime
    forecast: BoundForecast
    hits: int = 0
    checked: int = 0

    @property
    def hit_rate(self) -> float | None:
        """The share of the checked forecasts whose interval contains the outcome, None without any."""
        return self.hits / self.checked if self.checked else None


class SoonFull(NamedTuple):
    """Forecasts as columns: pools, bounds, and the days from now until these are reached with 10, 50 and 90 %.

    A time beyond the horizon is infinite.
    """

    pools: list[str]
    bounds: list[str]
    p10: list[float]
    p50: list[float]
    p90: list[float]


def latest(
    session: orm.Session, *, backend: str | None = None, pool_name: str | None = None, hits: bool = False
) -> list[MadeForecast]:
    """Return the last forecast for each bound of each pool that is reported, by pool and bound.

    A bound that has no room now is full, also without a forecast. With ``backend`` or ``pool_name`` only those of one
    backend or pool.
    """
    row, pool, backend_model = tables.PoolForecast, models.Pool, models.Backend
    now = history_writer.database_time(session)
    statement = (
        sa.select(
            *(row.pool_id, pool.name, backend_model.name, row.bound, row.known_days),
            *(row.p10_days, row.p50_days, row.p90_days, row.low_gb, row.high_gb),
        )
        .join(pool, pool.id == row.pool_id)
        .join(backend_model, backend_model.id == pool.backend_id)
        .where(pool.present.is_(True))
    )
    if backend is not None:
        statement = statement.where(backend_model.name == backend)
    if pool_name is not None:
        statement = statement.where(pool.name == pool_name)
    checked = _checked(session, now, pool_name) if hits else {}
    forecasts = {}
    for made_on, age, of_day in _days(session, now):
        for pool_id, name, owner, bound, known_days, *numbers in session.execute(statement.where(*of_day)):
            forecast = BoundForecast(bound, known_days, _time_to_full(numbers, age))
            forecasts[name, bound] = MadeForecast(
                name, owner, made_on, forecast, *checked.get((pool_id, bound), (0, 0))
            )
    for name, owner, bound in _full_bounds(session, backend, pool_name):
        made = forecasts.get((name, bound)) or MadeForecast(name, owner, now, BoundForecast(bound, 0, None))
        forecasts[name, bound] = made._replace(forecast=replace(made.forecast, is_full=True))
    return [forecasts[key] for key in sorted(forecasts)]


def growth(database: Database) -> dict[str, PoolGrowth]:
    """Return the upper range of the growth of each pool that has a forecast, by the names of the pools.

    Raises :class:`~tonnage.capacity.errors.Unavailable` while the ledger is away.
    """
    highs: dict[str, dict[str, float]] = defaultdict(dict)
    with database.reading() as session:
        for pool_forecast in latest(session):
            estimate = pool_forecast.forecast.time_to_full
            if estimate is not None:
                highs[pool_forecast.pool][pool_forecast.forecast.bound] = estimate.high_gb
    return {
        pool: PoolGrowth(physical_gb=bounds.get(PHYSICAL), promised_gb=bounds.get(PROMISED))
        for pool, bounds in highs.items()
    }


def _full_bounds(session: orm.Session, backend: str | None, pool_name: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the pools that have no room for the smallest volume now, with their backends and the bound."""
    pool, backend_model = models.Pool, models.Backend
    own_claims, all_claims = pool.in_flight_physical_gb, pool.in_flight_physical_gb + pool.shared_in_flight_physical_gb
    # The claims of other pools are not in the limits of a part, but in the rest of its storage.
    claims = sa.case((pool.storage_free_gb.is_(None), all_claims), else_=own_claims)
    own_room, room_of_storage = pool.physical_limit_gb - claims, pool.storage_free_gb - all_claims
    conditions = {
        PHYSICAL: sa.or_(own_room < _SMALLEST_GB, room_of_storage < _SMALLEST_GB),
        PROMISED: pool.thin_limit_gb - history_writer.PROVISIONED < _SMALLEST_GB,
    }
    statement = sa.select(pool.name, backend_model.name, pool.stats["thin_provisioning_support"].as_string())
    for bound, condition in conditions.items():
        rows = session.execute(
            statement.join(backend_model, backend_model.id == pool.backend_id).where(
                *(pool.present.is_(True), condition),
                *([] if backend is None else [backend_model.name == backend]),
                *([] if pool_name is None else [pool.name == pool_name]),
            )
        )
        for name, owner, thin in rows:
            if bound == PHYSICAL or history_writer.is_thin(thin):
                yield name, owner, bound


def soon_full(session: orm.Session, *, backend: str | None = None) -> SoonFull:
    """Return the last forecasts that reach their bound within the horizon, of all pools or those of one backend."""
    row, pool = tables.PoolForecast, models.Pool
    # The first estimate is the soonest.
    statement = (
        sa.select(pool.name, row.bound, row.p10_days, row.p50_days, row.p90_days)
        .join(pool, pool.id == row.pool_id)
        .where(row.p10_days.is_not(None), pool.present.is_(True))
    )
    if backend is not None:
        statement = statement.join(models.Backend).where(models.Backend.name == backend)
    columns = SoonFull([], [], [], [], [])
    for _, age, of_day in _days(session, history_writer.database_time(session)):
        # A part at a time: the garbage collector looks through rows that are kept.
        rows = session.connection().execute(
            statement.where(*of_day), execution_options={"yield_per": dialects.CHUNK_SIZE}
        )
        for part in rows.partitions():
            pools, bounds, *estimates = zip(*part, strict=True)
            columns.pools.extend(pools)
            columns.bounds.extend(bounds)
            for column, days in zip(columns[2:], estimates, strict=True):
                column.extend([math.inf if day is None else day - age if day > age else 0.0 for day in days])
    return columns


def _days(
    session: orm.Session, now: datetime.datetime
) -> Iterator[tuple[datetime.datetime, float, list[sa.ColumnElement[bool]]]]:
    """Yield the days of the last forecasts, the last one first, their ages in days, and conditions for their rows.

    The rows of an earlier day are of pools without a later forecast.
    """
    row = tables.PoolForecast
    later: list[datetime.datetime] = []
    while True:
        before = row.made_on < later[-1] if later else row.made_on <= now
        day = session.scalar(sa.select(sa.func.max(row.made_on)).where(row.made_on > now - _LONGEST_AGE, before))
        if day is None:
            return
        later_pools = sa.select(row.pool_id).where(row.made_on.in_(later))
        age = (now - day).total_seconds() / _DAY_SECONDS
        yield day, age, [row.made_on == day, *([row.pool_id.not_in(later_pools)] if later else [])]
        later.append(day)


def soonest(made: MadeForecast) -> tuple[float, float, float]:
    """Return a sort key: the pools that are full soonest come first, those without a forecast last."""
    p10, p50, p90 = made.forecast.days
    return p50, p10, p90


def _time_to_full(numbers: list[float | None], age: float) -> TimeToFull | None:
    *days, low, high = numbers
    if low is None or high is None:
        return None
    p10, p50, p90 = (math.inf if day is None else max(0.0, day - age) for day in days)
    return TimeToFull(p10, p50, p90, low, high)


def _checked(
    session: orm.Session, now: datetime.datetime, pool_name: str | None
) -> dict[tuple[int, str], tuple[int, int]]:
    """Return the numbers of hits and of checked forecasts, by pool id and bound."""
    row = tables.PoolForecast
    statement = (
        sa.select(row.pool_id, row.bound, sa.func.sum(sa.case((row.hit.is_(True), 1), else_=0)), sa.func.count())
        .where(row.hit.is_not(None))
        .group_by(row.pool_id, row.bound)
    )
    if pool_name is not None:
        pool_id = sa.select(models.Pool.id).where(models.Pool.name == pool_name).scalar_subquery()
        # Days and pool are the begin of the primary key.
        statement = statement.where(row.made_on.in_(history_writer.forecast_days(now)), row.pool_id == pool_id)
    return {(pool_id, bound): (int(hit), int(number)) for pool_id, bound, hit, number in session.execute(statement)}
