# SPDX-License-Identifier: Apache-2.0
"""Volume types and their extra specs.

A ``project_id`` of None stands for all projects and shows every type. Otherwise the public types and those with access
for the project are visible; a type that the project does not see raises the same error as a missing one.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors, request
from tonnage.ledger import models
from tonnage.ledger.claims import group_backends, pool_counters
from tonnage.ledger.db import filter_values, lost_commits, paging

SORT_KEYS: paging.SortKeys = {
    "id": lambda volume_type: volume_type.id,
    "name": lambda volume_type: volume_type.name,
    "created_at": lambda volume_type: volume_type.created_at,
    "is_public": lambda volume_type: volume_type.is_public,
}


#: Keys that filter a list of volume types.
FILTERS = frozenset({"extra_specs", "name"})


class NameTaken(errors.Conflict):
    """Another volume type has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """New values for a type; a field that is None stays as it is."""

    name: str | None = None
    description: str | None = None
    is_public: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter for a list of types: public ones, private ones or (None) both, and values by key.

    The keys of ``filters`` are from :data:`FILTERS`; the value of ``extra_specs`` has the format of
    :mod:`tonnage.ledger.db.filter_values`.
    """

    is_public: bool | None = None
    filters: Mapping[str, str] = field(default_factory=dict)


def create(
    session: orm.Session,
    name: str,
    description: str | None = None,
    is_public: bool = True,
    extra_specs: Mapping[str, str] | None = None,
) -> models.VolumeType:
    """Add a volume type.

    Raises :class:`NameTaken`, and :class:`~tonnage.capacity.errors.InvalidInput` for an invalid extra spec.
    """
    request.asked_provisioning(extra_specs or {})
    values = {"description": description, "is_public": is_public, "extra_specs": extra_specs or {}}
    committed = lost_commits.find_committed(session, models.VolumeType, name, **values)
    if committed is not None:
        return committed
    volume_type = models.VolumeType(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        is_public=is_public,
        specs=[models.ExtraSpec(key=key, value=value) for key, value in (extra_specs or {}).items()],
    )
    session.add(volume_type)
    _flush(session, name)
    return volume_type


def get(session: orm.Session, type_id: str, project_id: str | None = None) -> models.VolumeType:
    """Return the type with that id. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    return _find_one(session, models.VolumeType.id == type_id, type_id, project_id)


