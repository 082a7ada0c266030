# SPDX-License-Identifier: Apache-2.0
"""Allocations for OpenStack Placement: the desired state from the claims, and the state that was sent. Sizes are GiB.

Changes of volumes need no hook here: differences are found by comparison. A volume is one consumer, with its claims in
its own pool. A copy elsewhere (at the target of a migration, or an old copy that is to be purged) is a consumer of its
own, with another type, so that usage by type counts each volume once. All consumers of a pool together have its
allocated capacity.
"""

import datetime
import enum
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.placement import tables
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import pool_counters

#: Number of claims that one call compares.
_PAGE_SIZE = 2000

#: Namespace of the consumer ids of copies.
_COPY_NAMESPACE = uuid.UUID("0c6d0c3a-6f5c-5a3e-9d0b-5b0a4b1f7e21")


class ConsumerType(enum.StrEnum):
    """Types of consumers: a volume in its own pool, or a copy of one elsewhere (Nova uses the same type name)."""

    VOLUME = "VOLUME"
    MIGRATION = "MIGRATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationChange:
    """A change to send for one consumer; a size of 0 removes it. ``before_gb`` is the size that was sent for that pool.

    ``generation`` is the consumer's generation in Placement, None if Placement does not have it. ``doubted`` is True if
    it is unknown whether an earlier round has sent its change.
    """

    consumer_id: str
    consumer_type: ConsumerType
    volume_id: str
    pool_id: int
    project_id: str
    user_id: str
    size_gb: int
    before_gb: int
    generation: int | None
    doubted: bool


@dataclass(frozen=True, slots=True)
class SentUsage:
    """The size of a project's volumes that was sent, by user; ``doubt`` is True while a round is sending some of it."""

    gigabytes: Mapping[str, int]
    doubt: bool

    def of(self, user_id: str) -> int:
        """Return the size that was sent for one user, or (empty) for all users."""
        return self.gigabytes.get(user_id, 0) if user_id else sum(self.gigabytes.values())


