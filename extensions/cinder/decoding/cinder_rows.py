# SPDX-License-Identifier: Apache-2.0
"""The rows of Cinder's database that the shadow reads: volumes and volume services. It writes nothing."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.ledger.db import database, db_errors

#: Statuses of a volume whose operation has not ended, so that its storage may not have the volume yet.
UNFINISHED = frozenset(
    {"creating", "downloading", "extending", "retyping", "managing", "uploading", "restoring-backup"}
)

#: Seconds by which changed rows are read again: clocks differ, and times of rows have whole seconds.
_OVERLAP = 30

_METADATA = sa.MetaData()
_VOLUMES = sa.Table(
    "volumes",
    _METADATA,
    sa.Column("id", sa.String(36)),
    sa.Column("host", sa.String(255)),
    sa.Column("cluster_name", sa.String(255)),
    sa.Column("size", sa.Integer),
    sa.Column("status", sa.String(255)),
    sa.Column("migration_status", sa.String(255)),
    sa.Column("use_quota", sa.Boolean),
    sa.Column("created_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
    sa.Column("launched_at", sa.DateTime),
    sa.Column("deleted_at", sa.DateTime),
    sa.Column("deleted", sa.Boolean),
)
_SERVICES = sa.Table(
    "services",
    _METADATA,
    sa.Column("host", sa.String(255)),
    sa.Column("cluster_name", sa.String(255)),
    sa.Column("binary", sa.String(255)),
    sa.Column("disabled", sa.Boolean),
    sa.Column("frozen", sa.Boolean),
    sa.Column("availability_zone", sa.String(255)),
    sa.Column("updated_at", sa.DateTime),
    sa.Column("created_at", sa.DateTime),
    sa.Column("deleted", sa.Boolean),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRow:
    """A live row of a volume. ``pool`` is None while it has no host. Times are seconds since 1970.

    ``changed_at`` is the time of the last change, ``launched_at`` the end of its creation. ``counted`` is false for
    volumes that Cinder makes for itself, outside of the quota.
    """

    id: str
    pool: str | None
    size_gb: int
    status: str
    migration_status: str
    changed_at: float
    launched_at: float | None
    counted: bool

    @property
    def under_way(self) -> bool:
        """Return whether an operation may change the storage at this moment."""
        return self.status in UNFINISHED or self.status == "deleting"

    @property
    def finished(self) -> bool:
        """Return whether no operation that changes the storage is under way."""
        return self.status not in UNFINISHED and not self.status.startswith(("error", "deleting"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """The volume service of a backend. ``silent`` is the age of its heartbeat in seconds, by the database's clock."""

    backend: str
    enabled: bool
    availability_zone: str
    silent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows that were read together at ``read_at``, seconds since 1970 by the database's clock.

    ``gone`` are the ids of deleted volumes. If ``complete``, volumes that are not among ``live`` are gone as well.
    """

    read_at: float
    live: tuple[VolumeRow, ...]
    gone: frozenset[str]
    services: tuple[ServiceRow, ...]
    complete: bool


class CinderRows:
    """Reads rows of one Cinder. Raises :class:`~tonnage.capacity.errors.Unavailable` if that is not possible."""

    def __init__(self, cinder: database.Database) -> None:
        self._cinder = cinder
        self._since: datetime.datetime | None = None

    def read(self, *, complete: bool) -> Changes:
        """Return all live rows, or those that changed since the last call. The first call returns all."""
        try:
            return self._read(complete or self._since is None)
        except (db_exc.DBError, sa.exc.SQLAlchemyError) as error:
            raise _unreadable(error) from error
        except errors.Unavailable as error:
            if error.__cause__ is None or not db_errors.is_refusal(error.__cause__):
                raise
            raise _unreadable(error.__cause__) from error

    def _read(self, complete: bool) -> Changes:
        with self._cinder.reading(snapshot=True) as session:
            now = session.execute(sa.select(_now(session.get_bind().dialect.name))).scalar_one()
            rows = session.execute(
                sa.select(_VOLUMES).where(_VOLUMES.c.deleted == sa.false() if complete else _changed(self._since))
            ).all()
            services = session.execute(
                sa.select(_SERVICES).where(_SERVICES.c.binary == "cinder-volume", _SERVICES.c.deleted == sa.false())
            ).all()
        self._since = now - datetime.timedelta(seconds=_OVERLAP)
        return Changes(
            read_at=seconds(now),
            live=tuple(_volume(row) for row in rows if not row.deleted),
            gone=frozenset(row.id for row in rows if row.deleted),
            services=_services(services, now),
            complete=complete,
        )


def _now(dialect: str) -> sa.ColumnElement[datetime.datetime]:
    """Return the database's clock in UTC."""
    if dialect == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", type_=sa.DateTime())
    if dialect == "postgresql":
        return sa.func.timezone("utc", sa.func.clock_timestamp(), type_=sa.DateTime())
    return sa.func.utc_timestamp(6, type_=sa.DateTime())


def _changed(since: datetime.datetime | None) -> sa.ColumnElement[bool]:
    columns = (_VOLUMES.c.created_at, _VOLUMES.c.updated_at, _VOLUMES.c.deleted_at)
    return sa.or_(*(column >= since for column in columns))


def seconds(time: datetime.datetime) -> float:
    """Return a time in UTC as seconds since 1970."""
    return time.replace(tzinfo=datetime.UTC).timestamp()


def _volume(row: sa.Row[tuple[object, ...]]) -> VolumeRow:
    changed = row.updated_at or row.created_at
    return VolumeRow(
        id=row.id,
        pool=row.cluster_name or row.host,
        size_gb=row.size or 0,
        status=row.status or "",
        migration_status=row.migration_status or "",
        changed_at=0.0 if changed is None else seconds(changed),
        launched_at=None if row.launched_at is None else seconds(row.launched_at),
        counted=row.use_quota is not False,
    )


def _services(rows: Iterable[sa.Row[tuple[object, ...]]], now: datetime.datetime) -> tuple[ServiceRow, ...]:
    """Return one row for each backend: that of the cluster's service with the newest heartbeat."""
    newest: dict[str, ServiceRow] = {}
    for row in rows:
        beat = row.updated_at or row.created_at or now
        service = ServiceRow(
            backend=row.cluster_name or row.host,
            enabled=not row.disabled and not row.frozen,
            availability_zone=row.availability_zone or "",
            silent=(now - beat).total_seconds(),
        )
        previous = newest.get(service.backend)
        if previous is None or service.silent < previous.silent:
            newest[service.backend] = service
    return tuple(newest.values())


def _unreadable(error: BaseException) -> errors.Unavailable:
    return errors.Unavailable(f"the tables volumes and services cannot be read: {db_errors.first_line(error)}")
