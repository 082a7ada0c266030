# SPDX-License-Identifier: Apache-2.0
"""Group types and their specs.

A ``project_id`` of None stands for all projects and shows every type. Otherwise only public types are visible; a type
that the project does not see raises the same error as a missing one.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import group_backends
from tonnage.ledger.db import lost_commits, paging

SORT_KEYS: paging.SortKeys = {
    "id": lambda kind: kind.id,
    "name": lambda kind: kind.name,
    "created_at": lambda kind: kind.created_at,
    "is_public": lambda kind: kind.is_public,
}


class NameTaken(errors.Conflict):
    """Another group type has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """New values for a group type; a field that is None stays as it is."""

    name: str | None = None
    description: str | None = None
    is_public: bool | None = None


def create(
    session: orm.Session,
    name: str,
    description: str | None = None,
    is_public: bool = True,
    specs: Mapping[str, str] | None = None,
) -> models.GroupType:
    """Add a group type. Raises :class:`NameTaken`."""
    values = {"description": description, "is_public": is_public, "specs": specs or {}}
    committed = lost_commits.find_committed(session, models.GroupType, name, **values)
    if committed is not None:
        return committed
    kind = models.GroupType(
        id=str(uuid.uuid4()), name=name, description=description, is_public=is_public, specs=dict(specs or {})
    )
    session.add(kind)
    _flush(session, name)
    return kind


def get(session: orm.Session, type_id: str, project_id: str | None = None) -> models.GroupType:
    """Return the group type with that id. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    return _find_one(session, models.GroupType.id == type_id, type_id, project_id)


def find(session: orm.Session, name_or_id: str, project_id: str | None = None) -> models.GroupType:
    """Return the group type with that id or, if there is none, that name.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    try:
        return get(session, name_or_id, project_id)
    except errors.NotFound:
        return _find_one(session, models.GroupType.name == name_or_id, name_or_id, project_id)


def page(
    session: orm.Session, is_public: bool | None, part: paging.Page, project_id: str | None = None
) -> list[models.GroupType]:
    """Return a page of the group types that the project sees: public ones, private ones or (None) both.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the project sees no group type with the marker's id.
    """
    if part.marker is not None:
        get(session, part.marker, project_id)
    statement = sa.select(models.GroupType).where(_visible_to(project_id))
    if is_public is not None:
        statement = statement.where(models.GroupType.is_public.is_(is_public))
    return list(session.scalars(paging.apply(statement, models.GroupType, SORT_KEYS, part)))


def update(session: orm.Session, type_id: str, changes: Changes) -> models.GroupType:
    """Change a group type. Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`NameTaken`."""
    kind = _lock(session, type_id)
    if changes.name is not None:
        kind.name = changes.name
    if changes.description is not None:
        kind.description = changes.description
    if changes.is_public is not None:
        kind.is_public = changes.is_public
    _flush(session, kind.name)
    return kind


def delete(session: orm.Session, type_id: str) -> None:
    """Delete a group type that no group has.

    Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
    """
    group_backends.purge(session)
    kind = _lock(session, type_id)
    in_use = errors.Conflict(f"Group type {kind.name!r} is still in use by a group.")
    if session.scalar(sa.select(sa.exists().where(models.Group.group_type_id == type_id))):
        raise in_use
    session.delete(kind)
    try:
        session.flush()
    except db_exc.DBReferenceError:
        raise in_use from None


def set_specs(session: orm.Session, type_id: str, specs: Mapping[str, str]) -> None:
    """Set some specs of a group type and keep the others. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    kind = _lock(session, type_id)
    kind.specs = {**kind.specs, **specs}


def unset_spec(session: orm.Session, type_id: str, key: str) -> None:
    """Remove a spec. Raises :class:`~tonnage.capacity.errors.NotFound` if the group type or the spec is missing."""
    kind = _lock(session, type_id)
    if key not in kind.specs:
        raise errors.NotFound(no_spec(type_id, key))
    kind.specs = {each: value for each, value in kind.specs.items() if each != key}


def no_spec(type_id: str, key: str) -> str:
    """Return the error message for a spec that a group type does not have."""
    return f"Group Type {type_id} has no specs with key {key}."


def _lock(session: orm.Session, type_id: str) -> models.GroupType:
    """Return a group type and lock its row until the transaction ends."""
    kind = session.scalar(sa.select(models.GroupType).where(models.GroupType.id == type_id).with_for_update())
    if kind is None:
        raise errors.NotFound(f"Group type {type_id} could not be found.")
    return kind


def _find_one(
    session: orm.Session, condition: sa.ColumnElement[bool], name_or_id: str, project_id: str | None
) -> models.GroupType:
    kind = session.scalar(sa.select(models.GroupType).where(condition, _visible_to(project_id)))
    if kind is None:
        raise errors.NotFound(f"Group type {name_or_id} could not be found.")
    return kind


def _visible_to(project_id: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if project_id is None else models.GroupType.is_public.is_(True)


def _flush(session: orm.Session, name: str) -> None:
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise NameTaken(f"Group Type {name} already exists.") from None
