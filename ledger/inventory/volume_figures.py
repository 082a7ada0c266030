# SPDX-License-Identifier: Apache-2.0
"""Volumes, volume types and open claims for overviews: plain columns, without the objects of a decision."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models

#: States of claims whose operation has not ended.
OPEN = ("pending", "abandoned")

#: Number of rows that are read at a time.
_CHUNK = 1000


class VolumeFigures(NamedTuple):
    """One volume. ``pool`` and ``volume_type`` are names, None if it has none."""

    id: str
    name: str | None
    project_id: str
    status: str
    size_gb: int
    volume_type: str | None
    pool: str | None
    provisioning: str | None
    status_reason: str | None
    created_at: datetime.datetime


class TypeFigures(NamedTuple):
    """One volume type, with the number of its volumes and the sum of their sizes in GiB."""

    id: str
    name: str
    is_public: bool
    volumes: int
    size_gb: int


class ClaimFigures(NamedTuple):
    """A claim. ``physical_gb`` is the part of ``size_gb`` that uses space at once.

    ``age`` is the number of seconds since it was made. It is in flight until a report contains it (``contained``).
    """

    id: str
    volume_id: str
    verb: str
    state: str
    pool: str
    size_gb: int
    physical_gb: int
    request_id: str
    contained: bool
    created_at: datetime.datetime
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFilter:
    """Conditions on volumes, all of which have to hold. None is no condition.

    ``pool`` is the full name of a pool or of a backend, ``volume_type`` the name of a type. ``after`` is the id of the
    volume after which the list goes on in the order of age.
    """

    project_id: str | None = None
    status: str | None = None
    pool: str | None = None
    volume_type: str | None = None
    after: str | None = None


def volumes(
    session: orm.Session, volume_filter: VolumeFilter, *, largest_first: bool = False
) -> Iterator[VolumeFigures]:
    """Yield the volumes that match, the oldest first, or the largest first and the older of equal ones."""
    volume, pool, volume_type = models.Volume, models.Pool, models.VolumeType
    statement = (
        sa.select(
            *(volume.id, volume.name, volume.project_id, volume.status, volume.size_gb),
            *(volume_type.name, pool.name, volume.provisioning, volume.status_reason, volume.created_at),
        )
        .join(pool, pool.id == volume.pool_id, isouter=True)
        .join(volume_type, volume_type.id == volume.volume_type_id, isouter=True)
        .where(*_conditions(volume_filter))
        .order_by(*([volume.size_gb.desc()] if largest_first else []), volume.created_at, volume.id)
    )
    for row in session.execute(statement.execution_options(yield_per=_CHUNK)):
        yield VolumeFigures._make(row)


def count(session: orm.Session, volume_filter: VolumeFilter) -> int:
    """Return the number of volumes that match."""
    volume, pool, volume_type = models.Volume, models.Pool, models.VolumeType
    statement = (
        sa.select(sa.func.count(volume.id))
        .join(pool, pool.id == volume.pool_id, isouter=True)
        .join(volume_type, volume_type.id == volume.volume_type_id, isouter=True)
        .where(*_conditions(volume_filter))
    )
    return int(session.execute(statement).scalar_one())


def _conditions(volume_filter: VolumeFilter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for queries that join volumes with their pools and types."""
    volume, pool, volume_type = models.Volume, models.Pool, models.VolumeType
    conditions: list[sa.ColumnElement[bool]] = [
        column == value
        for column, value in (
            (volume.project_id, volume_filter.project_id),
            (volume.status, volume_filter.status),
            (volume_type.name, volume_filter.volume_type),
        )
        if value is not None
    ]
    if volume_filter.pool is not None:
        backend = models.Backend
        of_backend = (
            sa.select(pool.id).join(backend, backend.id == pool.backend_id).where(backend.name == volume_filter.pool)
        )
        conditions.append(sa.or_(pool.name == volume_filter.pool, volume.pool_id.in_(of_backend)))
    if volume_filter.after is not None:
        last = orm.aliased(volume)
        created_at = sa.select(last.created_at).where(last.id == volume_filter.after).scalar_subquery()
        conditions.append(
            sa.or_(
                volume.created_at > created_at,
                sa.and_(volume.created_at == created_at, volume.id > volume_filter.after),
            )
        )
    return conditions


def types(session: orm.Session) -> list[TypeFigures]:
    """Return all volume types by name."""
    volume_type, volume = models.VolumeType, models.Volume
    statement = (
        sa.select(
            *(volume_type.id, volume_type.name, volume_type.is_public),
            *(sa.func.count(volume.id), sa.func.coalesce(sa.func.sum(volume.size_gb), 0)),
        )
        .join(volume, volume.volume_type_id == volume_type.id, isouter=True)
        .group_by(volume_type.id, volume_type.name, volume_type.is_public)
        .order_by(volume_type.name)
    )
    return [TypeFigures(*row[:3], int(row[3]), int(row[4])) for row in session.execute(statement)]


def open_claims(session: orm.Session, *, least_age: float = 0.0) -> list[ClaimFigures]:
    """Return the claims whose operation has not ended and that are ``least_age`` seconds old, the oldest first."""
    conditions: list[sa.ColumnElement[bool]] = [models.Claim.state.in_(OPEN)]
    if least_age > 0:
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        conditions.append(models.Claim.created_at <= now - datetime.timedelta(seconds=least_age))
    return _claims(session, *conditions)


def claims_in_flight(session: orm.Session, pool: str) -> list[ClaimFigures]:
    """Return the claims on a pool that its figures do not contain or whose operation has not ended, oldest first."""
    claim = models.Claim
    return _claims(session, models.Pool.name == pool, sa.or_(claim.contained.is_(False), claim.state.in_(OPEN)))


def claims_of(session: orm.Session, volume_id: str) -> list[ClaimFigures]:
    """Return the claims of a volume, the oldest first."""
    return _claims(session, models.Claim.volume_id == volume_id)


def _claims(session: orm.Session, *conditions: sa.ColumnElement[bool]) -> list[ClaimFigures]:
    claim, pool = models.Claim, models.Pool
    statement = (
        sa.select(
            *(claim.id, claim.volume_id, claim.verb, claim.state, pool.name),
            *(claim.size_gb, claim.physical_gb, claim.request_id, claim.contained),
            *(claim.created_at, models.utcnow()),
        )
        .join(pool, pool.id == claim.pool_id)
        .where(*conditions)
        .order_by(claim.created_at, claim.id)
    )
    return [_claim(row) for row in session.execute(statement)]


def _claim(row: Any) -> ClaimFigures:
    *figures, created_at, now = row
    return ClaimFigures._make((*figures, created_at, models.age(now, created_at)))
