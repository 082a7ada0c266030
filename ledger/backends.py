# SPDX-License-Identifier: Apache-2.0
"""Backends and pools as a scheduler finds them when it starts, and the epochs of agents."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import counters
from tonnage.ledger import models


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRow:
    """One backend. ``silence`` is how many seconds ago it reported, by the database's clock; None if it never has."""

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    epoch: int
    report_seq: int
    report_covers: int
    silence: float | None
    last_report_at: datetime.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """One pool: its last figures as the driver reported them, and its counters."""

    id: int
    backend_id: int
    name: str
    generation: int
    counters: counters.Counters
    ratio: float
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClaim:
    """A claim whose agent has not told yet how it ended."""

    id: str
    backend_id: int
    pool_id: int
    pool_name: str
    volume_id: str
    verb: str
    target_size_gb: int
    provisioning: str
    request_id: str


def hello(session: orm.Session, name: str, nonce: str, zone: str, driver: str) -> BackendRow:
    """Return the backend with the epoch of the agent process that drew ``nonce``: a new nonce opens a new epoch."""
    backend = session.scalar(sa.select(models.Backend).where(models.Backend.name == name).with_for_update())
    if backend is None:
        backend = models.Backend(name=name, epoch=0, nonce="", enabled=True, allocated_capacity_gb=0)
        session.add(backend)
    if backend.nonce != nonce:
        backend.epoch += 1
        backend.nonce = nonce
        backend.report_seq = backend.report_covers = 0
    if backend.availability_zone != zone:
        backend.availability_zone = zone
        session.flush()
        session.execute(
            sa.update(models.Pool)
            .where(models.Pool.backend_id == backend.id)
            .values(generation=models.Pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    backend.driver = driver
    session.flush()
    return _backends(session, models.Backend.id == backend.id)[0]


def find(session: orm.Session, name: str) -> BackendRow | None:
    """Return the backend of that name, or None."""
    rows = _backends(session, models.Backend.name == name)
    return rows[0] if rows else None


def load_backends(session: orm.Session) -> list[BackendRow]:
    """Return all backends."""
    return _backends(session, sa.true())


def load_pools(session: orm.Session, *, backend: str | None = None, ids: list[int] | None = None) -> list[PoolRow]:
    """Return the pools that were in their backend's last report; of one backend, or those with certain ids."""
    pool = models.Pool
    statement = sa.select(
        pool.id,
        pool.backend_id,
        pool.name,
        pool.generation,
        pool.allocated_capacity_gb,
        pool.in_flight_gb,
        pool.in_flight_physical_gb,
        pool.ratio,
        pool.stats,
    ).where(pool.present.is_(True))
    if backend is not None:
        statement = statement.join(models.Backend).where(models.Backend.name == backend)
    if ids is not None:
        statement = statement.where(pool.id.in_(ids))
    return [
        PoolRow(
            id=row[0],
            backend_id=row[1],
            name=row[2],
            generation=int(row[3]),
            counters=counters.Counters(*map(int, row[4:7])),
            ratio=row[7],
            stats=row[8],
        )
        for row in session.execute(statement)
    ]


def load_pending(
    session: orm.Session, *, backend_id: int | None = None, ids: list[str] | None = None
) -> list[PendingClaim]:
    """Return the claims that wait for their agent, oldest first: all, of one backend, or those with certain ids."""
    claim = models.Claim
    statement = (
        sa.select(claim, models.Pool.name)
        .join(models.Pool, models.Pool.id == claim.pool_id)
        .where(claim.state == counters.PENDING)
        .order_by(claim.created_at, claim.id)
    )
    if backend_id is not None:
        statement = statement.where(claim.backend_id == backend_id)
    if ids is not None:
        statement = statement.where(claim.id.in_(ids))
    return [
        PendingClaim(
            id=row.id,
            backend_id=row.backend_id,
            pool_id=row.pool_id,
            pool_name=pool_name,
            volume_id=row.volume_id,
            verb=row.verb,
            target_size_gb=row.target_size_gb,
            provisioning=row.provisioning,
            request_id=row.request_id,
        )
        for row, pool_name in session.execute(statement)
    ]


def unplaced_volumes(session: orm.Session) -> list[str]:
    """Return volumes that are being created and on no pool: their last attempt failed and no other has begun."""
    volume = models.Volume
    return list(
        session.scalars(
            sa.select(volume.id)
            .where(volume.status == "creating", volume.pool_id.is_(None))
            .order_by(volume.created_at)
        )
    )


def unheard(session: orm.Session, binary: str) -> float | None:
    """Return for how many seconds no process of that binary has been there, by the database's clock; None: never."""
    row = session.execute(
        sa.select(models.utcnow(), sa.func.max(models.Service.last_seen_at)).where(models.Service.binary == binary)
    ).one()
    return _seconds(row[0], row[1])


def _backends(session: orm.Session, condition: sa.ColumnElement[bool]) -> list[BackendRow]:
    backend = models.Backend
    rows = session.execute(sa.select(backend, models.utcnow()).where(condition).order_by(backend.id))
    return [
        BackendRow(
            id=row.id,
            name=row.name,
            availability_zone=row.availability_zone,
            enabled=row.enabled,
            disabled_reason=row.disabled_reason,
            epoch=row.epoch,
            report_seq=int(row.report_seq),
            report_covers=int(row.report_covers),
            silence=_seconds(now, row.last_report_at),
            last_report_at=row.last_report_at,
        )
        for row, now in rows
    ]


def _seconds(now: datetime.datetime, then: datetime.datetime | None) -> float | None:
    if then is None:
        return None
    return max(0.0, (now - then).total_seconds())
