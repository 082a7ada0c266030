# SPDX-License-Identifier: Apache-2.0
"""The writer of the history: a sample of all pools and volume types every ten minutes, in rows of each grain.

Any scheduler may take the turn for the next sample. It writes the sample in parts, and each part checks that no later
turn was taken, so there is one row for each slot whoever writes it. Whatever was not sampled is a hole: a pool whose
backend is down has no rows, and nothing is filled in later.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_utils import strutils
from sqlalchemy import orm

from tonnage.extensions.history import tables
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database

TEN_MINUTES, HOUR, DAY = "ten_minutes", "hour", "day"

#: Seconds between two samples: the length of the shortest slot, so that each has one.
INTERVAL = 600.0

#: Time for which the rows of each grain are kept.
KEPT = {
    TEN_MINUTES: datetime.timedelta(days=1),
    HOUR: datetime.timedelta(days=14),
    DAY: datetime.timedelta(days=400),
}

#: Time for which forecasts are kept: those of a month are checked.
FORECASTS_KEPT = datetime.timedelta(days=45)

_LENGTHS = {
    TEN_MINUTES: datetime.timedelta(seconds=INTERVAL),
    HOUR: datetime.timedelta(hours=1),
    DAY: datetime.timedelta(days=1),
}

#: A last sample that is further in the future comes from a clock that was wrong then.
_WRONG_CLOCK = datetime.timedelta(days=1)

_NEVER = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  -- as the ledger has times

_IN_FLIGHT = models.Pool.in_flight_gb + models.Pool.shared_in_flight_gb

#: The provisioned capacity of a pool with the claims in flight, for queries of pools.
PROVISIONED = sa.func.coalesce(
    models.Pool.provisioned_capacity_gb + _IN_FLIGHT,
    models.Pool.allocated_capacity_gb + models.Pool.shared_allocated_gb + models.Pool.external_gb,
)

#: A function that returns the time by the database's clock.
Clock = Callable[[orm.Session], datetime.datetime]

_Row = Mapping[str, Any]
_Slots = Mapping[str, datetime.datetime]


def is_thin(support: str | None) -> bool:
    """Return whether a pool can have thin volumes, by the text of its report."""
    return bool(support) and strutils.bool_from_string(support)


def database_time(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock."""
    return session.execute(sa.select(models.utcnow())).scalar_one()


class _Turn(NamedTuple):
    """The turn for a sample: its number and time, and the time of the sample before."""

    number: int
    now: datetime.datetime
    before: datetime.datetime


class _OtherTurn(Exception):
    """Another scheduler has taken a later turn."""


