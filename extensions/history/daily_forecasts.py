# SPDX-License-Identifier: Apache-2.0
"""The forecasts of all pools, made once a day from the history, and checked when enough days have passed."""

import datetime
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.history import history_reader, history_writer, tables
from tonnage.extensions.history.forecast import time_to_full
from tonnage.extensions.history.forecast.time_to_full import BOUNDS, CHECKED_DAYS, BoundForecast
from tonnage.extensions.history.history_reader import DailyFigures
from tonnage.extensions.history.history_writer import Clock
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database

_DAY = datetime.timedelta(days=1)

_ROW = tables.PoolForecast


class _PoolWork(NamedTuple):
    """The new forecasts of a pool, and whether the growth since was as earlier ones said, by bound."""

    pool_id: int
    forecasts: Sequence[BoundForecast]
    hits: Mapping[str, bool]


class Forecaster:
    """Makes the forecasts of each day, after its first sample, from the history up to the day before."""

    def __init__(self, database: Database, clock: Clock = history_writer.database_time, part: int = 20) -> None:
        self._database, self._clock, self._part = database, clock, part
        self._done: datetime.datetime | None = None

    def work(self, go_on: Callable[[], bool]) -> int:
        """Make the forecasts that are missing, and return the number of their pools.

        ``go_on`` is called after each ``part`` pools, and may pause; the rest is left if it returns False. Raises
        :class:`~tonnage.capacity.errors.Unavailable` while the database is away.
        """
        with self._database.reading() as session:
            today = self._clock(session).replace(hour=0, minute=0, second=0, microsecond=0)
            if today == self._done:
                return 0
            last = history_reader.last_day(session, today)
            # Without a row of yesterday, a forecast would begin in the past.
            if last is None or last < today - _DAY:
                return 0
            done_ids = set(session.scalars(sa.select(_ROW.pool_id).where(_ROW.made_on == today).distinct()))
            missing = [pool_id for pool_id in history_reader.pools_of(session, last) if pool_id not in done_ids]
        number = 0
        for start in range(0, len(missing), self._part):
            part = missing[start : start + self._part]
            with self._database.reading() as session:
                expected = _expected(session, part, today - datetime.timedelta(days=CHECKED_DAYS))
                figures = list(history_reader.daily_figures(session, part, last))
            work = [_forecast(pool_id, pool_figures, expected.get(pool_id, {})) for pool_id, pool_figures in figures]
            self._database.run(_store, today, work)
            number += len(part)
            if not go_on():
                return number
        # Pools without a limit have no row, so the rows do not tell.
        self._done = today
        return number


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete at most ``limit`` expired forecasts, and return their number."""
    before = history_writer.database_time(session) - history_writer.FORECASTS_KEPT
    rows = session.execute(sa.select(_ROW.made_on, _ROW.pool_id).where(_ROW.made_on < before).limit(limit)).all()
    for made_on in sorted({row.made_on for row in rows}):
        ids = {row.pool_id for row in rows if row.made_on == made_on}
        session.execute(
            sa.delete(_ROW)
            .where(_ROW.made_on == made_on, _ROW.pool_id.in_(ids))
            .execution_options(synchronize_session=False)
        )
    return len(rows)


def _expected(
    session: orm.Session, pool_ids: Collection[int], made_on: datetime.datetime
) -> dict[int, dict[str, tuple[float, float]]]:
    """Return the growth that the forecasts of a day expected, from low to high, by pool and bound."""
    ranges: dict[int, dict[str, tuple[float, float]]] = {}
    for row in session.execute(
        sa.select(_ROW.pool_id, _ROW.bound, _ROW.low_gb, _ROW.high_gb).where(
            _ROW.made_on == made_on, _ROW.pool_id.in_(pool_ids), _ROW.low_gb.is_not(None)
        )
    ):
        ranges.setdefault(row.pool_id, {})[row.bound] = row.low_gb, row.high_gb
    return ranges


def _forecast(pool_id: int, figures: DailyFigures, expected: Mapping[str, tuple[float, float]]) -> _PoolWork:
    forecasts, hits = [], {}
    for bound in BOUNDS:
        growth, room = figures.growth(bound), figures.room(bound)
        if room is not None:
            forecasts.append(time_to_full.forecast(bound, growth, room))
        if bound in expected:
            low, high = expected[bound]
            # The growth over an unknown day is unknown: then nothing is said about the forecast.
            grown = float(np.sum(growth[-CHECKED_DAYS:]))
            if math.isfinite(grown):
                slack = 1e-6 * (abs(low) + abs(high)) + 1e-6
                hits[bound] = low - slack <= grown <= high + slack
    return _PoolWork(pool_id, forecasts, hits)


def _store(session: orm.Session, today: datetime.datetime, work: Sequence[_PoolWork]) -> None:
    """Store forecasts, unless another scheduler has just done so."""
    session.scalar(sa.select(tables.HistoryTurn.number).with_for_update())
    ids = [pool_work.pool_id for pool_work in work]
    stored_ids = set(session.scalars(sa.select(_ROW.pool_id).where(_ROW.made_on == today, _ROW.pool_id.in_(ids))))
    rows = [
        _values(today, pool_work.pool_id, forecast)
        for pool_work in work
        if pool_work.pool_id not in stored_ids
        for forecast in pool_work.forecasts
    ]
    if rows:
        session.execute(sa.insert(_ROW), rows)
    then = today - datetime.timedelta(days=CHECKED_DAYS)
    hits = [
        {"made_on": then, "pool_id": pool_work.pool_id, "bound": bound, "hit": hit}
        for pool_work in work
        for bound, hit in pool_work.hits.items()
    ]
    if hits:
        session.execute(sa.update(_ROW), hits)


def _values(today: datetime.datetime, pool_id: int, forecast: BoundForecast) -> dict[str, object]:
    estimate = forecast.time_to_full
    row: dict[str, object] = {
        "made_on": today,
        "pool_id": pool_id,
        "bound": forecast.bound,
        "known_days": forecast.known_days,
    }
    if estimate is not None:
        for name in ("p10", "p50", "p90"):
            days = getattr(estimate, name)
            row[f"{name}_days"] = days if math.isfinite(days) else None
        row |= {"low_gb": estimate.low_gb, "high_gb": estimate.high_gb}
    keys = ("p10_days", "p50_days", "p90_days", "low_gb", "high_gb", "hit")
    return {**dict.fromkeys(keys), **row}
