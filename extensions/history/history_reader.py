# SPDX-License-Identifier: Apache-2.0
"""The daily figures of pools from the history, as series for a forecast."""

import datetime
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.history.forecast import growth, growth_paths
from tonnage.extensions.history.forecast.time_to_full import PHYSICAL, PROMISED
from tonnage.extensions.history.history_writer import DAY
from tonnage.ledger import models
from tonnage.ledger.db import dialects

Floats = npt.NDArray[np.float64]

#: Days of history that a forecast reads: the growth of a day needs the day before.
_DAYS = growth_paths.LONGEST_HISTORY + 1

_COLUMNS = ("total_gb", "used_gb", "provisioned_gb", "physical_limit_gb", "virtual_limit_gb", "moved_sum_gb")


@dataclass(frozen=True, slots=True)
class DailyFigures:
    """The figures of a pool at the ends of consecutive days in GiB, ``nan`` in holes and where they are unknown."""

    total: Floats
    used: Floats
    provisioned: Floats
    physical_limit: Floats
    virtual_limit: Floats
    moved_sum: Floats

    def growth(self, bound: str) -> Floats:
        """Return the growth of the capacity that a bound limits, on each day but the first, without migrations."""
        if bound == PROMISED:
            # A step of the physical size is no break here: it changes the limit alone.
            return growth.daily_growth(self.provisioned, moved=self._moved(1.0))
        # The physical part of the migrated volumes is that of the pool, as far as is known.
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(self.used / self.provisioned, 0.0, 1.0)
        return growth.daily_growth(self.used, self.total, moved=self._moved(np.nan_to_num(share, nan=1.0)))

    def room(self, bound: str) -> float | None:
        """Return the rest of a limit at the end of the last day; None without a limit or with unknown figures."""
        limit, used = {
            PHYSICAL: (self.physical_limit, self.used),
            PROMISED: (self.virtual_limit, self.provisioned),
        }[bound]
        room = float(limit[-1] - used[-1])
        return room if np.isfinite(room) else None

    def _moved(self, share: "Floats | float") -> Floats:
        """Return the capacity that migrations have brought on each day, a part of it physically."""
        indexes = np.flatnonzero(~np.isnan(self.moved_sum))
        moved = np.zeros(self.moved_sum.size)
        if indexes.size:
            moved[indexes[1:]] = np.diff(self.moved_sum[indexes])
        return moved * share


class TypeDay(NamedTuple):
    """The volumes of a type on one day: the number of new ones, their sum, and the growth of all, in GiB."""

    creates: int
    created_gb: int
    grown_gb: int


def type_days(session: orm.Session, last: datetime.datetime, days: int) -> list[dict[str, TypeDay] | None]:
    """Return the volumes of each type by its id, on some days up to ``last``; None is a hole.

    Types that have been deleted are left out. Volumes without a type have an empty id.
    """
    row = tables.TypeHistory
    first = last - datetime.timedelta(days=days - 1)
    type_ids = {"", *session.scalars(sa.select(models.VolumeType.id))}
    figures: list[dict[str, TypeDay] | None] = [None] * days
    for slot, type_id, creates, created, deleted, retyped in session.execute(
        sa.select(row.slot, row.type_id, row.creates, row.created_gb, row.deleted_gb, row.retyped_gb).where(
            row.grain == DAY, row.slot >= first, row.slot <= last
        )
    ):
        day = figures[(slot - first).days] or {}
        figures[(slot - first).days] = day
        if type_id in type_ids:
            day[type_id] = TypeDay(creates, created, created - deleted + retyped)
    return figures


def last_day(session: orm.Session, now: datetime.datetime) -> datetime.datetime | None:
    """Return the last day before today that has rows, None without any."""
    row = tables.PoolHistory
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return session.scalar(sa.select(sa.func.max(row.slot)).where(row.grain == DAY, row.slot < today))


def pools_of(session: orm.Session, day: datetime.datetime) -> list[int]:
    """Return the ids of the pools that exist and have a row of a day, sorted."""
    row, pool = tables.PoolHistory, models.Pool
    statement = sa.select(row.pool_id).join(pool, pool.id == row.pool_id).where(row.grain == DAY, row.slot == day)
    return list(session.scalars(statement.order_by(row.pool_id)))


def daily_figures(
    session: orm.Session, pool_ids: Collection[int], last: datetime.datetime, days: int = _DAYS
) -> Iterator[tuple[int, DailyFigures]]:
    """Yield the figures of pools on some days up to ``last``, by pool id."""
    row = tables.PoolHistory
    first = last - datetime.timedelta(days=days - 1)
    slots = [first + datetime.timedelta(days=number) for number in range(days)]
    columns = [getattr(row, name) for name in _COLUMNS]
    for chunk in dialects.in_chunks(sorted(pool_ids)):
        rows = session.execute(
            sa.select(row.pool_id, row.slot, *columns).where(
                row.grain == DAY, row.slot.in_(slots), row.pool_id.in_(chunk)
            )
        )
        figures = {pool_id: np.full((len(_COLUMNS), days), np.nan) for pool_id in chunk}
        for pool_id, slot, *values in rows:
            figures[pool_id][:, (slot - first).days] = [np.nan if value is None else value for value in values]
        for pool_id, of_pool in figures.items():
            yield pool_id, DailyFigures(*of_pool)


def slots_of(session: orm.Session, pool_name: str, grain: str) -> list[tables.PoolHistory] | None:
    """Return the rows of a pool with one grain, the oldest first; None if the ledger does not know the pool."""
    pool_id = session.scalar(sa.select(models.Pool.id).where(models.Pool.name == pool_name))
    if pool_id is None:
        return None
    row = tables.PoolHistory
    slots = history_writer.kept_slots(history_writer.database_time(session), grain)
    statement = sa.select(row).where(row.grain == grain, row.slot.in_(slots), row.pool_id == pool_id)
    return list(session.scalars(statement.order_by(row.slot)))
