# SPDX-License-Identifier: Apache-2.0
"""Volumes, volume types and open claims for overviews: plain columns, without the objects of a decision."""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.locks import backend_notices, pool_counters
from tonnage.ledger.models import claim_verbs

#: States of claims whose operation has not ended.
OPEN = ("pending", "abandoned")

#: Number of rows that are read at a time.
_CHUNK = 1000


class VolumeFigures(NamedTuple):
    """One volume. ``pool`` and ``volume_type`` are names, None if it has none.

    ``waits_for`` is as in :class:`ClaimFigures`; None also if it was not asked for.
    """

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
    waits_for: str | None = None


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
    ``waits_for`` is the backend that has not answered the pending claim and is down or in doubt, with the ways out;
    None if the claim is not pending, if its backend reports, and for a purge, which nobody waits for.
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
    waits_for: str | None = None


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
        yield VolumeFigures(*row)


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


def open_claims(session: orm.Session, down_time: float, *, least_age: float = 0.0) -> list[ClaimFigures]:
    """Return the claims whose operation has not ended and that are ``least_age`` seconds old, the oldest first.

    A backend is down after ``down_time`` seconds of silence, also in the functions below.
    """
    conditions: list[sa.ColumnElement[bool]] = [models.Claim.state.in_(OPEN)]
    if least_age > 0:
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        conditions.append(models.Claim.created_at <= now - datetime.timedelta(seconds=least_age))
    return _claims(session, down_time, *conditions)


def claims_in_flight(session: orm.Session, pool: str, down_time: float) -> list[ClaimFigures]:
    """Return the claims on a pool that its figures do not contain or whose operation has not ended, oldest first."""
    claim = models.Claim
    is_in_flight = sa.or_(claim.contained.is_(False), claim.state.in_(OPEN))
    return _claims(session, down_time, models.Pool.name == pool, is_in_flight)


def claims_of(session: orm.Session, volume_id: str, down_time: float) -> list[ClaimFigures]:
    """Return the claims of a volume, the oldest first."""
    return _claims(session, down_time, models.Claim.volume_id == volume_id)


def waits(session: orm.Session, down_time: float) -> dict[str, str]:
    """Return the backends that operations wait for, see :class:`ClaimFigures`, by the ids of the volumes."""
    claims = _claims(session, down_time, models.Claim.state == pool_counters.PENDING)
    return {claim.volume_id: claim.waits_for for claim in claims if claim.waits_for is not None}


def first_wait(claims: Iterable[ClaimFigures]) -> str | None:
    """Return the backend that the first of these claims waits for that waits for one, None if none does."""
    return next((claim.waits_for for claim in claims if claim.waits_for is not None), None)


def _claims(session: orm.Session, down_time: float, *conditions: sa.ColumnElement[bool]) -> list[ClaimFigures]:
    claim, pool, backend = models.Claim, models.Pool, models.Backend
    statement = (
        sa.select(
            *(claim.id, claim.volume_id, claim.verb, claim.state, pool.name),
            *(claim.size_gb, claim.physical_gb, claim.request_id, claim.contained),
            *(claim.created_at, models.utcnow(), backend),
        )
        .join(pool, pool.id == claim.pool_id)
        .join(backend, backend.id == claim.backend_id)
        .where(*conditions)
        .order_by(claim.created_at, claim.id)
    )
    return [_claim(row, down_time) for row in session.execute(statement)]


def _claim(row: Any, down_time: float) -> ClaimFigures:
    *figures, created_at, now, backend = row
    claim = ClaimFigures._make((*figures, created_at, models.age(now, created_at), None))
    silence = models.silence(now, backend.last_report_at, observed=backend.observed, notice=backend.notice)
    reason = backend_notices.state_reason(silence, backend_notices.of_backend(backend), down_time)
    # Nobody has asked for a purge, and no volume waits for it.
    if claim.state != pool_counters.PENDING or claim.verb == claim_verbs.PURGE or reason is None:
        return claim
    return claim._replace(waits_for=f"backend {backend.name} ({reason}){_ways_out(backend)}")


def _ways_out(backend: models.Backend) -> str:
    """Return the ways out for operations on a backend that is down or in doubt, as the end of a sentence."""
    if backend.observed or backend.notice == backend_notices.REFUSED:
        return ""  # it has no agent, or the text of the notice has them
    if backend.notice == backend_notices.FAILING:
        remedy = "its agent goes on when that is corrected"
    else:
        machine, _, section = backend.name.partition("@")
        remedy = f"start its agent, and see that enabled_backends names {section} on {machine}"
    return (
        f": {remedy}; if it never comes back, 'tonnage-manage backend remove {backend.name} --volumes-are-lost' gives "
        "its volumes up"
    )
