# SPDX-License-Identifier: Apache-2.0
"""Volumes as the API shows them, and their fields other than capacity.

A ``project_id`` of None stands for all projects, which only an administrator may request. A volume of another project
raises the same error as a missing volume.
"""

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import filter_values
from tonnage.ledger.claims import bookings
from tonnage.ledger.db import paging
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs

SORT_KEYS: paging.SortKeys = {
    "id": lambda volume: volume.id,
    "name": lambda volume: sa.func.coalesce(volume.name, ""),
    # The name that the cinder command sends for "name".
    "display_name": lambda volume: sa.func.coalesce(volume.name, ""),
    "size": lambda volume: volume.size_gb,
    "status": lambda volume: volume.status,
    "availability_zone": lambda volume: sa.func.coalesce(volume.availability_zone, ""),
    "created_at": lambda volume: volume.created_at,
    "updated_at": lambda volume: sa.func.coalesce(volume.updated_at, volume.created_at),
    # No volume is bootable. The value is an expression, as some databases take a plain constant for the number of a
    # column.
    "bootable": lambda volume: sa.func.abs(0),
}

_EQUALS: Mapping[str, Callable[[str], sa.ColumnElement[bool]]] = {
    "id": lambda value: models.Volume.id == value,
    "name": lambda value: models.Volume.name == value,
    "name~": lambda value: models.Volume.name.contains(value, autoescape=True),
    "status": lambda value: models.Volume.status == value,
    "availability_zone": lambda value: models.Volume.availability_zone == value,
    "project_id": lambda value: models.Volume.project_id == value,
    "user_id": lambda value: models.Volume.user_id == value,
    "volume_type_id": lambda value: models.Volume.volume_type_id == value,
    "group_id": lambda value: models.Volume.group_id == value,
    "migration_status": lambda value: models.Volume.migration_status == value,
    "metadata": lambda value: _has_metadata(value),
    "host": lambda value: models.Volume.pool_id.in_(_pools_of(value)),
    # No volume is bootable.
    "bootable": lambda value: sa.true() if value.lower() in ("false", "0") else sa.false(),
}

#: Keys that filter a list of volumes.
FILTERS = frozenset(_EQUALS)

#: Filters that reveal the location of a volume.
HOST_FILTERS = frozenset({"host"})

#: Largest size of a volume's metadata, keys and values together, in characters. Single requests add items, so they need
#: a total limit.
MAX_METADATA = 2**17

