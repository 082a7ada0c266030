# SPDX-License-Identifier: Apache-2.0
"""The refusals to come of each volume type, as a scheduler has last found them."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.history.forecast.growth_paths import LEAST_HISTORY
from tonnage.ledger import models

#: Days that a run plays.
DAYS = 14

#: Older forecasts are not shown: the pools have changed since.
_LONGEST_AGE = datetime.timedelta(days=1)

_ROW = tables.ComingRefusals


class WantedVolume(NamedTuple):
    """A volume that a run requests: the id of its type, empty without one, and its size in GiB."""

    type_id: str
    size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingRefusals:
    """The number of runs in which a type was refused, and the filter that refused it first in most of them.

    ``known_days`` is the length of the history. With too few days there are no ``runs``. ``requests`` are those of one
    of the runs up to the first refusal, and ``message`` is its reason; both are empty without a refusal.
    """

    type_id: str
    known_days: int
    runs: int = 0
    refused: int = 0
    filter: str | None = None
    message: str | None = None
    requests: Sequence[WantedVolume] = ()

    def text(self) -> str:
        """Return the result in words."""
        if not self.runs:
            return f"no forecast: {self.known_days} of {LEAST_HISTORY} days of history"
        if not self.refused:
            return f"not refused in {self.runs} runs of {DAYS} days"
        return f"refused in {self.refused} of {self.runs} runs within {DAYS} days, {self.filter} first"


class StoredRefusals(NamedTuple):
    """The refusals to come of a volume type by its name, which is empty for volumes without one, and their time."""

    volume_type: str
    made_at: datetime.datetime
    of: ComingRefusals


def store(session: orm.Session, coming_refusals: Iterable[ComingRefusals]) -> None:
    """Replace the refusals to come of all types."""
    # Transactions take turns: each deletes the rows of the one before.
    session.scalar(sa.select(tables.HistoryTurn.number).with_for_update())
    session.execute(sa.delete(_ROW))
    now = history_writer.database_time(session)
    rows = [
        {
            "type_id": refusals.type_id,
            "made_at": now,
            "known_days": refusals.known_days,
            "runs": refusals.runs,
            "refused": refusals.refused,
            "filter": refusals.filter,
            "message": refusals.message,
            "requests": [list(request) for request in refusals.requests] or None,
        }
        for refusals in coming_refusals
    ]
    if rows:
        session.execute(sa.insert(_ROW), rows)


def latest(session: orm.Session, *, requests: bool = True) -> list[StoredRefusals]:
    """Return the refusals to come of all types, the most refused one first, if they are at most a day old.

    Without ``requests``, which may be many, these are empty.
    """
    now, volume_type = history_writer.database_time(session), models.VolumeType
    statement = (
        sa.select(_ROW, volume_type.name)
        .outerjoin(volume_type, volume_type.id == _ROW.type_id)
        # A type may have been deleted since.
        .where(
            _ROW.made_at > now - _LONGEST_AGE,
            _ROW.made_at <= now,
            sa.or_(_ROW.type_id == "", volume_type.id.is_not(None)),
        )
        .order_by(_ROW.refused.desc(), _ROW.type_id)
    )
    if not requests:
        statement = statement.options(orm.defer(_ROW.requests))
    return [
        StoredRefusals(
            name or "",
            row.made_at,
            ComingRefusals(
                type_id=row.type_id,
                known_days=row.known_days,
                runs=row.runs,
                refused=row.refused,
                filter=row.filter,
                message=row.message,
                requests=[WantedVolume(*request) for request in row.requests or ()] if requests else (),
            ),
        )
        for row, name in session.execute(statement)
    ]


def age(session: orm.Session) -> float | None:
    """Return the seconds since refusals to come were last stored; None without any."""
    made_at = session.scalar(sa.select(sa.func.max(_ROW.made_at)))
    return None if made_at is None else (history_writer.database_time(session) - made_at).total_seconds()