def find(session: orm.Session, name_or_id: str, project_id: str | None = None) -> models.VolumeType:
    """Return the type with that id or, if there is none, that name.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    try:
        return get(session, name_or_id, project_id)
    except errors.NotFound:
        return _find_one(session, models.VolumeType.name == name_or_id, name_or_id, project_id)


def page(
    session: orm.Session, query: Query, part: paging.Page, project_id: str | None = None
) -> list[models.VolumeType]:
    """Return a page of the types that the project sees.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the project sees no type with the marker's id, and
    :class:`~tonnage.capacity.errors.InvalidInput` for an invalid filter.
    """
    if part.marker is not None:
        get(session, part.marker, project_id)
    statement = sa.select(models.VolumeType).where(_visible_to(project_id))
    if query.is_public is not None:
        statement = statement.where(models.VolumeType.is_public.is_(query.is_public))
    if "name" in query.filters:
        statement = statement.where(models.VolumeType.name == query.filters["name"])
    for key, value in filter_values.parse(query.filters.get("extra_specs", "{}"), "extra_specs").items():
        spec = models.ExtraSpec
        has_it = sa.exists().where(spec.volume_type_id == models.VolumeType.id, spec.key == key, spec.value == value)
        statement = statement.where(has_it)
    return list(session.scalars(paging.apply(statement, models.VolumeType, SORT_KEYS, part)))


def names(session: orm.Session, project_id: str | None = None) -> dict[str, str]:
    """Return the names of the types that the project sees, by id, in the order of the names."""
    kind = models.VolumeType
    rows = session.execute(sa.select(kind.id, kind.name).where(_visible_to(project_id)).order_by(kind.name))
    return {row[0]: row[1] for row in rows}


def update(session: orm.Session, type_id: str, changes: Changes) -> models.VolumeType:
    """Change a type. Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`NameTaken`."""
    volume_type = lock(session, type_id)
    if changes.name is not None:
        volume_type.name = changes.name
    if changes.description is not None:
        volume_type.description = changes.description
    if changes.is_public is not None:
        volume_type.is_public = changes.is_public
    _flush(session, volume_type.name)
    return volume_type


def delete(session: orm.Session, type_id: str) -> None:
    """Delete a type.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.Conflict` while a volume has
    the type, is being retyped to it, or a group allows it.
    """
    group_backends.purge(session)
    volume_type = lock(session, type_id)
    claim = models.Claim
    if session.scalar(
        sa.select(sa.exists().where(claim.volume_type_id == type_id, claim.state == pool_counters.PENDING))
    ):
        raise errors.Conflict(f"Volume type {volume_type.name!r} is in use by a volume that is being retyped.")
    volumes = session.scalar(
        sa.select(sa.func.count()).select_from(models.Volume).where(models.Volume.volume_type_id == type_id)
    )
    if volumes:
        raise errors.Conflict(f"Volume type {volume_type.name!r} is in use by {volumes} volume(s); delete them first.")
    group = models.GroupVolumeType
    groups = session.scalar(sa.select(sa.func.count()).select_from(group).where(group.volume_type_id == type_id))
    if groups:
        raise errors.Conflict(f"Volume type {volume_type.name!r} is in use by {groups} group(s); delete them first.")
    for of_type in (models.TypeAccess, models.TypeQos, models.QuotaLimit):
        session.execute(sa.delete(of_type).where(of_type.volume_type_id == type_id))
    session.delete(volume_type)
    try:
        session.flush()
    except db_exc.DBReferenceError:
        raise errors.Conflict(f"Volume type {volume_type.name!r} is in use by a volume or a group.") from None


def set_specs(session: orm.Session, type_id: str, specs: Mapping[str, str]) -> dict[str, str]:
    """Set some extra specs of a type, keep the others, and return all of them.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for an invalid
    extra spec.
    """
    request.asked_provisioning(specs)
    volume_type = lock(session, type_id)
    by_key = {spec.key: spec for spec in volume_type.specs}
    for key, value in specs.items():
        if key in by_key:
            by_key[key].value = value
        else:
            volume_type.specs.append(models.ExtraSpec(key=key, value=value))
    session.flush()
    return volume_type.extra_specs


def unset_spec(session: orm.Session, type_id: str, key: str) -> None:
    """Remove an extra spec. Raises :class:`~tonnage.capacity.errors.NotFound` if the type or the spec is missing."""
    volume_type = lock(session, type_id)
    spec = next((spec for spec in volume_type.specs if spec.key == key), None)
    if spec is None:
        raise errors.NotFound(no_spec(type_id, key))
    volume_type.specs.remove(spec)


def no_spec(type_id: str, key: str) -> str:
    """Return the error message for an extra spec that a type does not have."""
    return f"Volume Type {type_id} has no extra specs with key {key}."


def lock(session: orm.Session, type_id: str) -> models.VolumeType:
    """Return a type and lock its row until the transaction ends.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    volume_type = session.scalar(sa.select(models.VolumeType).where(models.VolumeType.id == type_id).with_for_update())
    if volume_type is None:
        raise errors.NotFound(f"Volume type {type_id} could not be found.")
    return volume_type


def _find_one(
    session: orm.Session, condition: sa.ColumnElement[bool], name_or_id: str, project_id: str | None
) -> models.VolumeType:
    volume_type = session.scalar(sa.select(models.VolumeType).where(condition, _visible_to(project_id)))
    if volume_type is None:
        raise errors.NotFound(f"Volume type {name_or_id} could not be found.")
    return volume_type


def _visible_to(project_id: str | None) -> sa.ColumnElement[bool]:
    if project_id is None:
        return sa.true()
    volume_type, access = models.VolumeType, models.TypeAccess
    granted = sa.exists().where(access.volume_type_id == volume_type.id, access.project_id == project_id)
    return sa.or_(volume_type.is_public.is_(True), granted)


def _flush(session: orm.Session, name: str) -> None:
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise NameTaken(f"Volume Type {name} already exists.") from None
