# SPDX-License-Identifier: Apache-2.0
"""Volumes and claims that contradict each other."""

import itertools
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs

#: Verbs whose claims count capacity for a volume.
_COUNTING = (claim_verbs.CREATE, claim_verbs.EXTEND, claim_verbs.MIGRATE, claim_verbs.MANAGE)
#: Verbs that end all claims of a volume in a pool.
_ENDING = (claim_verbs.DELETE, claim_verbs.PURGE)
#: States of a volume that is being migrated or retyped.
_MOVING = ("maintenance", "retyping")


@dataclass(frozen=True, slots=True, kw_only=True)
class OddVolume:
    """A volume that its claims contradict. ``claimed_gb`` is the sum of its claims.

    ``counted`` is True if a live claim in its pool counts it, ``settled`` if no operation on it is pending there.
    ``unexplained`` names the operation that its status requires and that no claim records.
    """

    id: str
    pool_id: int | None
    status: str
    size_gb: int
    claimed_gb: int
    counted: bool
    settled: bool
    unexplained: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A claim on a pool that does not hold the claimed volume, and that no pending delete or purge will end."""

    claim_id: str
    volume_id: str
    pool_id: int
    verb: str
    state: str
    size_gb: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedVolume:
    """A volume that the listings show in other pools, and not in its own.

    ``target_id`` is the pool that has it, if it is only one, its size there is right, no operation on it is pending,
    and it leaves no group: the volumes of a group are on one backend.
    """

    id: str
    pool_id: int
    listed_in: Sequence[int]
    size_gb: int
    listed_gb: float
    target_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownVolume:
    """A volume that the last listing shows in its pool, larger than its claims, and on which no operation is pending.

    ``listed_gb`` is the size on the storage, rounded up.
    """

    id: str
    pool_id: int
    claimed_gb: int
    listed_gb: int


def grown(session: orm.Session, volume_id: str | None = None) -> Iterator[GrownVolume]:
    """Yield the volumes that have grown on the storage; all of them, or the one with this id.

    A size that no volume can have is left out.
    """
    volume, claim, table = models.Volume, models.Claim, models.Discrepancy
    of_volume = (
        sa.select(claim.volume_id, claim.pool_id, sa.func.sum(claim.size_gb).label("claimed"))
        .where(claim.verb.in_(_COUNTING), claim.state.in_(pool_counters.LIVE))
        .group_by(claim.volume_id, claim.pool_id)
        .subquery()
    )
    unsettled = (pool_counters.PENDING, pool_counters.ABANDONED)
    pending = sa.exists().where(claim.volume_id == volume.id, claim.state.in_(unsettled))
    statement = (
        sa.select(volume.id, table.pool_id, of_volume.c.claimed, table.ledger_gb, table.listed_gb)
        .join(table, sa.and_(table.pool_id == volume.pool_id, table.volume_id == volume.id))
        .join(of_volume, sa.and_(of_volume.c.pool_id == volume.pool_id, of_volume.c.volume_id == volume.id))
        .where(table.category == listings.SIZE, ~pending)
        .order_by(volume.id)
    )
    if volume_id is not None:
        statement = statement.where(volume.id == volume_id)
    for row in session.execute(statement):
        listed_gb = listings.whole_size(row.listed_gb)
        if int(row.claimed) == row.ledger_gb < listed_gb <= MAX_SIZE_GB:
            yield GrownVolume(id=row.id, pool_id=row.pool_id, claimed_gb=int(row.claimed), listed_gb=listed_gb)


def misplaced(session: orm.Session, volume_id: str | None = None) -> Iterator[MisplacedVolume]:
    """Yield the volumes that are lost in their pools and orphans in others; all of them, or the one with this id."""
    volume, claim = models.Volume, models.Claim
    missing, copy = orm.aliased(models.Discrepancy), orm.aliased(models.Discrepancy)
    pending = sa.exists().where(claim.volume_id == volume.id, claim.state == pool_counters.PENDING)
    own, other = orm.aliased(models.Pool), orm.aliased(models.Pool)
    leaves_group = sa.and_(volume.group_id.is_not(None), own.backend_id != other.backend_id)
    fixed = sa.or_(pending, leaves_group)
    statement = (
        sa.select(volume.id, missing.pool_id, volume.size_gb, copy.pool_id, copy.listed_gb, fixed)
        .join(missing, sa.and_(missing.pool_id == volume.pool_id, missing.volume_id == volume.id))
        .join(copy, sa.and_(copy.volume_id == volume.id, copy.pool_id != volume.pool_id))
        .join(own, own.id == missing.pool_id)
        .join(other, other.id == copy.pool_id)
        .where(missing.category == listings.LOST, copy.category == listings.ORPHAN)
        .order_by(volume.id, copy.pool_id)
    )
    if volume_id is not None:
        statement = statement.where(volume.id == volume_id)
    for _, group in itertools.groupby(session.execute(statement), key=operator.itemgetter(0)):
        rows = list(group)
        misplaced_id, pool_id, size, target, listed_gb, is_fixed = rows[0]
        adoptable = len(rows) == 1 and not is_fixed and listings.whole_size(listed_gb) == size
        yield MisplacedVolume(
            id=misplaced_id,
            pool_id=pool_id,
            listed_in=[row[3] for row in rows],
            size_gb=size,
            listed_gb=listed_gb,
            target_id=target if adoptable else None,
        )


def odd_volumes(session: orm.Session, volume_ids: Collection[str] | None = None) -> Iterator[OddVolume]:
    """Yield volumes whose size or status contradicts their claims; all volumes, or those with these ids."""
    volume, claim = models.Volume, models.Claim
    pending = claim.state == pool_counters.PENDING

    def total(value: Any, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
        return sa.func.sum(sa.case((sa.and_(*conditions), value), else_=0))

    of_volume = sa.select(
        claim.volume_id,
        claim.pool_id,
        # A volume's row has a new size once the agent has confirmed it; a new volume has its size from the start.
        total(
            claim.size_gb,
            sa.or_(claim.state == pool_counters.CONFIRMED, sa.and_(pending, claim.verb == claim_verbs.CREATE)),
        ).label("claimed"),
        total(1, claim.state.in_(pool_counters.LIVE), claim.verb.in_(_COUNTING)).label("live"),
        total(1, pending).label("pending"),
        total(1, pending, claim.verb.in_((claim_verbs.CREATE, claim_verbs.MANAGE))).label("making"),
        total(1, pending, claim.verb == claim_verbs.MANAGE).label("managing"),
        total(1, pending, claim.verb == claim_verbs.EXTEND).label("growing"),
        total(1, pending, claim.verb == claim_verbs.DELETE).label("leaving"),
        total(1, pending, claim.verb == claim_verbs.PURGE).label("purging"),
    ).group_by(claim.volume_id, claim.pool_id)
    if volume_ids is not None:
        of_volume = of_volume.where(claim.volume_id.in_(volume_ids))
    sums = of_volume.subquery()

    def count(name: str) -> sa.ColumnElement[Any]:
        return sa.func.coalesce(sums.c[name], 0)

    moving = sa.exists().where(claim.volume_id == volume.id, pending, claim.verb == claim_verbs.MIGRATE)
    in_pool = volume.pool_id.is_not(None)
    unexplained = sa.case(
        (sa.and_(volume.status == "available", volume.pool_id.is_(None)), "is in no pool"),
        (sa.and_(volume.status == "creating", in_pool, count("making") == 0), "nothing is making it"),
        (sa.and_(volume.status == "extending", count("growing") == 0, ~moving), "nothing is extending it"),
        (sa.and_(volume.status == "deleting", count("leaving") == 0), "nothing is deleting it"),
        (sa.and_(volume.status.in_(_MOVING), ~moving), "nothing is moving it"),
        else_="",
    )
    wrong_size = sa.and_(
        in_pool,
        count("live") > 0,
        count("managing") == 0,  # its size is not known yet
        count("purging") == 0,
        volume.size_gb != count("claimed"),
    )
    unclaimed = sa.and_(in_pool, count("live") == 0)
    statement = (
        sa.select(
            volume.id,
            volume.pool_id,
            volume.status,
            volume.size_gb,
            sa.case((wrong_size, count("claimed")), else_=volume.size_gb).label("claimed"),
            count("live").label("live"),
            count("pending").label("pending"),
            unexplained.label("unexplained"),
        )
        .outerjoin(sums, sa.and_(sums.c.volume_id == volume.id, sums.c.pool_id == volume.pool_id))
        .where(sa.or_(wrong_size, unclaimed, unexplained != ""))
        .order_by(volume.id)
    )
    if volume_ids is not None:
        statement = statement.where(volume.id.in_(volume_ids))
    for row in session.execute(statement):
        yield OddVolume(
            id=row.id,
            pool_id=row.pool_id,
            status=row.status,
            size_gb=row.size_gb,
            claimed_gb=int(row.claimed),
            counted=bool(row.live),
            settled=not row.pending,
            unexplained=row.unexplained,
        )


def leaks(session: orm.Session, pool_ids: Collection[int] | None = None) -> Iterator[Leak]:
    """Yield the claims whose volume is deleted or in another pool; on all pools, or on these.

    The volumes of observed backends are in another system.
    """
    claim, volume = models.Claim, models.Volume
    observed = sa.select(models.Backend.id).where(models.Backend.observed.is_(True))
    other = orm.aliased(claim)
    ending = sa.exists().where(
        other.volume_id == claim.volume_id,
        other.pool_id == claim.pool_id,
        other.verb.in_(_ENDING),
        other.state == pool_counters.PENDING,
    )
    # A pending migration makes a copy in the target pool, which is not the volume's pool yet, and never is if the
    # volume's migration was called off.
    moving = sa.and_(claim.verb == claim_verbs.MIGRATE, claim.state == pool_counters.PENDING)
    statement = (
        sa.select(claim, volume.id, volume.pool_id)
        .outerjoin(volume, volume.id == claim.volume_id)
        .where(
            claim.state.in_(pool_counters.LIVE),
            claim.verb.in_(_COUNTING),
            sa.or_(volume.id.is_(None), volume.pool_id.is_(None), volume.pool_id != claim.pool_id),
            ~moving,
            ~ending,
            claim.backend_id.not_in(observed),
        )
        .order_by(claim.pool_id, claim.id)
    )
    if pool_ids is not None:
        statement = statement.where(claim.pool_id.in_(pool_ids))
    rows: Iterable[Any] = session.execute(statement)
    for row, volume_id, pool_id in rows:
        where = "is in no pool" if pool_id is None else "is in another pool"
        yield Leak(
            claim_id=row.id,
            volume_id=row.volume_id,
            pool_id=row.pool_id,
            verb=row.verb,
            state=row.state,
            size_gb=row.size_gb,
            why="does not exist" if volume_id is None else where,
        )


def live_sizes(session: orm.Session, locations: Collection[listings.Location]) -> dict[listings.Location, int]:
    """Return the sums of live claims by pool and volume; locations without a live claim are left out."""
    claim = models.Claim
    sizes: dict[listings.Location, int] = {}
    for names in _names(locations):
        rows = session.execute(
            sa.select(claim.pool_id, claim.volume_id, sa.func.sum(claim.size_gb))
            .where(claim.volume_id.in_(names), claim.state.in_(pool_counters.LIVE), claim.verb.in_(_COUNTING))
            .group_by(claim.pool_id, claim.volume_id)
        )
        sizes.update({(row[0], row[1]): int(row[2]) for row in rows})
    return {location: size for location, size in sizes.items() if location in locations}


def named(session: orm.Session, locations: Collection[listings.Location]) -> set[listings.Location]:
    """Return the locations that a claim names, by the volume's id or by the reference of a managed copy."""
    claim = models.Claim
    named_locations: set[listings.Location] = set()
    for names in _names(locations):
        rows = session.execute(sa.select(claim.pool_id, claim.volume_id).where(claim.volume_id.in_(names)))
        named_locations.update((row[0], row[1]) for row in rows)
    if locations:
        being_managed = session.execute(
            sa.select(claim.pool_id, claim.reference).where(
                claim.state == pool_counters.PENDING, claim.verb == claim_verbs.MANAGE, claim.reference.is_not(None)
            )
        )
        named_locations.update((row[0], str(row[1])) for row in being_managed)
    return named_locations & set(locations)


def _names(locations: Collection[listings.Location]) -> Iterator[list[str]]:
    # The names are passed as values and not joined: the columns may differ in collation, and then no index serves.
    return dialects.in_chunks(sorted({name for _, name in locations}))
