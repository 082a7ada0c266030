# SPDX-License-Identifier: Apache-2.0
"""Messages to users about operations that failed after they had been accepted."""

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import dialects, paging

#: Days for which messages are kept; the default of the Block Storage service.
KEPT_DAYS = 30


SORT_KEYS: paging.SortKeys = {
    "id": lambda message: message.id,
    "created_at": lambda message: message.created_at,
    "event_id": lambda message: message.event,
    "message_level": lambda message: message.level,
    "request_id": lambda message: message.request_id,
    "resource_type": lambda message: message.resource_type,
    "resource_uuid": lambda message: message.resource_id,
}

_COLUMNS: Mapping[str, Any] = {
    "event_id": models.Message.event,
    "message_level": models.Message.level,
    "request_id": models.Message.request_id,
    "resource_type": models.Message.resource_type,
    "resource_uuid": models.Message.resource_id,
}

#: Keys that filter a list of messages.
FILTERS = frozenset(_COLUMNS)


def get(session: orm.Session, message_id: str, project_id: str | None) -> models.Message:
    """Return a message of a project, or of any if it is None. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    statement = _of_project(project_id).where(models.Message.id == message_id)
    message: models.Message | None = session.scalar(statement)
    if message is None:
        raise errors.NotFound(f"Message {message_id} could not be found.")
    return message


def page(
    session: orm.Session, project_id: str | None, filters: Mapping[str, str], part: paging.Page
) -> list[models.Message]:
    """Return a page of messages with these values; keys are from :data:`FILTERS`.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the marker is no visible message.
    """
    if part.marker is not None:
        get(session, part.marker, project_id)
    statement = _of_project(project_id).where(*(_COLUMNS[key] == value for key, value in filters.items()))
    return list(session.scalars(paging.apply(statement, models.Message, SORT_KEYS, part)))


def delete(session: orm.Session, message_id: str, project_id: str | None) -> None:
    """Remove a message. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    session.delete(get(session, message_id, project_id))


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete the messages of more than :data:`KEPT_DAYS` days, at most ``limit`` of them; return their number."""
    row = models.Message
    before = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(days=KEPT_DAYS)
    old = session.scalars(sa.select(row.id).where(row.created_at < before).limit(limit)).all()
    for chunk in dialects.in_chunks(old):
        session.execute(sa.delete(row).where(row.id.in_(chunk)).execution_options(synchronize_session=False))
    return len(old)


def _of_project(project_id: str | None) -> sa.Select[Any]:
    statement: sa.Select[Any] = sa.select(models.Message)
    return statement if project_id is None else statement.where(models.Message.project_id == project_id)