#: Statuses that an administrator may set.
SETTABLE_STATUSES = ("available", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter for a list of volumes: one project or all (None), and values by key from :data:`FILTERS`."""

    project_id: str | None
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retyped:
    """A volume that gets another type in its current pool."""

    volume_id: str
    pool_id: int | None
    volume_type_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """New values for a volume's descriptive fields; a field that is None stays as it is."""

    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDetails:
    """A volume with the names of its type and its pool; see :class:`tonnage.ledger.models.Volume`."""

    id: str
    name: str | None
    description: str | None
    project_id: str
    user_id: str
    size_gb: int
    status: str
    status_reason: str | None
    volume_type_id: str | None
    volume_type: str | None
    availability_zone: str | None
    pool: str | None
    user_metadata: dict[str, str]
    source_volume_id: str | None
    migration_status: str | None
    group_id: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


def get(session: orm.Session, volume_id: str, project_id: str | None) -> VolumeDetails:
    """Return a volume. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    statement, parameters = _GET, {"of_volume": volume_id.lower()}
    if project_id is not None:
        statement, parameters["of_project"] = _GET_OF_PROJECT, project_id
    rows = statement.rows(session.connection(), parameters) if is_id(volume_id) else ()
    if not rows:
        raise errors.NotFound(f"Volume {volume_id} could not be found.")
    return _details(rows[0])


def load(session: orm.Session, volume_ids: Sequence[str]) -> list[VolumeDetails]:
    """Return the existing volumes with these ids, in the order of the ids."""
    rows = {row[0]: row for row in _LOAD.rows(session.connection(), {"ids": volume_ids})}
    return [_details(rows[volume_id]) for volume_id in volume_ids if volume_id in rows]


def page(session: orm.Session, query: Query, part: paging.Page) -> list[VolumeDetails]:
    """Return a page of volumes.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the marker is no visible volume.
    """
    if part.marker is not None:
        marker = get(session, part.marker, query.project_id)
        part = paging.Page(part.limit, marker.id, part.order)
    statement = paging.apply(_matching(query), models.Volume, SORT_KEYS, part)
    named: sa.Select[Any] = statement.with_only_columns(*_COLUMNS).outerjoin(_TYPE).outerjoin(_POOL)
    return [_details(row) for row in session.execute(named)]


def count(session: orm.Session, query: Query) -> int:
    """Return the number of matching volumes on all pages."""
    return session.scalar(sa.select(sa.func.count()).select_from(_matching(query).subquery())) or 0


def totals(session: orm.Session, query: Query) -> tuple[int, int]:
    """Return the number of matching volumes and the sum of their sizes in GiB."""
    matching = _matching(query).subquery()
    count, size = session.execute(
        sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(matching.c.size_gb), 0)).select_from(matching)
    ).one()
    return count, int(size)


def all_metadata(session: orm.Session, query: Query) -> dict[str, list[str]]:
    """Return the metadata keys of all matching volumes, each with its sorted values."""
    values_by_key: dict[str, set[str]] = {}
    for metadata in session.scalars(_matching(query).with_only_columns(models.Volume.user_metadata)):
        for key, value in metadata.items():
            values_by_key.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in sorted(values_by_key.items())}


def per_project(session: orm.Session, host: str) -> list[tuple[str, int, int]]:
    """Return the project id, the number of volumes and their total size in GiB for each project on a backend."""
    volume = models.Volume
    rows = session.execute(
        sa.select(volume.project_id, sa.func.count(), sa.func.sum(volume.size_gb))
        .where(volume.pool_id.in_(_pools_of(host)))
        .group_by(volume.project_id)
        .order_by(volume.project_id)
    )
    return [(project_id, count, int(size)) for project_id, count, size in rows]


def per_pool(session: orm.Session) -> dict[int, int]:
    """Return the number of volumes by pool id; pools without volumes are left out."""
    pool_id = models.Volume.pool_id
    rows = session.execute(sa.select(pool_id, sa.func.count()).where(pool_id.is_not(None)).group_by(pool_id))
    return {row[0]: row[1] for row in rows if row[0] is not None}


def update(session: orm.Session, volume_id: str, project_id: str | None, changes: Changes) -> VolumeDetails:
    """Change a volume's descriptive fields. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    volume = _lock(session, volume_id, project_id)
    if changes.name is not None:
        volume.name = changes.name
    if changes.description is not None:
        volume.description = changes.description
    if changes.metadata is not None:
        volume.user_metadata = dict(changes.metadata)
    session.flush()
    return get(session, volume_id, project_id)


def set_metadata(
    session: orm.Session, volume_id: str, project_id: str | None, items: Mapping[str, str], *, replace: bool
) -> dict[str, str]:
    """Set items of a volume's metadata and return all items; with ``replace`` all other items are removed.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` if the
    metadata would become too large.
    """
    volume = _lock(session, volume_id, project_id)
    merged = dict(items) if replace else {**volume.user_metadata, **items}
    length = sum(len(key) + len(value) for key, value in merged.items())
    if not replace and length > MAX_METADATA:
        raise errors.InvalidInput(
            f"Metadata of volume {volume.id} would have {length} characters, keys and values together: it takes at "
            f"most {MAX_METADATA}; remove some first"
        )
    volume.user_metadata = merged
    return merged


def unset_metadata(session: orm.Session, volume_id: str, project_id: str | None, key: str) -> None:
    """Remove a metadata item.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the volume or the item is missing.
    """
    volume = _lock(session, volume_id, project_id)
    if key not in volume.user_metadata:
        raise errors.NotFound(no_metadata(volume_id, key))
    volume.user_metadata = {item_key: value for item_key, value in volume.user_metadata.items() if item_key != key}


def no_metadata(volume_id: str, key: str) -> str:
    """Return the error message for a metadata item that a volume does not have."""
    return f"Volume {volume_id} has no metadata with key {key}."


def reset_status(session: orm.Session, volume_id: str, status: str) -> None:
    """Set the status of a volume to available or error; nothing else about it changes.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` for another
    status, and :class:`~tonnage.capacity.errors.Conflict` where the status would contradict the ledger: a volume on no
    pool is not available, and a pending operation sets the status when it ends. A pending purge of another copy is no
    operation on the volume.
    """
    if status not in SETTABLE_STATUSES:
        raise errors.InvalidInput(f"status is {status!r}: expected {' or '.join(SETTABLE_STATUSES)}")
    volume = _lock(session, volume_id, None)
    _require_no_pending_operation(session, volume)
    if volume.pool_id is None:
        raise errors.Conflict(f"volume {volume_id} is on no pool: it can only be deleted")
    volume.status = status
    volume.status_reason = None if status == "available" else "declared so by an administrator"


def reset_migration_status(session: orm.Session, volume_id: str) -> None:
    """Clear the result of a volume's last migration.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.Conflict` while an operation
    is pending.
    """
    volume = _lock(session, volume_id, None)
    _require_no_pending_operation(session, volume)
    volume.migration_status = None


def set_type(session: orm.Session, retyped: Retyped, seen_volume: bookings.SeenVolume) -> None:
    """Give a volume another type.

    Raises :class:`~tonnage.capacity.errors.Conflict` if the volume is not available, has changed its pool, or no longer
    has the size and type of ``seen_volume``.
    """
    volume = models.Volume
    result = session.execute(
        sa.update(volume)
        .where(
            volume.id == retyped.volume_id,
            volume.pool_id == retyped.pool_id,
            volume.status == "available",
            volume.group_id.is_(None),
            volume.size_gb == seen_volume.size_gb,
            sa.func.coalesce(volume.volume_type_id, "") == (seen_volume.volume_type_id or ""),
        )
        .values(volume_type_id=retyped.volume_type_id)
        .execution_options(synchronize_session=False)
    )
    if not result.rowcount:  # type: ignore[attr-defined]
        raise errors.Conflict(f"volume {retyped.volume_id} was changed by another request; try again")


def is_id(text: str) -> bool:
    """Return whether the text has the format of a volume id, so that no name is looked up as an id."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _lock(session: orm.Session, volume_id: str, project_id: str | None) -> models.Volume:
    statement = sa.select(models.Volume).where(models.Volume.id == volume_id.lower()).with_for_update()
    if project_id is not None:
        statement = statement.where(models.Volume.project_id == project_id)
    volume: models.Volume | None = session.scalar(statement) if is_id(volume_id) else None
    if volume is None:
        raise errors.NotFound(f"Volume {volume_id} could not be found.")
    return volume


def _require_no_pending_operation(session: orm.Session, volume: models.Volume) -> None:
    """Raise :class:`~tonnage.capacity.errors.Conflict` while an operation on the volume is pending."""
    claim = models.Claim
    pending = sa.exists().where(
        claim.volume_id == volume.id, claim.state == pool_counters.PENDING, claim.verb != claim_verbs.PURGE
    )
    if session.scalar(sa.select(pending)):
        raise errors.Conflict(
            f"volume {volume.id} is {volume.status} and its operation has not ended: how it ends sets the status"
        )


_VOLUME, _TYPE, _POOL = models.table(models.Volume), models.table(models.VolumeType), models.table(models.Pool)
_NAMES = tuple(item.name for item in fields(VolumeDetails))
_OTHER_COLUMNS = {"volume_type": _TYPE.c.name, "pool": _POOL.c.name, "user_metadata": _VOLUME.c.metadata}
_COLUMNS: tuple[sa.Column[Any], ...] = tuple(
    _OTHER_COLUMNS[name] if name in _OTHER_COLUMNS else _VOLUME.c[name] for name in _NAMES
)
#: The statements are built once, as they are executed for most requests.
_SELECT: sa.Select[Any] = sa.select(*_COLUMNS).select_from(_VOLUME.outerjoin(_TYPE).outerjoin(_POOL))
_OF_ID = _SELECT.where(_VOLUME.c.id == sa.bindparam("of_volume"))
_GET = Prepared(_OF_ID)
_GET_OF_PROJECT = Prepared(_OF_ID.where(_VOLUME.c.project_id == sa.bindparam("of_project")))
_LOAD = Prepared(_SELECT.where(_VOLUME.c.id.in_(sa.bindparam("ids", expanding=True))))


def _details(row: sa.Row[Any]) -> VolumeDetails:
    return VolumeDetails(**dict(zip(_NAMES, row, strict=True)))


def _has_metadata(text: str) -> sa.ColumnElement[bool]:
    items = filter_values.parse(text, "metadata")
    return sa.and_(sa.true(), *(models.Volume.user_metadata[key].as_string() == item for key, item in items.items()))


def _pools_of(host: str) -> sa.Select[Any]:
    """Return a query for the ids of the pools of a ``host``, ``host@backend`` or ``host@backend#pool``."""
    pool = models.Pool
    separator = "@" if "@" not in host else "#"
    children = [] if "#" in host else [pool.name.startswith(host + separator, autoescape=True)]
    return sa.select(pool.id).where(sa.or_(pool.name == host, *children))


def _matching(query: Query) -> sa.Select[Any]:
    statement: sa.Select[Any] = sa.select(models.Volume)
    if query.project_id is not None:
        statement = statement.where(models.Volume.project_id == query.project_id)
    return statement.where(*(_EQUALS[key](value) for key, value in query.filters.items()))
