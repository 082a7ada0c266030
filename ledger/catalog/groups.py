# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes as the API shows and changes them.

A ``project_id`` of None stands for all projects, which only an administrator may request. A group of another project
raises the same error as a missing group, and so does a group that was deleted together with its last volume.

Rows of groups are locked before those of their volumes, and after pools: see
:mod:`tonnage.ledger.claims.group_backends`.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes
from tonnage.ledger.claims import deletions, group_backends
from tonnage.ledger.claims.group_backends import AVAILABLE, DELETING
from tonnage.ledger.db import database, paging

ERROR = "error"
ERROR_DELETING = "error_deleting"

#: Statuses that an administrator may set: those of Cinder, except for those of a group that ends with its last volume.
SETTABLE_STATUSES = (AVAILABLE, "creating", ERROR, ERROR_DELETING, "in-use", "updating")

#: States in which a volume may join or leave a group.
JOINING = ("available", "in-use")
LEAVING = ("available", "in-use", "error", "error_deleting")

SORT_KEYS: paging.SortKeys = {
    "id": lambda group: group.id,
    "name": lambda group: sa.func.coalesce(group.name, ""),
    "created_at": lambda group: group.created_at,
}

_EQUALS: Mapping[str, sa.ColumnElement[Any] | orm.InstrumentedAttribute[Any]] = {
    "id": models.Group.id,
    "name": models.Group.name,
    "group_type": models.Group.group_type_id,
    "availability_zone": models.Group.availability_zone,
    "project_id": models.Group.project_id,
    "user_id": models.Group.user_id,
}

