# SPDX-License-Identifier: Apache-2.0
"""What projects have, by the rows of their volumes and of what is under way with them. Sizes are GiB.

A volume counts from the decision until its row is gone, in whatever state it is: wherever it is made or moved to, it
counts once. One that grows counts with its new size from the decision on, one that gets another type by being moved
counts for both types meanwhile. One that is taken over counts with the size that was listed until the real one is
known.
"""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.claims import bookings, pool_counters
from tonnage.ledger.db import chunks


@dataclass(frozen=True, slots=True)
class Share:
    """What one user of a project has of one volume type (empty: without a type).

    ``reserved`` is what is being made. What is not ``new`` counts for the type alone: it is counted without it as well.
    """

    user_id: str
    volume_type_id: str
    new: bool
    reserved: bool
    volumes: int
    gigabytes: int


#: Written out, not sent: PostgreSQL takes two parameters for two values, so what is grouped by could not be selected.
_NONE: sa.ColumnElement[str] = sa.literal_column("''", sa.String)
_CREATING: sa.ColumnElement[str] = sa.literal_column("'creating'", sa.String)
_ZERO: sa.ColumnElement[int] = sa.literal_column("0", sa.Integer)
_ONE: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer)


def count(session: orm.Session, project_id: str, *, placed_only: bool = False) -> list[Share]:
    """Return what a project has. It is one statement, so that all of it is of one moment.

    With ``placed_only`` volumes in no pool, which could not be made or whose backend has been removed, have no size.
    """
    volume, claim = models.Volume, models.Claim
    kind = sa.func.coalesce(volume.volume_type_id, _NONE)
    made = sa.case((volume.status == _CREATING, _ONE), else_=_ZERO)
    size: sa.ColumnElement[int] = volume.size_gb.expression
    if placed_only:
        nowhere = sa.and_(volume.pool_id.is_(None), volume.status != _CREATING)
        size = sa.case((nowhere, _ZERO), else_=volume.size_gb)
    there = (
        sa.select(
            volume.user_id,
            kind.label("kind"),
            _ONE.label("new"),
            made.label("reserved"),
            sa.func.count().label("volumes"),
            sa.func.sum(size).label("gigabytes"),
        )
        .where(volume.project_id == project_id)
        .group_by(volume.user_id, kind, made)
    )
    under_way = (
        sa.select(volume.user_id)
        .select_from(claim)
        .join(volume, volume.id == claim.volume_id)
        .where(claim.state == pool_counters.PENDING, volume.project_id == project_id)
    )
    # The row of a volume that is taken over has no size until its agent has told it.
    more = sa.case((claim.verb == bookings.MANAGE, claim.target_size_gb), else_=claim.size_gb)
    growing = (
        under_way.add_columns(kind, _ONE, _ONE, _ZERO, sa.func.sum(more))
        .where(claim.verb.in_((bookings.EXTEND, bookings.MANAGE)))
        .group_by(volume.user_id, kind)
    )
    retyping = (
        under_way.add_columns(claim.volume_type_id, _ZERO, _ONE, sa.func.count(), sa.func.sum(volume.size_gb))
        .where(claim.verb == bookings.MIGRATE, claim.volume_type_id != kind)
        .group_by(volume.user_id, claim.volume_type_id)
    )
    return [
        Share(row[0], row[1], bool(row[2]), bool(row[3]), int(row[4]), int(row[5]))
        for row in session.execute(sa.union_all(there, growing, retyping))
    ]


def in_order(session: orm.Session) -> list[sa.ColumnElement[str]]:
    """Return the key of counters as they are to be sorted by: all are locked and written in one order, Python's.

    PostgreSQL would sort as people of some country do. The other databases sort these columns by their characters.
    """
    usage = models.QuotaUsage
    key: list[sa.ColumnElement[str]] = [
        column.expression for column in (usage.project_id, usage.user_id, usage.volume_type_id)
    ]
    if session.get_bind().dialect.name == "postgresql":
        return [sa.collate(column, "C") for column in key]
    return key


def distrust(session: orm.Session, project_ids: Collection[str]) -> None:
    """Have the counters of projects counted anew before they are believed again.

    They are locked, so this comes before anything else that a transaction locks.
    """
    usage = models.QuotaUsage
    for some in chunks.cut(sorted(set(project_ids))):
        locked = (
            sa.select(usage.project_id).where(usage.project_id.in_(some)).order_by(*in_order(session)).with_for_update()
        )
        if session.execute(locked).all():
            session.execute(
                sa.update(usage)
                .where(usage.project_id.in_(some))
                .values(counted_at=None)
                .execution_options(synchronize_session=False)
            )


def distrust_all(session: orm.Session) -> None:
    """The same for all projects: from now on other things may have a limit."""
    distrust(session, session.scalars(sa.select(models.QuotaUsage.project_id).distinct()).all())


def distrust_owners(session: orm.Session, volume_ids: Collection[str]) -> None:
    """The same for the projects of volumes, which are about to become larger than anybody knows."""
    volume = models.Volume
    owners: set[str] = set()
    for some in chunks.cut(volume_ids):
        owners.update(session.scalars(sa.select(volume.project_id).where(volume.id.in_(some)).distinct()))
    distrust(session, owners)
