# SPDX-License-Identifier: Apache-2.0
"""Usage of projects, from the rows of their volumes and pending claims. Sizes are GiB.

A volume counts from the decision until its row is deleted, in any status, and counts once even if it is placed again or
moved. A volume that grows counts with its new size from the decision on. A volume that is retyped by a migration counts
for both types meanwhile. A managed volume counts with its listed size until the real size is known.
"""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs


@dataclass(frozen=True, slots=True)
class Share:
    """The usage of one user of a project for one volume type (empty: without a type).

    ``reserved`` marks volumes that are being created. A share that is not ``new`` counts for the type only: the volume
    is counted without regard to its type in another share.
    """

    user_id: str
    volume_type_id: str
    new: bool
    reserved: bool
    volumes: int
    gigabytes: int


#: Literals in the statement: with bound parameters PostgreSQL would see different expressions in SELECT and GROUP BY,
#: and refuse the statement.
_NONE: sa.ColumnElement[str] = sa.literal_column("''", sa.String)
_CREATING: sa.ColumnElement[str] = sa.literal_column("'creating'", sa.String)
_ZERO: sa.ColumnElement[int] = sa.literal_column("0", sa.Integer)
_ONE: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer)


def count(session: orm.Session, project_id: str, *, placed_only: bool = False) -> list[Share]:
    """Return the usage of a project. It is one statement, so that all parts are from the same moment.

    With ``placed_only``, volumes in no pool count with size 0: they could not be made, or their backend was removed.
    """
    volume, claim = models.Volume, models.Claim
    type_id = sa.func.coalesce(volume.volume_type_id, _NONE)
    creating = sa.case((volume.status == _CREATING, _ONE), else_=_ZERO)
    size: sa.ColumnElement[int] = volume.size_gb.expression
    if placed_only:
        without_pool = sa.and_(volume.pool_id.is_(None), volume.status != _CREATING)
        size = sa.case((without_pool, _ZERO), else_=volume.size_gb)
    existing = (
        sa.select(
            volume.user_id,
            type_id.label("kind"),
            _ONE.label("new"),
            creating.label("reserved"),
            sa.func.count().label("volumes"),
            sa.func.sum(size).label("gigabytes"),
        )
        .where(volume.project_id == project_id)
        .group_by(volume.user_id, type_id, creating)
    )
    pending = (
        sa.select(volume.user_id)
        .select_from(claim)
        .join(volume, volume.id == claim.volume_id)
        .where(claim.state == pool_counters.PENDING, volume.project_id == project_id)
    )
    # The row of a managed volume has no size until its agent has reported it. A volume that moves to grow is claimed
    # in full in its new pool.
    claimed_size = sa.case(
        (claim.verb == claim_verbs.MANAGE, claim.target_size_gb),
        (claim.verb == claim_verbs.MIGRATE, claim.target_size_gb - volume.size_gb),
        else_=claim.size_gb,
    )
    growing = (
        pending.add_columns(type_id, _ONE, _ONE, _ZERO, sa.func.sum(claimed_size))
        .where(
            sa.or_(
                claim.verb.in_((claim_verbs.EXTEND, claim_verbs.MANAGE)),
                sa.and_(claim.verb == claim_verbs.MIGRATE, claim.target_size_gb > volume.size_gb),
            )
        )
        .group_by(volume.user_id, type_id)
    )
    retyping = (
        pending.add_columns(claim.volume_type_id, _ZERO, _ONE, sa.func.count(), sa.func.sum(volume.size_gb))
        .where(claim.verb == claim_verbs.MIGRATE, claim.volume_type_id != type_id)
        .group_by(volume.user_id, claim.volume_type_id)
    )
    return [
        Share(row[0], row[1], bool(row[2]), bool(row[3]), int(row[4]), int(row[5]))
        for row in session.execute(sa.union_all(existing, growing, retyping))
    ]


def gigabytes_by_project(session: orm.Session, most: int) -> dict[str, int]:
    """Return the sum of the sizes of each project's volumes, for at most that many projects, by their ids."""
    volume = models.Volume
    sums = (
        sa.select(volume.project_id, sa.func.sum(volume.size_gb))
        .group_by(volume.project_id)
        .order_by(volume.project_id)
        .limit(most)
    )
    return {project: int(size) for project, size in session.execute(sums)}


def counter_order(session: orm.Session) -> list[sa.ColumnElement[str]]:
    """Return the sort key of usage counters: all transactions lock and write them in one order, that of Python.

    PostgreSQL would sort by the rules of a locale. The other databases sort these columns by their characters.
    """
    usage = models.QuotaUsage
    key: list[sa.ColumnElement[str]] = [
        column.expression for column in (usage.project_id, usage.user_id, usage.volume_type_id)
    ]
    if session.get_bind().dialect.name == "postgresql":
        return [sa.collate(column, "C") for column in key]
    return key


def mark_for_recount(session: orm.Session, project_ids: Collection[str]) -> None:
    """Mark the counters of projects, so that they are recounted before their next use.

    They are locked, so this must come before all other locks of the transaction.
    """
    usage = models.QuotaUsage
    for chunk in dialects.in_chunks(sorted(set(project_ids))):
        locked = (
            sa.select(usage.project_id)
            .where(usage.project_id.in_(chunk))
            .order_by(*counter_order(session))
            .with_for_update()
        )
        if session.execute(locked).all():
            session.execute(
                sa.update(usage)
                .where(usage.project_id.in_(chunk))
                .values(counted_at=None)
                .execution_options(synchronize_session=False)
            )


def mark_all_for_recount(session: orm.Session) -> None:
    """Mark the counters of all projects for a recount: after a change of limits they may miss usage."""
    mark_for_recount(session, session.scalars(sa.select(models.QuotaUsage.project_id).distinct()).all())


def mark_owners_for_recount(session: orm.Session, volume_ids: Collection[str]) -> None:
    """Mark the counters of the volumes' projects for a recount: the volumes may grow by an unknown size."""
    volume = models.Volume
    owners: set[str] = set()
    for chunk in dialects.in_chunks(volume_ids):
        owners.update(session.scalars(sa.select(volume.project_id).where(volume.id.in_(chunk)).distinct()))
    mark_for_recount(session, owners)
