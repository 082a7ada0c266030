# SPDX-License-Identifier: Apache-2.0
"""What OpenStack Placement is to hold for volumes, by their claims, and what it has been told. Sizes are GiB.

Nobody who changes a volume has to think of it: what is to be told is found by comparing. A volume is one consumer, with
what is claimed for it in the pool that it is in. A copy elsewhere (at the target of a migration, or left behind and to
be deleted) is a consumer of its own, of another type, so that usage by type counts each volume once. All of them
together are what is allocated in a pool.
"""

import datetime
import enum
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.claims import pool_counters
from tonnage.ledger.db import chunks

#: How many claims are compared at a time.
_PAGE = 2000

#: What the names of consumers that are no volumes are made from.
_NAMESPACE = uuid.UUID("0c6d0c3a-6f5c-5a3e-9d0b-5b0a4b1f7e21")


class Kind(enum.StrEnum):
    """Types of consumers: a volume where it is, or a copy of one elsewhere (Nova calls that so as well)."""

    VOLUME = "VOLUME"
    MIGRATION = "MIGRATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is to be told of one consumer; with no size, that it is no more. ``before_gb`` was told of it in that pool.

    ``generation`` is what Placement has it at, None if it does not have it. ``doubted``: it is not known whether an
    earlier round has told of it.
    """

    consumer_id: str
    kind: Kind
    volume_id: str
    pool_id: int
    project_id: str
    user_id: str
    size_gb: int
    before_gb: int
    generation: int | None
    doubted: bool


@dataclass(frozen=True, slots=True)
class Told:
    """How much of a project's volumes has been told, by user; ``doubt``: some of it is being told just now."""

    gigabytes: Mapping[str, int]
    doubt: bool

    def of(self, user_id: str) -> int:
        """Return how much of one user, or (empty) of all, has been told."""
        return self.gigabytes.get(user_id, 0) if user_id else sum(self.gigabytes.values())