@dataclass(frozen=True, slots=True)
class Compared:
    """The ids of volumes whose claims differ from the sent state.

    ``upto`` is the last volume id that was compared; None if all volumes were compared.
    """

    volume_ids: list[str]
    upto: str | None


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool, its last figures as the driver reported them, its allocated capacity and the sum of its sent sizes."""

    id: int
    name: str
    ratio: float
    stats: Mapping[str, Any]
    allocated_gb: int
    sent_gb: int


def compare(session: orm.Session, after: str = "", rows: int = _PAGE_SIZE) -> Compared:
    """Compare claims with the sent allocations, for a number of claims (``rows``) of volumes with ids after ``after``.

    The comparison is made here, as the database would read all claims for each answer: each statement here walks along
    one index.
    """
    claim, volume, allocation = models.Claim, models.Volume, tables.Allocation
    claim_rows = session.execute(
        sa.select(claim.volume_id, claim.pool_id, claim.state, claim.size_gb)
        .where(claim.volume_id > after)
        .order_by(claim.volume_id)
        .limit(rows)
    ).all()
    upto: str | None = None
    if len(claim_rows) == rows:
        # The last volume may have further claims.
        claim_rows = [row for row in claim_rows if row.volume_id != claim_rows[-1].volume_id]
        if not claim_rows:
            return compare(session, after, 2 * rows)
        upto = claim_rows[-1].volume_id

    def in_range(column: orm.InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
        return column > after if upto is None else sa.and_(column > after, column <= upto)

    home_pools = {
        row.id: row.pool_id for row in session.execute(sa.select(volume.id, volume.pool_id).where(in_range(volume.id)))
    }
    claimed_sizes: dict[str, dict[tuple[int, str], int]] = {}
    for row in claim_rows:
        if row.state in pool_counters.LIVE and row.size_gb:
            consumer_key = (row.pool_id, _consumer_type(home_pools.get(row.volume_id), row.pool_id).value)
            of_volume = claimed_sizes.setdefault(row.volume_id, {})
            of_volume[consumer_key] = of_volume.get(consumer_key, 0) + row.size_gb
    sent_sizes: dict[str, dict[tuple[int, str], int]] = {}
    differing: set[str] = set()
    columns = sa.select(
        allocation.volume_id, allocation.pool_id, allocation.consumer_type, allocation.size_gb, allocation.doubt
    )
    for sent_row in session.execute(columns.where(in_range(allocation.volume_id))):
        sent_sizes.setdefault(sent_row.volume_id, {})[sent_row.pool_id, sent_row.consumer_type] = sent_row.size_gb
        if sent_row.doubt is not None:
            differing.add(sent_row.volume_id)
    differing.update(
        id for id in claimed_sizes.keys() | sent_sizes.keys() if claimed_sizes.get(id) != sent_sizes.get(id)
    )
    return Compared(sorted(differing), upto)


def plan(session: orm.Session, volume_ids: Collection[str], doubt: str) -> list[AllocationChange]:
    """Return the changes to send for the volumes, in the order of consumers, and mark them as being sent.

    ``doubt`` is the name of the round.
    """
    allocation, volume = tables.Allocation, models.Volume
    rows = session.scalars(
        sa.select(allocation)
        .where(allocation.volume_id.in_(volume_ids))
        .order_by(allocation.consumer_id)
        .with_for_update()
    ).all()
    rows_by_consumer = {row.consumer_id: row for row in rows}
    volumes = {row.id: row for row in session.scalars(sa.select(volume).where(volume.id.in_(volume_ids)))}
    # The copies of a deleted volume still belong to its project.
    owners = {row.volume_id: (row.project_id, row.user_id) for row in rows}
    owners.update({row.id: (row.project_id, row.user_id) for row in volumes.values()})
    desired_states: dict[str, tuple[ConsumerType, str, int, int]] = {
        row.consumer_id: (ConsumerType(row.consumer_type), row.volume_id, row.pool_id, 0) for row in rows
    }
    claim = models.Claim
    claimed = (
        sa.select(claim.volume_id, claim.pool_id, sa.func.sum(claim.size_gb))
        .where(claim.state.in_(pool_counters.LIVE), claim.volume_id.in_(volume_ids))
        .group_by(claim.volume_id, claim.pool_id)
    )
    for volume_id, pool_id, size in session.execute(claimed):
        if size > 0:
            consumer_type = _consumer_type(volumes[volume_id].pool_id if volume_id in volumes else None, pool_id)
            copy = str(uuid.uuid5(_COPY_NAMESPACE, f"{volume_id}/{pool_id}"))
            desired_states[volume_id if consumer_type is ConsumerType.VOLUME else copy] = (
                consumer_type,
                volume_id,
                pool_id,
                int(size),
            )
    changes: list[AllocationChange] = []
    for consumer, (consumer_type, volume_id, pool_id, size) in sorted(desired_states.items()):
        row = rows_by_consumer.get(consumer)
        is_current = row is not None and (row.consumer_type, row.pool_id, row.size_gb) == (
            consumer_type.value,
            pool_id,
            size,
        )
        if row is not None and is_current and row.doubt is None:
            if not size:  # Placement has never accepted it
                session.delete(row)
            continue
        project_id, user_id = owners.get(volume_id, ("", ""))
        changes.append(
            AllocationChange(
                consumer_id=consumer,
                consumer_type=consumer_type,
                volume_id=volume_id,
                pool_id=pool_id,
                project_id=project_id,
                user_id=user_id,
                size_gb=size,
                before_gb=0 if row is None or row.pool_id != pool_id else row.size_gb,
                generation=None if row is None else row.generation,
                doubted=row is not None and row.doubt is not None,
            )
        )
        if row is None:
            row = tables.Allocation(
                consumer_id=consumer,
                consumer_type=consumer_type.value,
                volume_id=volume_id,
                pool_id=pool_id,
                project_id=project_id,
                user_id=user_id,
                size_gb=0,
            )
            session.add(row)
        row.doubt = doubt
    return changes


def current_changes(session: orm.Session, changes: Sequence[AllocationChange], doubt: str) -> list[AllocationChange]:
    """Return the changes that belong to this round: a newer round that has marked a consumer sends a newer state."""
    row = tables.Allocation
    consumer_ids: set[str] = set()
    for chunk in dialects.in_chunks(change.consumer_id for change in changes):
        of_round = sa.select(row.consumer_id).where(row.consumer_id.in_(chunk), row.doubt == doubt)
        consumer_ids.update(session.scalars(of_round))
    return [change for change in changes if change.consumer_id in consumer_ids]


def record_sent(session: orm.Session, changes: Iterable[AllocationChange], doubt: str) -> None:
    """Record that Placement has accepted the changes, except for consumers that a newer round has marked."""
    row = tables.Allocation
    for change in changes:
        of_round = (row.consumer_id == change.consumer_id, row.doubt == doubt)
        statement: sa.Update | sa.Delete = sa.delete(row).where(*of_round)
        if change.size_gb:
            statement = (
                sa.update(row)
                .where(*of_round)
                .values(
                    consumer_type=change.consumer_type.value,
                    pool_id=change.pool_id,
                    size_gb=change.size_gb,
                    generation=change.generation,
                    doubt=None,
                )
            )
        session.execute(statement.execution_options(synchronize_session=False))


def record_refused(session: orm.Session, changes: Iterable[AllocationChange], doubt: str) -> None:
    """Record that Placement has refused the changes: where the earlier state was known, Placement still has it."""
    row = tables.Allocation
    ids = [change.consumer_id for change in changes if not change.doubted]
    for chunk in dialects.in_chunks(ids):
        session.execute(
            sa.update(row)
            .where(row.consumer_id.in_(chunk), row.doubt == doubt)
            .values(doubt=None)
            .execution_options(synchronize_session=False)
        )


def sent_usage(session: orm.Session, project_id: str) -> SentUsage:
    """Return the sizes that were sent for a project's volumes; copies elsewhere do not count."""
    row = tables.Allocation
    doubtful = sa.func.sum(sa.case((row.doubt.is_not(None), 1), else_=0))
    rows = session.execute(
        sa.select(row.user_id, sa.func.sum(row.size_gb), doubtful)
        .where(row.project_id == project_id, row.consumer_type == ConsumerType.VOLUME.value)
        .group_by(row.user_id)
    ).all()
    return SentUsage({user_id: int(size) for user_id, size, _ in rows}, any(int(number) for *_, number in rows))