class HistoryWriter:
    """Writes samples. A backend is down after ``down_time`` seconds without a report.

    A transaction writes the figures of at most ``part`` pools.
    """

    def __init__(self, database: Database, down_time: float, clock: Clock = database_time, part: int = 500) -> None:
        self._database, self._down_time, self._clock, self._part = database, down_time, clock, part

    def sample(self) -> bool:
        """Write a sample if one is due; return whether it was written to its end.

        Raises :class:`~tonnage.capacity.errors.Unavailable` while the database is away.
        """
        with self._database.reading() as session:
            if not _is_due(self._clock(session), _last(session)[1]):
                return False
        turn = self._database.run_past_duplicates(self._take_turn)
        if turn is None:
            return False
        with self._database.reading() as session:
            pools = self._pools(session)
            types = _types(session, turn)
        try:
            for start in range(0, len(pools), self._part):
                self._database.run(_write, turn, _POOLS, pools[start : start + self._part])
            self._database.run(_write, turn, _TYPES, types)
        except _OtherTurn:
            return False
        return True

    def _take_turn(self, session: orm.Session) -> _Turn | None:
        """Take the turn for the next sample; None if it is not due, or another scheduler has just taken it."""
        number, before = _last(session)
        now = self._clock(session)
        if not _is_due(now, before):
            return None
        if number == 0:
            session.add(tables.HistoryTurn(id=1, number=1, sampled_at=now))
            return _Turn(1, now, before)
        turn = tables.HistoryTurn
        result = session.execute(
            sa.update(turn)
            .where(turn.number == number)
            .values(number=number + 1, sampled_at=now)
            .execution_options(synchronize_session=False)
        )
        return _Turn(number + 1, now, before) if result.rowcount else None  # type: ignore[attr-defined]

    def _pools(self, session: orm.Session) -> list[_Row]:
        """Return the figures of the pools whose figures are current."""
        pool, backend = models.Pool, models.Backend
        rows = session.execute(
            sa.select(
                *(pool.id, pool.total_capacity_gb, pool.free_capacity_gb, PROVISIONED),
                *(pool.thin_limit_gb, pool.stats["thin_provisioning_support"].as_string()),
                *(pool.physical_limit_gb, _IN_FLIGHT, pool.allocated_capacity_gb, pool.deleted_gb, pool.moved_gb),
                *(backend.last_report_at, models.utcnow()),
            )
            .join(backend, backend.id == pool.backend_id)
            .where(
                pool.present.is_(True),
                sa.or_(pool.unheard_at.is_(None), pool.unheard_at != backend.last_report_at),
            )
            .order_by(pool.id)
        )
        samples: list[_Row] = []
        for pool_id, total, free, promised, virtual, thin, room, flying, allocated, deleted, moved, *times in rows:
            silence = models.age(times[1], times[0])
            if silence is None or silence > self._down_time:
                continue
            used = None if total is None or free is None else total - free
            samples.append(
                {
                    "pool_id": pool_id,
                    "total_gb": total,
                    "used_gb": used,
                    "used_min_gb": used,
                    "used_max_gb": used,
                    "provisioned_gb": float(promised or 0.0),
                    "physical_limit_gb": None if used is None or room is None else used + room,
                    # Nothing counts against it in a pool without thin volumes.
                    "virtual_limit_gb": virtual if is_thin(thin) else None,
                    "in_flight_max_gb": int(flying),
                    "allocated_gb": int(allocated),
                    "deleted_sum_gb": int(deleted),
                    "moved_sum_gb": int(moved),
                }
            )
        return samples


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete at most ``limit`` expired rows of each table, and return the larger number.

    Rows of the far future are deleted too: a clock was wrong when they were written.
    """
    now = database_time(session)
    return max(_purge(session, table, now, limit) for table in (_POOLS, _TYPES))


def kept_slots(now: datetime.datetime, grain: str) -> list[datetime.datetime]:
    """Return all slots of a grain that may have rows, also of a clock that was wrong, the oldest first."""
    return _slots_since(now, KEPT[grain], grain)


def forecast_days(now: datetime.datetime) -> list[datetime.datetime]:
    """Return all days on which forecasts that are kept may have been made, the oldest first."""
    return _slots_since(now, FORECASTS_KEPT, DAY)


def _purge(session: orm.Session, table: "_HistoryTable", now: datetime.datetime, limit: int) -> int:
    model = table.model
    number, subject_column = 0, getattr(model, table.key)
    for grain in table.grains:
        for condition in (model.slot < now - KEPT[grain], model.slot > now + _WRONG_CLOCK):
            rows = session.execute(
                sa.select(model.slot, subject_column)
                .where(model.grain == grain, condition)
                .limit(max(0, limit - number))
            ).all()
            number += len(rows)
            for slot in sorted({row[0] for row in rows}):
                ids = [row[1] for row in rows if row[0] == slot]
                session.execute(
                    sa.delete(model)
                    .where(model.grain == grain, model.slot == slot, subject_column.in_(ids))
                    .execution_options(synchronize_session=False)
                )
    return number


def _slots(now: datetime.datetime) -> _Slots:
    """Return the slot of each grain that contains a time."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return {grain: day + (now - day) // length * length for grain, length in _LENGTHS.items()}