@dataclass(frozen=True, slots=True)
class Compared:
    """Volumes of which something else is claimed than was told, and up to which one all are known; None: all are."""

    volume_ids: list[str]
    upto: str | None


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool, its last figures as the driver reported them, and how much is allocated and has been told there."""

    id: int
    name: str
    ratio: float
    stats: Mapping[str, Any]
    allocated_gb: int
    told_gb: int


def compare(session: orm.Session, after: str = "", rows: int = _PAGE) -> Compared:
    """Hold what is claimed for volumes against what was told, of so many claims of volumes after that id.

    They are compared here and not by the database, which would read all of them for each answer. So each statement is
    one walk along an index.
    """
    claim, volume, told = models.Claim, models.Volume, models.Allocation
    found = session.execute(
        sa.select(claim.volume_id, claim.pool_id, claim.state, claim.size_gb)
        .where(claim.volume_id > after)
        .order_by(claim.volume_id)
        .limit(rows)
    ).all()
    upto: str | None = None
    if len(found) == rows:
        # Of the last volume there may be more.
        found = [row for row in found if row.volume_id != found[-1].volume_id]
        if not found:
            return compare(session, after, 2 * rows)
        upto = found[-1].volume_id

    def up_to_there(column: orm.InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
        return column > after if upto is None else sa.and_(column > after, column <= upto)

    homes = {
        row.id: row.pool_id
        for row in session.execute(sa.select(volume.id, volume.pool_id).where(up_to_there(volume.id)))
    }
    wanted: dict[str, dict[tuple[int, str], int]] = {}
    for row in found:
        if row.state in pool_counters.LIVE and row.size_gb:
            place = (row.pool_id, _kind(homes.get(row.volume_id), row.pool_id).value)
            of_volume = wanted.setdefault(row.volume_id, {})
            of_volume[place] = of_volume.get(place, 0) + row.size_gb
    known: dict[str, dict[tuple[int, str], int]] = {}
    differing: set[str] = set()
    columns = sa.select(told.volume_id, told.pool_id, told.kind, told.size_gb, told.doubt)
    for each in session.execute(columns.where(up_to_there(told.volume_id))):
        known.setdefault(each.volume_id, {})[each.pool_id, each.kind] = each.size_gb
        if each.doubt is not None:
            differing.add(each.volume_id)
    differing.update(id for id in wanted.keys() | known.keys() if wanted.get(id) != known.get(id))
    return Compared(sorted(differing), upto)


def plan(session: orm.Session, volume_ids: Collection[str], doubt: str) -> list[Telling]:
    """Return what is to be told of volumes, in the order of the consumers, and note that it is about to be.

    ``doubt`` is the name of the round.
    """
    told, volume = models.Allocation, models.Volume
    rows = session.scalars(
        sa.select(told).where(told.volume_id.in_(volume_ids)).order_by(told.consumer_id).with_for_update()
    ).all()
    known = {row.consumer_id: row for row in rows}
    volumes = {row.id: row for row in session.scalars(sa.select(volume).where(volume.id.in_(volume_ids)))}
    # Of a volume that is gone, its copies are still those of its project.
    owners = {row.volume_id: (row.project_id, row.user_id) for row in rows}
    owners.update({row.id: (row.project_id, row.user_id) for row in volumes.values()})
    wanted: dict[str, tuple[Kind, str, int, int]] = {
        row.consumer_id: (Kind(row.kind), row.volume_id, row.pool_id, 0) for row in rows
    }
    claim = models.Claim
    there = (
        sa.select(claim.volume_id, claim.pool_id, sa.func.sum(claim.size_gb))
        .where(claim.state.in_(pool_counters.LIVE), claim.volume_id.in_(volume_ids))
        .group_by(claim.volume_id, claim.pool_id)
    )
    for volume_id, pool_id, size in session.execute(there):
        if size > 0:
            kind = _kind(volumes[volume_id].pool_id if volume_id in volumes else None, pool_id)
            copy = str(uuid.uuid5(_NAMESPACE, f"{volume_id}/{pool_id}"))
            wanted[volume_id if kind is Kind.VOLUME else copy] = (kind, volume_id, pool_id, int(size))
    found: list[Telling] = []
    for consumer, (kind, volume_id, pool_id, size) in sorted(wanted.items()):
        row = known.get(consumer)
        as_told = row is not None and (row.kind, row.pool_id, row.size_gb) == (kind.value, pool_id, size)
        if row is not None and as_told and row.doubt is None:
            if not size:  # Placement has never taken it
                session.delete(row)
            continue
        project_id, user_id = owners.get(volume_id, ("", ""))
        found.append(
            Telling(
                consumer_id=consumer,
                kind=kind,
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
            row = models.Allocation(
                consumer_id=consumer,
                kind=kind.value,
                volume_id=volume_id,
                pool_id=pool_id,
                project_id=project_id,
                user_id=user_id,
                size_gb=0,
            )
            session.add(row)
        row.doubt = doubt
    return found


def still_to_tell(session: orm.Session, tellings: Sequence[Telling], doubt: str) -> list[Telling]:
    """Return those that no other round tells, or has told, by now: that knows better."""
    row = models.Allocation
    found: set[str] = set()
    for some in chunks.cut(telling.consumer_id for telling in tellings):
        mine = sa.select(row.consumer_id).where(row.consumer_id.in_(some), row.doubt == doubt)
        found.update(session.scalars(mine))
    return [telling for telling in tellings if telling.consumer_id in found]


def note(session: orm.Session, tellings: Iterable[Telling], doubt: str) -> None:
    """Note that Placement has been told, unless another round is telling it otherwise by now."""
    row = models.Allocation
    for telling in tellings:
        mine = (row.consumer_id == telling.consumer_id, row.doubt == doubt)
        statement: sa.Update | sa.Delete = sa.delete(row).where(*mine)
        if telling.size_gb:
            statement = (
                sa.update(row)
                .where(*mine)
                .values(
                    kind=telling.kind.value,
                    pool_id=telling.pool_id,
                    size_gb=telling.size_gb,
                    generation=telling.generation,
                    doubt=None,
                )
            )
        session.execute(statement.execution_options(synchronize_session=False))


def refused(session: orm.Session, tellings: Iterable[Telling], doubt: str) -> None:
    """Note that Placement has not taken what it was told, so that it still has what it had, if that was known."""
    row = models.Allocation
    ids = [telling.consumer_id for telling in tellings if not telling.doubted]
    for some in chunks.cut(ids):
        session.execute(
            sa.update(row)
            .where(row.consumer_id.in_(some), row.doubt == doubt)
            .values(doubt=None)
            .execution_options(synchronize_session=False)
        )


def told_of(session: orm.Session, project_id: str) -> Told:
    """Return what has been told of a project's volumes; copies elsewhere do not count."""
    row = models.Allocation
    doubtful = sa.func.sum(sa.case((row.doubt.is_not(None), 1), else_=0))
    found = session.execute(
        sa.select(row.user_id, sa.func.sum(row.size_gb), doubtful)
        .where(row.project_id == project_id, row.kind == Kind.VOLUME.value)
        .group_by(row.user_id)
    ).all()
    return Told({user_id: int(size) for user_id, size, _ in found}, any(int(number) for *_, number in found))