#: Keys that filter a list of groups.
FILTERS = frozenset(_EQUALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """The fields of a new group. ``id`` stays the same if the transaction has to run again."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    group_type_id: str
    volume_type_ids: Collection[str]
    availability_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a group; a field that is None stays as it is. ``add`` and ``remove`` are ids of volumes."""

    name: str | None = None
    description: str | None = None
    add: Sequence[str] = ()
    remove: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter for a list of groups: one project or all (None), and values by key from :data:`FILTERS`."""

    project_id: str | None
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with fields derived from its volumes: their ids, their zone, and the progress of a delete."""

    row: models.Group
    volume_ids: tuple[str, ...]
    availability_zone: str | None
    status: str


def create(session: orm.Session, new_group: NewGroup) -> models.Group:
    """Add a group. Raises :class:`~tonnage.capacity.errors.NotFound` if one of its types has just been deleted."""
    group = models.Group(
        id=new_group.id,
        name=new_group.name,
        description=new_group.description,
        project_id=new_group.project_id,
        user_id=new_group.user_id,
        group_type_id=new_group.group_type_id,
        availability_zone=new_group.availability_zone,
        status=AVAILABLE,
        volume_types=list(
            session.scalars(sa.select(models.VolumeType).where(models.VolumeType.id.in_(new_group.volume_type_ids)))
        ),
    )
    session.add(group)
    try:
        session.flush()
    except db_exc.DBReferenceError:
        raise errors.NotFound("A type of the group could not be found: it has just been deleted.") from None
    return group


def get(session: orm.Session, group_id: str, project_id: str | None) -> GroupView:
    """Return a group. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    return _shown(session, [_get(session, group_id, project_id)])[0]


def page(session: orm.Session, query: Query, part: paging.Page) -> list[GroupView]:
    """Return a page of groups.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the marker is no visible group.
    """
    if part.marker is not None:
        marker = _get(session, part.marker, query.project_id)
        part = paging.Page(part.limit, marker.id, part.order)
    statement = _visible_to(query.project_id).where(*(_EQUALS[key] == value for key, value in query.filters.items()))
    return _shown(session, list(session.scalars(paging.apply(statement, models.Group, SORT_KEYS, part))))


def count(session: orm.Session, project_id: str, user_id: str = "") -> int:
    """Return the number of groups of a project, or of one of its users."""
    of_user = [models.Group.user_id == user_id] if user_id else []
    statement = _visible_to(project_id).where(*of_user).with_only_columns(sa.func.count())
    return session.scalar(statement) or 0


def update(session: orm.Session, group_id: str, project_id: str | None, changes: Changes) -> None:
    """Change a group's descriptive fields and its member volumes.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` for volumes that
    cannot join or leave, and :class:`~tonnage.capacity.errors.Conflict` for a group that is not available.
    """
    group = _get(session, group_id, project_id, lock=True)
    if group.status != AVAILABLE:
        raise errors.Conflict(f"Group {group.id} is {group.status}: only an available one can be changed.")
    members_by_id = _volumes(session, models.Volume.group_id == group.id)
    if database.may_be_committed(session) and _is_applied(group, members_by_id, changes):
        return
    joining = [volume_id for volume_id in dict.fromkeys(changes.add) if volume_id not in members_by_id]
    if both := sorted(set(changes.add) & set(changes.remove)):
        raise errors.InvalidInput(f"Volumes {', '.join(both)} are in both add_volumes and remove_volumes.")
    name = changes.name if changes.name != group.name else None
    description = changes.description if changes.description != group.description else None
    if name is None and description is None and not joining and not changes.remove:
        raise errors.InvalidInput(
            f"Cannot update group {group.id}: name, description, add_volumes and remove_volumes change nothing."
        )
    for volume_id in changes.remove:
        _remove_member(group, volume_id, members_by_id)
    _add_members(session, group, joining, [volume for id, volume in members_by_id.items() if id not in changes.remove])
    group.name = group.name if name is None else name
    group.description = group.description if description is None else description


def reset_status(session: orm.Session, group_id: str, status: str) -> None:
    """Set the status of a group to one of :data:`SETTABLE_STATUSES`; nothing else about it changes.

    Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    if status not in SETTABLE_STATUSES:
        raise errors.InvalidInput(f"status is {status!r}: expected {', '.join(SETTABLE_STATUSES)}")
    _get(session, group_id, None, lock=True).status = status


def begin_deletion(session: orm.Session, group_id: str, project_id: str | None, *, with_volumes: bool) -> list[str]:
    """Delete an empty group, or mark a group as deleting; return the ids of its volumes.

    The caller has to delete these volumes; the group ends with the last of them. No volume can join a deleting group.
    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.Conflict` if the group has
    volumes and ``with_volumes`` is False, or if one of them cannot be deleted.
    """
    try:
        group = _get(session, group_id, project_id, lock=True)
    except errors.NotFound:
        if database.may_be_committed(session):
            return []
        raise
    members_by_id = _volumes(session, models.Volume.group_id == group.id)
    if not members_by_id:
        session.delete(group)
        return []
    if not with_volumes:
        raise errors.Conflict(
            f"Group {group.id} still contains volumes. The delete-volumes flag is required to delete it."
        )
    for volume in members_by_id.values():
        if volume.status not in (*deletions.DELETABLE, "deleting"):
            raise errors.Conflict(f"Volume {volume.id} in group {group.id} is {volume.status} and cannot be deleted.")
    group.status = DELETING
    return sorted(members_by_id)


def require_free(volume: volumes.VolumeDetails | models.Volume, action: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.Conflict` for a volume in a group.

    ``action`` is a participle for the message. The volumes of a group stay on one backend, so no single one may leave
    it.
    """
    if volume.group_id is not None:
        raise errors.Conflict(
            f"Volume {volume.id} is in group {volume.group_id} and cannot be {action}: remove it from the group first."
        )


def _visible_to(project_id: str | None) -> sa.Select[Any]:
    of_project = [] if project_id is None else [models.Group.project_id == project_id]
    return sa.select(models.Group).where(group_backends.exists_condition(), *of_project)


def _get(session: orm.Session, group_id: str, project_id: str | None, *, lock: bool = False) -> models.Group:
    statement = _visible_to(project_id).where(models.Group.id == group_id.lower())
    if lock:
        statement = statement.with_for_update()
    group: models.Group | None = session.scalar(statement) if volumes.is_id(group_id) else None
    if group is None:
        raise errors.NotFound(f"Group {group_id} could not be found.")
    return group


def _is_applied(group: models.Group, members_by_id: Collection[str], changes: Changes) -> bool:
    """Return whether the group has all the changes already."""
    name = changes.name is None or changes.name == group.name
    description = changes.description is None or changes.description == group.description
    return (
        name
        and description
        and all(volume_id in members_by_id for volume_id in changes.add)
        and not {*changes.remove} & {*members_by_id}
    )


def _shown(session: orm.Session, rows: Sequence[models.Group]) -> list[GroupView]:
    volume = models.Volume
    member_rows = session.execute(
        sa.select(volume.group_id, volume.id, volume.status, volume.availability_zone)
        .where(volume.group_id.in_([row.id for row in rows]))
        .order_by(volume.created_at, volume.id)
    )
    members_by_group: dict[str, list[Any]] = {row.id: [] for row in rows}
    for member_row in member_rows:
        members_by_group[member_row.group_id].append(member_row)
    views = []
    for row in rows:
        members = members_by_group[row.id]
        failed = row.status == DELETING and any(member.status.startswith("error") for member in members)
        zones = [member.availability_zone for member in members if member.availability_zone]
        views.append(
            GroupView(
                row,
                tuple(member.id for member in members),
                row.availability_zone or (zones[0] if zones else None),
                ERROR_DELETING if failed else row.status,
            )
        )
    return views


def _volumes(session: orm.Session, *conditions: sa.ColumnElement[bool]) -> dict[str, models.Volume]:
    """Return the volumes that match the conditions by id, locked, with their pools loaded."""
    statement = sa.select(models.Volume).where(*conditions).order_by(models.Volume.id).with_for_update()
    return {row.id: row for row in session.scalars(statement.options(orm.selectinload(models.Volume.pool)))}


def _remove_member(group: models.Group, volume_id: str, members_by_id: Mapping[str, models.Volume]) -> None:
    if volume_id not in members_by_id:
        raise errors.InvalidInput(
            f"Cannot remove volume {volume_id} from group {group.id} because it is not in the group."
        )
    volume = members_by_id[volume_id]
    if volume.status not in LEAVING:
        raise errors.InvalidInput(
            f"Cannot remove volume {volume_id} from group {group.id} because it is {volume.status}: "
            f"expected {', '.join(LEAVING)}."
        )
    volume.group_id = None


def _add_members(
    session: orm.Session, group: models.Group, volume_ids: Sequence[str], members: Collection[models.Volume]
) -> None:
    if not volume_ids:
        return
    # Volumes of other projects count as missing.
    candidates = _volumes(session, models.Volume.id.in_(volume_ids), models.Volume.project_id == group.project_id)
    backends = {backend_of(volume.pool.name) for volume in members if volume.pool is not None}
    types = {volume_type.id for volume_type in group.volume_types}
    for volume_id in volume_ids:
        volume = candidates.get(volume_id)
        problem = _problem(volume, types, backends)
        if problem is not None:
            raise errors.InvalidInput(f"Cannot add volume {volume_id} to group {group.id} because {problem}.")
        if volume is not None:
            volume.group_id = group.id
            backends |= {backend_of(volume.pool.name)} if volume.pool is not None else set()


def _problem(volume: models.Volume | None, types: Collection[str], backends: Collection[str]) -> str | None:
    """Return the reason why a volume cannot join a group with these types and backends, None if it can."""
    if volume is None:
        return "volume cannot be found"
    if volume.group_id is not None:
        return f"it is already in group {volume.group_id}"
    if volume.volume_type_id is None:
        return "it has no volume type"
    if volume.volume_type_id not in types:
        return f"volume type {volume.volume_type_id} is not supported by the group"
    if volume.status not in JOINING or volume.pool is None:
        return f"it is {volume.status}: expected {', '.join(JOINING)}"
    if backends and backend_of(volume.pool.name) not in backends:
        return "it is not on the backend that the group's volumes are on"
    return None