def pools(session: orm.Session, ids: Collection[int] | None = None) -> list[PoolFigures]:
    """Return all pools, or the pools with these ids, even if they were not in their backend's last report."""
    pool, row = models.Pool, tables.Allocation
    id_chunks: list[list[int] | None] = [None] if ids is None else list(dialects.in_chunks(ids))
    figures: list[PoolFigures] = []
    for chunk in id_chunks:
        sent_sums = sa.select(row.pool_id, sa.func.sum(row.size_gb).label("size_gb")).group_by(row.pool_id)
        of_pools = sent_sums.subquery() if chunk is None else sent_sums.where(row.pool_id.in_(chunk)).subquery()
        statement = sa.select(
            pool.id,
            pool.name,
            pool.ratio,
            pool.stats,
            pool.allocated_capacity_gb,
            sa.func.coalesce(of_pools.c.size_gb, 0),
        ).outerjoin(of_pools, of_pools.c.pool_id == pool.id)
        rows = session.execute(statement if chunk is None else statement.where(pool.id.in_(chunk)))
        figures += [
            PoolFigures(columns[0], columns[1], columns[2], columns[3], int(columns[4]), int(columns[5]))
            for columns in rows
        ]
    return figures


def load(session: orm.Session, pool_id: int, project_id: str | None = None) -> dict[str, int]:
    """Return the sizes by consumer that were sent for a pool, of all projects or of one.

    Consumers that are being sent are left out.
    """
    row = tables.Allocation
    statement = sa.select(row.consumer_id, row.size_gb).where(row.pool_id == pool_id, row.doubt.is_(None))
    if project_id is not None:
        statement = statement.where(row.project_id == project_id)
    return {row[0]: row[1] for row in session.execute(statement)}


def sent_consumers(session: orm.Session, consumer_ids: Collection[str]) -> set[str]:
    """Return the consumers for which an allocation was sent, or is being sent, in any pool."""
    row = tables.Allocation
    consumers: set[str] = set()
    for chunk in dialects.in_chunks(consumer_ids):
        consumers.update(session.scalars(sa.select(row.consumer_id).where(row.consumer_id.in_(chunk))))
    return consumers


def mark_for_resend(session: orm.Session, consumer_ids: Sequence[str]) -> None:
    """Mark consumers so that their allocations are sent again."""
    row = tables.Allocation
    for chunk in dialects.in_chunks(sorted(consumer_ids)):
        _mark_doubted(session, row.consumer_id.in_(chunk))


def mark_project_for_resend(session: orm.Session, project_id: str) -> None:
    """Mark all consumers of a project so that their allocations are sent again."""
    _mark_doubted(session, tables.Allocation.project_id == project_id)


def any_unsent(session: orm.Session, before: datetime.datetime) -> bool:
    """Return whether a volume made before that time has no sent allocation at all."""
    claim, allocation, volume = models.Claim, tables.Allocation, models.Volume
    statement = sa.exists().where(
        volume.created_at < before,
        claim.volume_id == volume.id,
        claim.pool_id == volume.pool_id,
        claim.state.in_(pool_counters.LIVE),
        claim.size_gb > 0,
        ~sa.exists().where(allocation.volume_id == volume.id),
    )
    return bool(session.scalar(sa.select(statement)))


def now(session: orm.Session) -> datetime.datetime:
    """Return the database's current time."""
    return session.execute(sa.select(sa.type_coerce(models.utcnow(), sa.DateTime()))).scalar_one()


def _consumer_type(home: int | None, pool_id: int) -> ConsumerType:
    """Return the consumer type of a volume's claims in a pool; ``home`` is the volume's own pool."""
    return ConsumerType.VOLUME if home == pool_id else ConsumerType.MIGRATION


def _mark_doubted(session: orm.Session, condition: sa.ColumnElement[bool]) -> None:
    session.execute(
        sa.update(tables.Allocation)
        .where(condition)
        .values(doubt=str(uuid.uuid4()))
        .execution_options(synchronize_session=False)
    )
