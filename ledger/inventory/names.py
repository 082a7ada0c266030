# SPDX-License-Identifier: Apache-2.0
"""Names of backends, pools and volume types that the ledger knows, for commands that select by name."""

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools import name_suggestions
from tonnage.ledger import models

#: The advice about a name that is similar to no other.
_ALL_BACKENDS = "'tonnage-manage backend list' lists the backends"
_ALL_POOLS = "'tonnage pools' lists the pools"


def missing_backend(session: orm.Session, name: str) -> errors.NotFound:
    """Return the error about a backend that no agent has introduced, with the backend that was probably meant."""
    pool_backend = sa.select(models.Backend.name).join(models.Pool, models.Pool.backend_id == models.Backend.id)
    if (backend := session.scalar(pool_backend.where(models.Pool.name == name))) is not None:
        return errors.NotFound(f"backend {name} could not be found: that is a pool, and its backend is {backend}")
    advice = name_suggestions.advice(name, session.scalars(sa.select(models.Backend.name)).all(), _ALL_BACKENDS)
    return errors.NotFound(f"backend {name} could not be found: no agent has introduced it; {advice}")


def missing_pool(session: orm.Session, name: str) -> errors.NotFound:
    """Return the error about a pool that no report has named, with the pool that was probably meant."""
    advice = name_suggestions.advice(name, session.scalars(sa.select(models.Pool.name)).all(), _ALL_POOLS)
    return errors.NotFound(f"pool {name} could not be found: no report has named it; {advice}")


def require_backend(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if no backend has this name, ``host@backend``."""
    if not _has(session, models.Backend.name == name):
        raise missing_backend(session, name)


def require_pool_or_backend(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if neither a pool nor a backend has this full name."""
    if not _has(session, models.Pool.name == name) and not _has(session, models.Backend.name == name):
        known = session.scalars(sa.union_all(sa.select(models.Pool.name), sa.select(models.Backend.name))).all()
        advice = name_suggestions.advice(name, known, _ALL_POOLS)
        raise errors.NotFound(
            f"{name} could not be found: there is no pool and no backend with this full name; {advice}"
        )


def require_type(session: orm.Session, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if no volume type has this name."""
    if not _has(session, models.VolumeType.name == name):
        raise errors.NotFound(f"volume type {name} could not be found")


def _has(session: orm.Session, condition: sa.ColumnElement[bool]) -> bool:
    return bool(session.scalar(sa.select(sa.exists().where(condition))))
