# SPDX-License-Identifier: Apache-2.0
"""Names of backends, pools and volume types that the ledger knows, for commands that select by name."""

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models


def require_backend(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if no backend has this name, ``host@backend``."""
    if not _has(session, models.Backend.name == name):
        raise errors.NotFound(f"backend {name} could not be found: no agent has introduced it")


def require_pool_or_backend(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if neither a pool nor a backend has this full name."""
    if not _has(session, models.Pool.name == name) and not _has(session, models.Backend.name == name):
        raise errors.NotFound(f"{name} could not be found: there is no pool and no backend with this full name")


def require_type(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if no volume type has this name."""
    if not _has(session, models.VolumeType.name == name):
        raise errors.NotFound(f"volume type {name} could not be found")


def _has(session: orm.Session, condition: sa.ColumnElement[bool]) -> bool:
    return bool(session.scalar(sa.select(sa.exists().where(condition))))
