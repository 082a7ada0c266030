# SPDX-License-Identifier: Apache-2.0
"""Where groups are, and volumes joining them when they are placed.

A group is where its volumes are. Who books a volume for one locks the group's row and looks again, so that two who each
thought theirs the first do not part it. In the one order of locks, groups come after pools and before volumes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.names import backend_of
from tonnage.ledger import models
from tonnage.ledger.db import chunks

AVAILABLE = "available"
DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """A group as a decision sees it. ``backend`` is that of its volumes, None while it has none in a pool."""

    id: str
    project_id: str
    status: str
    availability_zone: str | None
    specs: Mapping[str, str]
    volume_types: Collection[models.VolumeType]
    backend: str | None


def load(session: orm.Session, group_ids: Collection[str]) -> dict[str, GroupPlace]:
    """Return groups by id, those that are there."""
    if not group_ids:
        return {}
    group, volume, kind = models.Group, models.Volume, models.VolumeType
    found: dict[str, GroupPlace] = {}
    for some in chunks.cut(sorted(set(group_ids))):
        pools = (
            sa.select(volume.group_id, models.Pool.name)
            .join(models.Pool, models.Pool.id == volume.pool_id)
            .where(volume.group_id.in_(some))
            .distinct()
        )
        backends = {group_id: backend_of(name) for group_id, name in session.execute(pools)}
        rows = session.scalars(
            sa.select(group)
            .where(group.id.in_(some))
            .options(orm.joinedload(group.group_type), orm.selectinload(group.volume_types).joinedload(kind.qos))
        )
        for row in rows:
            found[row.id] = GroupPlace(
                id=row.id,
                project_id=row.project_id,
                status=row.status,
                availability_zone=row.availability_zone,
                specs=row.group_type.specs,
                volume_types=tuple(row.volume_types),
                backend=backends.get(row.id),
            )
    return found


def join(session: orm.Session, joining: Collection[tuple[str, int]]) -> None:
    """Hold groups that volumes are booked for, each given with the id of the backend that the volume goes to.

    Raises :class:`~tonnage.capacity.errors.Conflict` if one is not to be joined any more, or is elsewhere by now.
    """
    if not joining:
        return
    group, volume = models.Group, models.Volume
    ids = sorted({group_id for group_id, _ in joining})
    held = sa.select(group.id, group.status).where(group.id.in_(ids)).order_by(group.id).with_for_update()
    statuses = {row.id: row.status for row in session.execute(held)}
    at = (
        sa.select(volume.group_id, models.Pool.backend_id)
        .join(models.Pool, models.Pool.id == volume.pool_id)
        .where(volume.group_id.in_(ids))
        .distinct()
    )
    there = {(group_id, backend_id) for group_id, backend_id in session.execute(at)}
    for group_id in ids:
        backends = {backend_id for at_group, backend_id in {*joining, *there} if at_group == group_id}
        if statuses.get(group_id) != AVAILABLE or len(backends) > 1:
            raise errors.Conflict(f"group {group_id} was changed by another request; try again")


def there() -> sa.ColumnElement[bool]:
    """Return the condition under which a group is still there."""
    group = models.Group
    return sa.or_(group.status != DELETING, sa.exists().where(models.Volume.group_id == group.id))


def purge(session: orm.Session) -> None:
    """Remove the rows of groups that are gone with their last volumes."""
    group, kinds = models.Group, models.GroupVolumeType
    gone = session.scalars(sa.select(group.id).where(sa.not_(there())).order_by(group.id).with_for_update()).all()
    for some in chunks.cut(gone):
        session.execute(sa.delete(kinds).where(kinds.group_id.in_(some)))
        session.execute(sa.delete(group).where(group.id.in_(some)).execution_options(synchronize_session=False))
