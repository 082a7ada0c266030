# SPDX-License-Identifier: Apache-2.0
"""Backends and pools as a starting scheduler loads them, and the epochs of agents."""

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.inventory import drains, names
from tonnage.ledger.locks import backend_notices, ledger_identity, pool_counters, pool_locks, scheduling_rules
from tonnage.ledger.locks.backend_notices import Notice

#: Time for which a pool is kept that its backend does not report any more.
POOL_KEPT = datetime.timedelta(days=30)

#: Whether a pool was not in the last report and still has volumes.
IS_ABSENT = sa.and_(models.Pool.present.is_(False), models.Pool.allocated_capacity_gb > 0)

#: The time at which the driver began to collect a pool's figures, if these are not from the last report; null if they
#: are. For queries that join pools with their backends.
FIGURES_KEPT_SINCE = sa.case((models.Pool.unheard_at == models.Backend.last_report_at, models.Pool.figures_at))

#: The present time for such a pool, null for the others: a scheduler that starts would read it with each pool.
_NOW_IF_KEPT = sa.case((models.Pool.unheard_at == models.Backend.last_report_at, models.utcnow()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRow:
    """One backend.

    ``silence`` is the number of seconds since its last report by the database's clock, see
    :func:`~tonnage.ledger.models.silence`.
    ``report_age`` is the further age of the figures in seconds: the time that the driver took to collect them.
    ``nonce`` is that of the agent process of the epoch, ``notice`` its last notice if it has not reported since.
    An ``observed`` backend has no agent: its volumes are those of another system.
    ``allocated_gb`` is the capacity of the volumes in all its pools in GiB, also in those that it no longer reports.
    """

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    draining: bool
    epoch: int
    report_seq: int
    report_covers: int
    silence: float | None
    report_age: float
    last_report_at: datetime.datetime | None
    nonce: str
    notice: Notice | None = None
    observed: bool = False
    allocated_gb: int = 0


class PoolRow(NamedTuple):
    """One pool: its last figures as the driver reported them, its counters, and the ratio and limit computed from both.

    ``thin_limit_gb`` is the limit of provisioned plus in-flight capacity; None is no limit. ``figures_age`` is the
    number of seconds since the driver began to collect the figures, if the last report of the backend had no usable
    figures of the pool; None if the figures are from that report. (A tuple, because a starting scheduler reads all.)
    """

    id: int
    backend_id: int
    name: str
    generation: int
    counters: pool_counters.Counters
    ratio: float
    thin_limit_gb: float | None
    stats: Mapping[str, Any]
    figures_age: float | None


class PoolMark(NamedTuple):
    """The part of a pool's row that tells whether cached figures are current, with its counters.

    ``generation`` counts the changes that decisions depend on. ``covers`` are the epoch and the tick of the
    last report that wrote the figures, or only their coverage; they never decrease. ``figures_age`` is as in
    :class:`PoolRow`.
    """

    id: int
    backend_id: int
    name: str
    generation: int
    covers: tuple[int, int]
    counters: pool_counters.Counters
    figures_age: float | None

    def is_unchanged(self, generation: int, covers: tuple[int, int]) -> bool:
        """Return whether cached figures of this generation, from a report with this coverage, are still current.

        All rows that were written after the cached report cover at least as much as it, so a row that covers less has
        not been written since.
        """
        return self.generation == generation and self.covers < covers


class Introduction(NamedTuple):
    """The row of a backend after a hello, and before it; None for a new backend.

    ``pools_changed``: the hello has changed the generations of its pools. ``pools`` is their number, without those that
    its last report lacked.
    """

    row: BackendRow
    before: BackendRow | None
    pools_changed: bool
    pools: int


def hello(session: orm.Session, name: str, nonce: str, zone: str, driver: str) -> Introduction:
    """Give a backend the epoch of the agent process that drew ``nonce``: a new nonce opens a new epoch."""
    generation = scheduling_rules.lock_shared(session)
    backend = session.scalar(sa.select(models.Backend).where(models.Backend.name == name).with_for_update())
    before = None if backend is None else _backends(session, models.Backend.id == backend.id)[0]
    if backend is None:
        backend = models.Backend(name=name, epoch=0, nonce="", enabled=True, allocated_capacity_gb=0)
        session.add(backend)
    if backend.nonce != nonce:
        backend.epoch += 1
        backend.nonce = nonce
        backend.report_seq = backend.report_covers = 0
    pools_changed = backend.availability_zone != zone
    if pools_changed:
        backend.availability_zone = zone
        session.flush()
        session.execute(
            sa.update(models.Pool)
            .where(models.Pool.backend_id == backend.id)
            .values(generation=models.Pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    backend.driver = driver
    backend.notice = backend.notice_text = backend.notice_at = None
    backend.rules_generation = generation
    session.flush()
    present = sa.select(sa.func.count()).where(models.Pool.backend_id == backend.id, models.Pool.present.is_(True))
    pools = session.execute(present).scalar_one()
    return Introduction(_backends(session, models.Backend.id == backend.id)[0], before, pools_changed, pools)


def find(session: orm.Session, name: str) -> BackendRow | None:
    """Return the backend of that name, or None."""
    rows = _backends(session, models.Backend.name == name)
    return rows[0] if rows else None


def last_reports(session: orm.Session, name: str) -> list[Mapping[str, Any]]:
    """Return the last reported stats of the pools of a backend, in the order of their names.

    Raises :class:`~tonnage.capacity.errors.NotFound` if there is no such backend.
    """
    backend = find(session, name)
    if backend is None:
        raise errors.NotFound(f"Can't find service: {name}")
    pool = models.Pool
    statement = sa.select(pool.stats).where(pool.backend_id == backend.id, pool.present.is_(True)).order_by(pool.name)
    return list(session.scalars(statement))


def load_backends(session: orm.Session, *, ids: Collection[int] | None = None) -> list[BackendRow]:
    """Return all backends, or those with these ids."""
    if ids is None:
        return _backends(session, sa.true())
    return [
        row for chunk in dialects.in_chunks(sorted(ids)) for row in _backends(session, models.Backend.id.in_(chunk))
    ]


def load_pools(
    session: orm.Session,
    *,
    backend: str | None = None,
    backend_ids: Collection[int] | None = None,
    ids: Collection[int] | None = None,
    absent: bool = False,
) -> list[PoolRow]:
    """Return the pools that were in their backend's last report; of all backends, of one, of those with these ids, or
    the pools with these ids.

    With ``absent`` those that were not and still have volumes, with their last figures.
    """
    pool = models.Pool
    statement = (
        sa.select(
            pool.id,
            pool.backend_id,
            pool.name,
            pool.generation,
            pool.ratio,
            pool.thin_limit_gb,
            pool.stats,
            _NOW_IF_KEPT,
            FIGURES_KEPT_SINCE,
            *pool_counters.COLUMNS,
        )
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(IS_ABSENT if absent else pool.present.is_(True))
    )
    if backend is not None:
        statement = statement.where(models.Backend.name == backend)
    statements = [statement]
    if backend_ids is not None:
        statements = [statement.where(pool.backend_id.in_(chunk)) for chunk in dialects.in_chunks(backend_ids)]
    if ids is not None:
        statements = [query.where(pool.id.in_(chunk)) for query in statements for chunk in dialects.in_chunks(ids)]
    # On the connection, because the session would need longer for each row than the database.
    connection = session.connection()
    return [_pool_row(*row) for query in statements for row in connection.execute(query).fetchall()]


def _pool_row(
    id: int,
    backend_id: int,
    name: str,
    generation: int,
    ratio: float,
    limit: float | None,
    stats: Mapping[str, Any],
    now: datetime.datetime | None,
    kept_since: datetime.datetime | None,
    *counters: float,
) -> PoolRow:
    figures_age = None if now is None else models.age(now, kept_since)
    # As a tuple: names of fields take half as long again.
    return PoolRow._make(
        (
            *(id, backend_id, name, int(generation), pool_counters.from_row(counters)),
            *(ratio, limit, stats, figures_age),
        )
    )


def load_pool_marks(session: orm.Session, backend_ids: Collection[int]) -> list[PoolMark]:
    """Return the marks of the pools that were in the last reports of these backends."""
    pool = models.Pool
    statement = (
        sa.select(
            pool.id,
            pool.backend_id,
            pool.name,
            pool.generation,
            pool.covers_epoch,
            pool.covers_tick,
            _NOW_IF_KEPT,
            FIGURES_KEPT_SINCE,
            *pool_counters.COLUMNS,
        )
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(pool.present.is_(True))
    )
    return [
        PoolMark(
            id=row[0],
            backend_id=row[1],
            name=row[2],
            generation=int(row[3]),
            covers=(int(row[4]), int(row[5])),
            figures_age=None if row[6] is None else models.age(row[6], row[7]),
            counters=pool_counters.from_row(row[8:]),
        )
        for chunk in dialects.in_chunks(backend_ids)
        for row in session.execute(statement.where(pool.backend_id.in_(chunk)))
    ]


def set_state(session: orm.Session, name: str, *, enabled: bool, draining: bool, reason: str | None) -> BackendRow:
    """Enable, disable or drain a backend; decisions that read its earlier state do not take effect.

    Raises :class:`~tonnage.capacity.errors.NotFound` for a backend whose agent has never sent a hello.
    """
    backend = session.scalar(sa.select(models.Backend).where(models.Backend.name == name).with_for_update())
    if backend is None:
        raise names.missing_backend(session, name)
    if backend.rules_generation < 0:
        raise ledger_identity.moved(session)
    backend.enabled, backend.draining = enabled, draining
    backend.disabled_reason = None if enabled else reason
    session.flush()
    of_backend = models.Pool.backend_id == backend.id
    session.execute(sa.select(models.Pool.id).where(of_backend).order_by(models.Pool.id).with_for_update()).all()
    session.execute(
        sa.update(models.Pool)
        .where(of_backend)
        .values(generation=models.Pool.generation + 1)
        .execution_options(synchronize_session=False)
    )
    drains.forget(session, backend.id)
    return _backends(session, models.Backend.id == backend.id)[0]


def seconds_without_listener(session: orm.Session, binary: str) -> float | None:
    """Return the number of seconds since a process of that binary last listened to agents, by the database's clock.

    None: no process ever did.
    """
    service = models.Service
    # Rows from before revision 0013 have no time at which their process last listened.
    last = sa.func.max(sa.func.coalesce(service.last_listened_at, service.last_seen_at))
    row = session.execute(sa.select(models.utcnow(), last).where(service.binary == binary)).one()
    return models.age(row[0], row[1])


def _backends(session: orm.Session, condition: sa.ColumnElement[bool]) -> list[BackendRow]:
    backend = models.Backend
    # populate_existing: return the current rows, even if the session has loaded them before.
    now = sa.select(backend, models.utcnow()).where(condition).order_by(backend.id)
    rows = session.execute(now.execution_options(populate_existing=True))
    return [
        BackendRow(
            id=row.id,
            name=row.name,
            availability_zone=row.availability_zone,
            enabled=row.enabled,
            disabled_reason=row.disabled_reason,
            draining=row.draining,
            epoch=row.epoch,
            report_seq=int(row.report_seq),
            report_covers=int(row.report_covers),
            silence=models.silence(now, row.last_report_at, observed=row.observed, notice=row.notice),
            report_age=row.report_age,
            last_report_at=row.last_report_at,
            nonce=row.nonce,
            notice=backend_notices.of_backend(row),
            observed=row.observed,
            allocated_gb=int(row.allocated_capacity_gb),
        )
        for row, now in rows
    ]


def purge_pools(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete at most ``limit`` unused pools that were not reported for :data:`POOL_KEPT`, and return their number.

    A pool with a volume, a claim, or a volume on the storage that the last listings showed is used.
    """
    pool = models.Pool
    before = session.execute(sa.select(models.utcnow())).scalar_one() - POOL_KEPT
    users = (models.Volume, models.Claim, models.Discrepancy)
    vanished = (
        pool.present.is_(False),
        pool.reported_at < before,
        *(~sa.exists().where(user.pool_id == pool.id) for user in users),
    )
    ids = session.scalars(sa.select(pool.id).where(*vanished).limit(limit)).all()
    if ids:
        # The locks are those of a report that has a pool again.
        pool_locks.lock(session, ids)
        session.execute(sa.delete(pool).where(pool.id.in_(ids), *vanished).execution_options(synchronize_session=False))
    return len(ids)
