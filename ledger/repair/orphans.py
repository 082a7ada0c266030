# SPDX-License-Identifier: Apache-2.0
"""Orphans: copies that listings show and no claim names. They are deleted only on an operator's order."""

import collections
import datetime
import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.inventory import listings, names
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.ledger.models import claim_verbs
from tonnage.ledger.repair import claim_check

#: A few orphans on empty storage are remains of failures.
_FEWEST_UNKNOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A copy on the storage of a pool ``host@backend#pool``, and the time at which a listing first showed it."""

    pool: str
    name: str
    size_gb: float
    seen_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class UnknownPool:
    """The number of orphans in a pool whose names are those of volumes, and of volumes that the ledger has there."""

    orphans: int
    volumes: int


def load(session: orm.Session) -> list[Orphan]:
    """Return all orphans of the last listings, without those that a claim names by now."""
    table, pool = models.Discrepancy, models.Pool
    rows = session.execute(
        sa.select(table, pool.name)
        .join(pool, pool.id == table.pool_id)
        .where(table.category == listings.ORPHAN)
        .order_by(pool.name, table.volume_id)
    ).all()
    named = claim_check.named(session, {(row.pool_id, row.volume_id) for row, _ in rows})
    return [
        Orphan(pool=name, name=row.volume_id, size_gb=row.listed_gb, seen_at=row.seen_at)
        for row, name in rows
        if (row.pool_id, row.volume_id) not in named
    ]


def unknown_pools(session: orm.Session) -> dict[int, UnknownPool]:
    """Return the pools that have more orphans with the name of a volume than volumes, by id.

    There the ledger may be older than the storage, or belong to another storage.
    """
    claim, table = models.Claim, models.Discrepancy
    orphaned = collections.Counter(
        pool_id
        for pool_id, name in session.execute(
            sa.select(table.pool_id, table.volume_id).where(table.category == listings.ORPHAN)
        )
        if uuidutils.is_uuid_like(name)
    )
    statement = sa.select(claim.pool_id, sa.func.count(claim.volume_id.distinct())).group_by(claim.pool_id)
    volumes = dict(session.execute(statement).all()) if orphaned else {}
    return {
        pool_id: UnknownPool(orphans=count, volumes=volumes.get(pool_id, 0))
        for pool_id, count in orphaned.items()
        if count >= _FEWEST_UNKNOWN and count > volumes.get(pool_id, 0)
    }


def purge(session: orm.Session, pool_name: str, name: str, *, force: bool = False) -> str:
    """Order the purge of an orphan or of the copy of a leaked claim; return the claim that a scheduler has to send.

    With ``force``, also in one of the :func:`unknown_pools`.

    Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool or a name that is no orphan there, and
    :class:`~tonnage.capacity.errors.Conflict` if it has the id of a volume or an operation on it is pending. After an
    older state of the ledger was restored, the copy in another pool may be the only one of the volume.
    """
    pool, claim, table = models.Pool, models.Claim, models.Discrepancy
    pool_id = session.scalar(sa.select(pool.id).where(pool.name == pool_name))
    if pool_id is None:
        raise names.missing_pool(session, pool_name)
    locked = pool_locks.lock(session, [pool_id])
    # These reads are under the lock: a volume of that name may have been created or managed since.
    volume = session.get(models.Volume, name) if len(name) <= models.LONGEST_ID else None
    if volume is not None and volume.pool_id == pool_id:
        raise errors.Conflict(f"{name} is a volume in {pool_name}: delete the volume")
    if volume is not None:
        where = session.scalar(sa.select(pool.name).where(pool.id == volume.pool_id)) or "no pool"
        raise errors.Conflict(
            f"{name} is a volume, which the ledger has in {where}; this may be its only copy: see "
            "'tonnage-manage ledger check'. 'ledger repair' adopts it if it is missing there; delete it with the "
            "storage's own tools if it is not"
        )
    discrepancy = session.scalars(
        sa.select(table).where(table.pool_id == pool_id, table.volume_id == name)
    ).one_or_none()
    leaked = {leak.claim_id for leak in claim_check.leaks(session, [pool_id]) if leak.volume_id == name}
    if not leaked and (discrepancy is None or discrepancy.category != listings.ORPHAN):
        raise errors.NotFound(
            f"{name} is no orphan in {pool_name} by the last listing: see 'tonnage-manage orphan list'"
        )
    unknown = unknown_pools(session).get(pool_id)
    if unknown is not None and not force:
        raise errors.Conflict(
            f"{name} may be a volume: the ledger knows {unknown.volumes} volume(s) in {pool_name}, and does not know "
            f"{unknown.orphans} that are there, so it may be older than the storage, or not the right one; manage "
            "them, or use --force if they may go"
        )
    # The database compares the names, possibly without regard to case, on all pools of the storage: the agent deletes
    # by name, and the end of the purge releases all claims of that name.
    claimed = sa.select(claim.id).where(
        claim.pool_id.in_(locked.backends.keys()), claim.volume_id == name, claim.id.not_in(leaked)
    )
    being_managed = sa.select(claim.id).where(
        claim.pool_id == pool_id, claim.reference == name, claim.state == pool_counters.PENDING
    )
    if session.scalar(claimed) is not None or session.scalar(being_managed) is not None:
        raise errors.Conflict(f"{name} in {pool_name} is named by a claim: something is under way for it")
    if (
        session.scalar(sa.select(claim.id).where(claim.id.in_(leaked), claim.state == pool_counters.PENDING))
        is not None
    ):
        raise errors.Conflict(f"{name} in {pool_name} has an operation under way: wait until it has ended")
    if len(name) > models.LONGEST_ID:
        raise errors.InvalidInput(
            f"{name} has {len(name)} characters, and names of volumes have at most {models.LONGEST_ID}: delete it with "
            "the storage's own tools"
        )
    purge_claim = claim(
        id=str(uuid.uuid4()),
        volume_id=name,
        backend_id=locked.backends[pool_id],
        pool_id=pool_id,
        verb=claim_verbs.PURGE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=0,
        provisioning="",
        # A fresh id lets the agent tell the copy to purge from a later one.
        request_id=f"purge-{uuid.uuid4()}",
    )
    session.add(purge_claim)
    if discrepancy is not None:
        session.delete(discrepancy)
    return purge_claim.id
