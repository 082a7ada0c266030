# SPDX-License-Identifier: Apache-2.0
"""The backend of each group, and the bookings that place volumes of groups.

The backend of a group is the backend of its volumes. A transaction that books a volume for a group locks the group's
row and reads its backend again, so that two transactions that each book the first volume cannot split the group. In the
one order of locks, groups come after pools and before volumes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger import models
from tonnage.ledger.db import dialects

AVAILABLE = "available"
DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group as a decision reads it. ``backend`` is the backend of its volumes, None while none is in a pool."""

    id: str
    project_id: str
    status: str
    availability_zone: str | None
    specs: Mapping[str, str]
    volume_types: Collection[models.VolumeType]
    backend: str | None


def load(session: orm.Session, group_ids: Collection[str]) -> dict[str, GroupState]:
    """Return the groups that exist, by id."""
    if not group_ids:
        return {}
    group, volume, volume_type = models.Group, models.Volume, models.VolumeType
    groups: dict[str, GroupState] = {}
    for chunk in dialects.in_chunks(sorted(set(group_ids))):
        pools = (
            sa.select(volume.group_id, models.Pool.name)
            .join(models.Pool, models.Pool.id == volume.pool_id)
            .where(volume.group_id.in_(chunk))
            .distinct()
        )
        backends = {group_id: backend_of(name) for group_id, name in session.execute(pools)}
        rows = session.scalars(
            sa.select(group)
            .where(group.id.in_(chunk))
            .options(orm.joinedload(group.group_type), orm.selectinload(group.volume_types).joinedload(volume_type.qos))
        )
        for row in rows:
            groups[row.id] = GroupState(
                id=row.id,
                project_id=row.project_id,
                status=row.status,
                availability_zone=row.availability_zone,
                specs=row.group_type.specs,
                volume_types=tuple(row.volume_types),
                backend=backends.get(row.id),
            )
    return groups


def lock_for_members(session: orm.Session, joining: Collection[tuple[str, int]]) -> None:
    """Lock the groups that volumes are booked for; ``joining`` holds pairs of a group id and the chosen backend's id.

    Raises :class:`~tonnage.capacity.errors.Conflict` if a group takes no more volumes, or is on another backend.
    """
    if not joining:
        return
    group, volume = models.Group, models.Volume
    ids = sorted({group_id for group_id, _ in joining})
    lock_groups = sa.select(group.id, group.status).where(group.id.in_(ids)).order_by(group.id).with_for_update()
    statuses = {row.id: row.status for row in session.execute(lock_groups)}
    placements = (
        sa.select(volume.group_id, models.Pool.backend_id)
        .join(models.Pool, models.Pool.id == volume.pool_id)
        .where(volume.group_id.in_(ids))
        .distinct()
    )
    placed = {(group_id, backend_id) for group_id, backend_id in session.execute(placements)}
    for group_id in ids:
        backends = {backend_id for of_group, backend_id in {*joining, *placed} if of_group == group_id}
        if statuses.get(group_id) != AVAILABLE or len(backends) > 1:
            raise errors.Conflict(f"group {group_id} was changed by another request; try again")


def exists_condition() -> sa.ColumnElement[bool]:
    """Return the SQL condition that a group exists: it is not being deleted, or still has volumes."""
    group = models.Group
    return sa.or_(group.status != DELETING, sa.exists().where(models.Volume.group_id == group.id))


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Remove the rows of deleted groups whose last volume is gone, at most ``limit`` of them; return their number."""
    group, allowed_types = models.Group, models.GroupVolumeType
    deleted = session.scalars(
        sa.select(group.id).where(sa.not_(exists_condition())).order_by(group.id).limit(limit).with_for_update()
    ).all()
    for chunk in dialects.in_chunks(deleted):
        session.execute(sa.delete(allowed_types).where(allowed_types.group_id.in_(chunk)))
        session.execute(sa.delete(group).where(group.id.in_(chunk)).execution_options(synchronize_session=False))
    return len(deleted)