def _slots_since(now: datetime.datetime, kept: datetime.timedelta, grain: str) -> list[datetime.datetime]:
    """Return all slots of a grain that may have rows."""
    first, length = _slots(now - kept)[grain], _LENGTHS[grain]
    return [first + length * number for number in range((kept + _WRONG_CLOCK) // length + 1)]


def _last(session: orm.Session) -> tuple[int, datetime.datetime]:
    """Return the number and the time of the last sample."""
    row = session.execute(sa.select(tables.HistoryTurn.number, tables.HistoryTurn.sampled_at)).one_or_none()
    return (0, _NEVER) if row is None else (row.number, row.sampled_at)


def _is_due(now: datetime.datetime, last: datetime.datetime) -> bool:
    """Return whether a sample is due: the last one is of an earlier slot.

    After a clock was set back none is, until it has caught up.
    """
    return _slots(now)[TEN_MINUTES] > _slots(last)[TEN_MINUTES] or last - now > _WRONG_CLOCK


def _types(session: orm.Session, turn: _Turn) -> list[_Row]:
    """Return the volumes of each type, and the volumes created since the last sample."""
    volume, claim = models.Volume, models.Claim
    since = max(turn.before, turn.now - datetime.timedelta(seconds=2 * INTERVAL))
    volume_type_id = sa.func.coalesce(volume.volume_type_id, "")
    is_new = sa.and_(volume.created_at > since, volume.created_at <= turn.now)
    totals = session.execute(
        sa.select(
            volume_type_id,
            sa.func.count(),
            sa.func.sum(volume.size_gb),
            sa.func.sum(sa.case((is_new, 1), else_=0)),
            sa.func.sum(sa.case((is_new, volume.size_gb), else_=0)),
        )
        .where(volume.pool_id.is_not(None))
        .group_by(volume_type_id)
    ).all()
    # A volume that is new has its extends in its size.
    extended = session.execute(
        sa.select(volume_type_id, sa.func.sum(claim.size_gb))
        .join(volume, volume.id == claim.volume_id)
        .where(claim.verb == "extend", claim.created_at > since, claim.created_at <= turn.now)
        .where(volume.created_at <= since, volume.pool_id == claim.pool_id)
        .group_by(volume_type_id)
    )
    more = {row[0]: int(row[1]) for row in extended}
    return [
        {
            "type_id": type_id,
            "volumes": int(number),
            "allocated_gb": int(size),
            "creates": int(new),
            "created_gb": int(new_gb) + more.get(type_id, 0),
        }
        for type_id, number, size, new, new_gb in totals
    ]


class _HistoryTable(NamedTuple):
    """A table of the history: its model, the column that names the subject of a row, its grains, and its merge.

    ``merge`` returns a row from a sample, the row of the same slot so far, and the last row before or of this slot;
    each may be None.
    """

    model: type[Any]
    key: str
    grains: Sequence[str]
    merge: Callable[[_Row, Any, Any], dict[str, Any]]


def _merge_pool(sample: _Row, same: Any, last: Any) -> dict[str, Any]:
    row = dict(sample)
    row["created_gb"] = row["deleted_gb"] = row["moved_gb"] = 0
    if last is not None:
        row["deleted_gb"] = sample["deleted_sum_gb"] - last.deleted_sum_gb
        row["moved_gb"] = sample["moved_sum_gb"] - last.moved_sum_gb
        grown = sample["allocated_gb"] - last.allocated_gb
        row["created_gb"] = grown + row["deleted_gb"] - row["moved_gb"]
    if same is not None:
        for flow in ("created_gb", "deleted_gb", "moved_gb"):
            row[flow] += getattr(same, flow)
        row["in_flight_max_gb"] = max(row["in_flight_max_gb"], same.in_flight_max_gb)
        for name, chosen in (("used_min_gb", min), ("used_max_gb", max)):
            values = [value for value in (row[name], getattr(same, name)) if value is not None]
            row[name] = chosen(values, default=None)
    return row


def _merge_type(sample: _Row, same: Any, last: Any) -> dict[str, Any]:
    row = dict(sample)
    row["deleted_gb"] = row["retyped_gb"] = 0
    if last is None:
        row["creates"] = row["created_gb"] = 0
    else:
        missing = last.allocated_gb + sample["created_gb"] - sample["allocated_gb"]
        row["deleted_gb"], row["retyped_gb"] = max(0, missing), max(0, -missing)
    if same is not None:
        for flow in ("creates", "created_gb", "deleted_gb", "retyped_gb"):
            row[flow] += getattr(same, flow)
    return row


_POOLS = _HistoryTable(tables.PoolHistory, "pool_id", (TEN_MINUTES, HOUR, DAY), _merge_pool)
_TYPES = _HistoryTable(tables.TypeHistory, "type_id", (HOUR, DAY), _merge_type)


def _write(session: orm.Session, turn: _Turn, table: _HistoryTable, samples: Iterable[_Row]) -> None:
    """Write a part of a sample. Raises :class:`_OtherTurn` if a later turn was taken."""
    number = session.scalar(sa.select(tables.HistoryTurn.number).with_for_update())
    if number != turn.number:
        raise _OtherTurn
    slots = {grain: slot for grain, slot in _slots(turn.now).items() if grain in table.grains}
    by_subject = {sample[table.key]: sample for sample in samples}
    before = _rows_before(session, table, slots, by_subject)
    new: list[_Row] = []
    changed: list[_Row] = []
    for grain, slot in slots.items():
        for subject, sample in by_subject.items():
            same = before.get((grain, slot, subject))
            last = same or before.get((grain, slot - _LENGTHS[grain], subject))
            row = {**table.merge(sample, same, last), "grain": grain, "slot": slot}
            row["samples"] = 1 if same is None else same.samples + 1
            (new if same is None else changed).append(row)
    if new:
        session.execute(sa.insert(table.model), new)
    if changed:
        session.execute(sa.update(table.model), changed)


def _rows_before(
    session: orm.Session, table: _HistoryTable, slots: _Slots, subjects: Iterable[object]
) -> dict[tuple[str, datetime.datetime, object], Any]:
    """Return the rows of the slots and of the slots before them, by grain, slot and subject."""
    model, subject_column = table.model, getattr(table.model, table.key)
    slot_conditions = [
        sa.and_(model.grain == grain, model.slot.in_([slot, slot - _LENGTHS[grain]])) for grain, slot in slots.items()
    ]
    columns = list(models.table(model).c)
    return {
        (row.grain, row.slot, getattr(row, table.key)): row
        for chunk in dialects.in_chunks(subjects)
        for row in session.execute(sa.select(*columns).where(sa.or_(*slot_conditions), subject_column.in_(chunk)))
    }