def pools(session: orm.Session, ids: Collection[int] | None = None) -> list[PoolFigures]:
    """Return pools, of all or of these ids, whether or not they were in their backend's last report."""
    pool, row = models.Pool, models.Allocation
    everywhere: list[list[int] | None] = [None] if ids is None else list(chunks.cut(ids))
    found: list[PoolFigures] = []
    for some in everywhere:
        told = sa.select(row.pool_id, sa.func.sum(row.size_gb).label("size_gb")).group_by(row.pool_id)
        here = told.subquery() if some is None else told.where(row.pool_id.in_(some)).subquery()
        statement = sa.select(
            pool.id, pool.name, pool.ratio, pool.stats, pool.allocated_capacity_gb, sa.func.coalesce(here.c.size_gb, 0)
        ).outerjoin(here, here.c.pool_id == pool.id)
        rows = session.execute(statement if some is None else statement.where(pool.id.in_(some)))
        found += [PoolFigures(each[0], each[1], each[2], each[3], int(each[4]), int(each[5])) for each in rows]
    return found


def load(session: orm.Session, pool_id: int, project_id: str | None = None) -> dict[str, int]:
    """Return the sizes of the consumers that were told to be in a pool, of all projects or of one.

    Those that are being told are not among them.
    """
    row = models.Allocation
    statement = sa.select(row.consumer_id, row.size_gb).where(row.pool_id == pool_id, row.doubt.is_(None))
    if project_id is not None:
        statement = statement.where(row.project_id == project_id)
    return {row[0]: row[1] for row in session.execute(statement)}


def known(session: orm.Session, consumer_ids: Collection[str]) -> set[str]:
    """Return those of the consumers of which something has been told, or is being told, wherever that is."""
    row = models.Allocation
    found: set[str] = set()
    for some in chunks.cut(consumer_ids):
        found.update(session.scalars(sa.select(row.consumer_id).where(row.consumer_id.in_(some))))
    return found


def distrust(session: orm.Session, consumer_ids: Sequence[str]) -> None:
    """Have it told anew what consumers hold."""
    row = models.Allocation
    for some in chunks.cut(sorted(consumer_ids)):
        _doubt(session, row.consumer_id.in_(some))


def distrust_project(session: orm.Session, project_id: str) -> None:
    """The same for all volumes of a project."""
    _doubt(session, models.Allocation.project_id == project_id)


def any_untold(session: orm.Session, before: datetime.datetime) -> bool:
    """Tell whether there are volumes, made before that, of which nothing has ever been told."""
    claim, told, volume = models.Claim, models.Allocation, models.Volume
    statement = sa.exists().where(
        volume.created_at < before,
        claim.volume_id == volume.id,
        claim.pool_id == volume.pool_id,
        claim.state.in_(pool_counters.LIVE),
        claim.size_gb > 0,
        ~sa.exists().where(told.volume_id == volume.id),
    )
    return bool(session.scalar(sa.select(statement)))


def now(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock."""
    return session.execute(sa.select(sa.type_coerce(models.utcnow(), sa.DateTime()))).scalar_one()


def _kind(home: int | None, pool_id: int) -> Kind:
    """Return what a volume's claims in a pool are, if its home is that pool."""
    return Kind.VOLUME if home == pool_id else Kind.MIGRATION


def _doubt(session: orm.Session, condition: sa.ColumnElement[bool]) -> None:
    session.execute(
        sa.update(models.Allocation)
        .where(condition)
        .values(doubt=str(uuid.uuid4()))
        .execution_options(synchronize_session=False)
    )
