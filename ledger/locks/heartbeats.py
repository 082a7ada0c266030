# SPDX-License-Identifier: Apache-2.0
"""Liveness of scheduler processes and backends, by the database's clock."""

import datetime
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import backend_notices
from tonnage.ledger.locks.backend_notices import Notice

SCHEDULER = "tonnage-scheduler"
AGENT = "tonnage-agent"

#: Time for which a scheduler that is gone is kept.
KEPT = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """A scheduler process, or a backend with the agent process that runs it (``host`` is then ``host@backend``).

    ``silence`` is the number of seconds since its last heartbeat or report, by the database's clock; None: none yet.
    ``ledger_fault`` is why the ledger refuses the transactions of a scheduler, None if it does not; ``notice`` is the
    last notice of the agent of a backend.
    """

    binary: str
    host: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    last_seen_at: datetime.datetime | None
    silence: float | None
    default_ratio: str | None = None
    calculation: str | None = None
    hook_extensions: str = ""
    ledger_fault: str | None = None
    draining: bool = False
    notice: Notice | None = None

    def up(self, down_time: float) -> bool:
        """Return whether its last heartbeat or report is at most ``down_time`` seconds old."""
        return self.silence is not None and self.silence <= down_time


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerProcess:
    """A scheduler process as it describes itself: its identity, its rules, and whether it receives agents' messages.

    ``nonce`` distinguishes it from another process with the same host. ``hook_extensions`` are the names, with commas
    between them, of the extensions whose hooks take part in its transactions. ``ledger_fault`` is why the ledger
    refuses its transactions, None if it does not.
    """

    binary: str
    host: str
    nonce: str = ""
    availability_zone: str = ""
    default_ratio: str | None = None
    calculation: str | None = None
    hook_extensions: str = ""
    listening: bool = False
    ledger_fault: str | None = None


def shares_host(session: orm.Session, me: SchedulerProcess) -> bool:
    """Return whether the last heartbeat for a process's host came from another process that has not left."""
    service = models.Service
    other = sa.and_(service.nonce != me.nonce, service.default_ratio.is_not(None))
    statement = sa.select(service.nonce).where(service.binary == me.binary, service.host == me.host, other)
    return session.execute(statement).one_or_none() is not None


def heartbeat(session: orm.Session, me: SchedulerProcess) -> None:
    """Record that a process is alive, by the database's clock, and its rules."""
    service = models.Service
    values = {
        "nonce": me.nonce,
        "last_seen_at": models.utcnow(),
        "availability_zone": me.availability_zone,
        "default_ratio": me.default_ratio,
        "calculation": me.calculation,
        "hook_extensions": me.hook_extensions,
        "ledger_fault": me.ledger_fault,
        **({"last_listened_at": models.utcnow()} if me.listening else {}),
    }
    statement = (
        sa.update(service)
        .where(service.binary == me.binary, service.host == me.host)
        .values(values)
        .execution_options(synchronize_session=False)
    )
    if session.execute(statement).rowcount:  # type: ignore[attr-defined]
        return
    try:
        with session.begin_nested():
            session.execute(sa.insert(service).values({"binary": me.binary, "host": me.host, **values}))
    except db_exc.DBDuplicateEntry:
        session.execute(statement)


def set_scheduler_state(session: orm.Session, host: str, *, enabled: bool, reason: str | None) -> None:
    """Record that an operator has enabled or disabled a scheduler.

    Raises :class:`~tonnage.capacity.errors.NotFound` for a scheduler that has never sent a heartbeat.
    """
    service = models.Service
    result = session.execute(
        sa.update(service)
        .where(service.binary == SCHEDULER, service.host == host)
        .values(enabled=enabled, disabled_reason=reason)
        .execution_options(synchronize_session=False)
    )
    if not result.rowcount:  # type: ignore[attr-defined]
        raise errors.NotFound(f"scheduler {host} could not be found")


def leave(session: orm.Session, me: SchedulerProcess) -> None:
    """Record that a process ends: other schedulers no longer have to agree with its rules.

    Another process with the same host stays.
    """
    service = models.Service
    session.execute(
        sa.update(service)
        .where(service.binary == me.binary, service.host == me.host, service.nonce == me.nonce)
        .values(default_ratio=None, calculation=None)
        .execution_options(synchronize_session=False)
    )


def seconds_without_others(session: orm.Session, binary: str, host: str, nonce: str) -> float | None:
    """Return the number of seconds since the last heartbeat of a process of that binary with another host or nonce.

    None: there never was one.
    """
    service = models.Service
    other = sa.or_(service.host != host, service.nonce != nonce)
    now, last = sa.type_coerce(models.utcnow(), sa.DateTime()), sa.func.max(service.last_seen_at)
    row = session.execute(sa.select(now, last).where(service.binary == binary, other)).one()
    return models.age(row[0], row[1])


def load(session: orm.Session) -> list[ServiceRow]:
    """Return all scheduler processes and backends, sorted by binary and host."""
    now = sa.type_coerce(models.utcnow(), sa.DateTime())
    service, backend = models.Service, models.Backend
    rows = [
        ServiceRow(
            binary=row.binary,
            host=row.host,
            availability_zone=row.availability_zone,
            enabled=row.enabled,
            disabled_reason=row.disabled_reason,
            last_seen_at=row.last_seen_at,
            silence=models.age(at, row.last_seen_at),
            default_ratio=row.default_ratio,
            calculation=row.calculation,
            hook_extensions=row.hook_extensions,
            ledger_fault=row.ledger_fault,
        )
        for row, at in session.execute(sa.select(service, now))
    ]
    rows += [
        ServiceRow(
            binary=AGENT,
            host=row.name,
            availability_zone=row.availability_zone,
            enabled=row.enabled,
            disabled_reason=row.disabled_reason,
            draining=row.draining,
            notice=backend_notices.of_backend(row),
            last_seen_at=row.last_report_at,
            silence=models.silence(at, row.last_report_at, observed=row.observed, notice=row.notice),
        )
        for row, at in session.execute(sa.select(backend, now))
    ]
    return sorted(rows, key=lambda row: (row.binary, row.host))


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete enabled schedulers that have been silent for :data:`KEPT`, at most ``limit``, and return their number."""
    service = models.Service
    before = session.execute(sa.select(models.utcnow())).scalar_one() - KEPT
    is_gone = sa.and_(service.last_seen_at < before, service.enabled.is_(True))
    hosts = session.scalars(sa.select(service.host).where(is_gone).limit(limit)).all()
    session.execute(
        sa.delete(service).where(service.host.in_(hosts), is_gone).execution_options(synchronize_session=False)
    )
    return len(hosts)


def require_no_scheduler(session: orm.Session, down_time: float) -> None:
    """Raise :class:`~tonnage.capacity.errors.Conflict` while a scheduler is up.

    A silent scheduler counts as down after ``down_time`` seconds.
    """
    running = [
        row.host
        for row in load(session)
        if row.binary == SCHEDULER and row.default_ratio is not None and row.up(down_time)
    ]
    if running:
        raise errors.Conflict(
            f"the ledger is in use: stop the scheduler on {', '.join(sorted(running))}, and the API; one that was "
            f"killed counts as down {down_time:g} s after its last heartbeat (service_down_time)"
        )
