# SPDX-License-Identifier: Apache-2.0
"""Refusals, recorded in the transactions that decide them, for operators."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.decision import AttemptsExceeded, Refusal, Undecided
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.models.free_text import storable_text

#: Days for which refusals are kept.
KEPT_DAYS = 30

#: The largest number of refusals that are kept: a client that is refused all the time must not fill the database.
KEPT = 100_000

#: Longest name of a filter and longest code, in characters. Plug-ins choose both.
_MAX_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """A refused request, or one without a decision. ``volume_id`` is its volume, for a group the first one.

    ``body`` is the body of a request for one new volume, see :func:`create_body`, or that of a request of Cinder, see
    :func:`cinder_body`.
    """

    request_id: str
    volume_id: str
    project_id: str
    verb: str
    refusal: Refusal | Undecided | AttemptsExceeded
    body: Mapping[str, Any] | None = None


class RefusalCount(NamedTuple):
    """The number of refusals for one reason on one day, in UTC, and the time of the last one."""

    day: str
    verb: str
    filter: str
    code: str
    number: int
    last_at: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalFilter:
    """Conditions on refusals, all of which have to hold. None is no condition.

    ``pool`` is the nearest pool, or its backend.
    """

    request_id: str | None = None
    volume_id: str | None = None
    project_id: str | None = None
    pool: str | None = None
    code: str | None = None


_ROW = models.Refusal
_INSERT = sa.insert(models.table(_ROW))


def create_body(
    *,
    size_gb: int,
    volume_type: str | None,
    zone: str | None,
    hints: Mapping[str, Any] | None,
    source_volume_id: str | None,
) -> dict[str, Any]:
    """Return the body of a request to ``POST /volumes``, with all that a decision depends on."""
    volume = {
        "size": size_gb,
        "volume_type": volume_type,
        "availability_zone": zone,
        "source_volid": source_volume_id,
    }
    fields = {key: value for key, value in volume.items() if value is not None}
    return {"volume": fields, **({"OS-SCH-HNT:scheduler_hints": dict(hints)} if hints else {})}


def cinder_body(*, exchange: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request of Cinder, whose schedulers listen at an exchange of its message bus."""
    return {"cinder": {"exchange": exchange, "request": dict(request)}}


def insert(session: orm.Session, refused: Sequence[RefusedRequest]) -> None:
    """Record refusals."""
    if refused:
        session.connection().execute(_INSERT, [_row(request) for request in refused])


def insert_once(session: orm.Session, refused: RefusedRequest) -> None:
    """Record a request without a decision, unless a record of this volume, verb and code exists."""
    statement = sa.select(_ROW.id).where(
        _ROW.volume_id == refused.volume_id, _ROW.verb == refused.verb, _ROW.code == refused.refusal.reason[1]
    )
    if session.scalar(statement.limit(1)) is None:
        insert(session, [refused])


def load(session: orm.Session, refusal_filter: RefusalFilter, limit: int | None = None) -> list[models.Refusal]:
    """Return the newest refusals that match, at most ``limit`` of them, the newest first."""
    statement = sa.select(_ROW).where(*_conditions(refusal_filter)).order_by(_ROW.id.desc()).limit(limit)
    return list(session.scalars(statement))


def count(session: orm.Session, refusal_filter: RefusalFilter) -> list[RefusalCount]:
    """Return the numbers of the refusals that match by day and reason: the last day first, then the largest number."""
    day, number = sa.func.date(_ROW.refused_at), sa.func.count()
    reason = (_ROW.verb, _ROW.filter, _ROW.code)
    statement = (
        sa.select(day, *reason, number, sa.func.max(_ROW.refused_at))
        .where(*_conditions(refusal_filter))
        .group_by(day, *reason)
        .order_by(day.desc(), number.desc(), *reason)
    )
    return [RefusalCount(str(first), *figures) for first, *figures in session.execute(statement)]


def count_lately(session: orm.Session, seconds: float) -> int:
    """Return the number of refusals in the last seconds."""
    since = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(seconds=seconds)
    return session.scalar(sa.select(sa.func.count()).where(_ROW.refused_at >= since)) or 0


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE, kept: int = KEPT) -> int:
    """Delete the oldest refusals beyond :data:`KEPT_DAYS` and ``kept``, at most ``limit``; return their number."""
    before = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(days=KEPT_DAYS)
    last = session.scalar(sa.select(sa.func.max(_ROW.id))) or 0
    oldest = session.execute(sa.select(_ROW.id, _ROW.refused_at).order_by(_ROW.id).limit(limit)).all()
    old = [row.id for row in oldest if row.refused_at < before or row.id <= last - kept]
    for chunk in dialects.in_chunks(old):
        session.execute(sa.delete(_ROW).where(_ROW.id.in_(chunk)).execution_options(synchronize_session=False))
    return len(old)


def _conditions(refusal_filter: RefusalFilter) -> list[sa.ColumnElement[bool]]:
    pairs = (
        (_ROW.request_id, refusal_filter.request_id),
        (_ROW.volume_id, refusal_filter.volume_id),
        (_ROW.project_id, refusal_filter.project_id),
        (_ROW.code, refusal_filter.code),
    )
    conditions = [column == value for column, value in pairs if value is not None]
    if refusal_filter.pool is not None:
        pool, backend = models.Pool, models.Backend
        of_backend = (
            sa.select(pool.name).join(backend, backend.id == pool.backend_id).where(backend.name == refusal_filter.pool)
        )
        conditions.append(sa.or_(_ROW.pool == refusal_filter.pool, _ROW.pool.in_(of_backend)))
    return conditions


def _row(refused: RefusedRequest) -> dict[str, object]:
    refusal = refused.refusal
    filter_name, code = refusal.reason
    return {
        "request_id": refused.request_id,
        "volume_id": refused.volume_id,
        "project_id": refused.project_id,
        "verb": refused.verb,
        "request": refusal.request,
        "filter": storable_text(filter_name)[:_MAX_LENGTH],
        "code": storable_text(code)[:_MAX_LENGTH],
        "pool": None if refusal.nearest is None else refusal.nearest.pool,
        "largest_size_gb": refusal.largest_size_gb,
        "message": refusal.message,
        "request_body": None if refused.body is None else dict(refused.body),
    }
