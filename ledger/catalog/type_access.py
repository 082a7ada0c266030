# SPDX-License-Identifier: Apache-2.0
"""The projects that may use a private volume type."""

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database


class AccessExists(errors.Conflict):
    """The project has access already."""


def projects(session: orm.Session, type_id: str) -> list[str]:
    """Return the ids of the projects with access to a private type.

    Raises :class:`~tonnage.capacity.errors.NotFound`, also for a public type, to which all projects have access.
    """
    if volume_types.get(session, type_id).is_public:
        raise errors.NotFound("Access list not available for public volume types.")
    access = models.TypeAccess
    statement = sa.select(access.project_id).where(access.volume_type_id == type_id).order_by(access.project_id)
    return list(session.scalars(statement))


def add(session: orm.Session, type_id: str, project_id: str) -> None:
    """Give a project access to a private type.

    Raises :class:`AccessExists`, :class:`~tonnage.capacity.errors.NotFound`, and, for a public type,
    :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    _require_private(session, type_id)
    if database.may_be_committed(session) and project_id in projects(session, type_id):
        return
    session.add(models.TypeAccess(volume_type_id=type_id, project_id=project_id))
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise AccessExists(f"Volume type access for {type_id} / {project_id} combination already exists.") from None


def remove(session: orm.Session, type_id: str, project_id: str) -> None:
    """Remove a project's access to a private type; its volumes of the type stay.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for a public
    type.
    """
    _require_private(session, type_id)
    access = models.TypeAccess
    removed = session.execute(
        sa.delete(access).where(access.volume_type_id == type_id, access.project_id == project_id)
    )
    if not removed.rowcount:  # type: ignore[attr-defined]
        raise errors.NotFound(f"Volume type access not found for {type_id} / {project_id} combination.")


def _require_private(session: orm.Session, type_id: str) -> None:
    # The lock keeps the type from being made public or deleted meanwhile.
    if volume_types.lock(session, type_id).is_public:
        raise errors.InvalidInput(
            f"Volume type {type_id} is public, so all projects have access to it: make it private first."
        )
