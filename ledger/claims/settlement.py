# SPDX-License-Identifier: Apache-2.0
"""Settlement of claims whose operations have ended: their effect on the counters.

Containment: a claim that ended at tick *t* of epoch *e* is contained in a pool's figures when the report that brought
them covers a later tick of that epoch, or belongs to a later epoch. Until then it stays in flight, however it ended:
only a failure that the driver verified as clean drops it at once.

An example: the four ends of a claim of 20 GiB in an empty pool, with the pool's allocated and in-flight capacity after
the outcome, and after the next report, which contains the claim::

    end of the create                                claim       allocated, in flight    after a report
    it succeeds                                      confirmed          20         20          20     0
    it fails, and the driver has removed the rest    deleted             0          0           0     0
    it fails, and a rest may be on the storage       released            0         20           0     0
    it fails, and the whole copy is there            confirmed          20         20          20     0

In the second and the third case the volume is placed again. In the third the 20 GiB stay in flight, because no figures
show yet whether the storage uses them; the report that does deletes the claim. In the fourth the volume is in error, in
its pool, until somebody deletes it.
"""

import math
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters, scheduling_rules, volume_usage
from tonnage.ledger.models import claim_verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOperation:
    """The end of an operation. ``size_gb`` is the volume's size now; ``clean``: the failed operation left no copy.

    ``unknown``: its outcome is not known yet, so the operation has not ended.
    """

    claim_id: str
    ok: bool
    epoch: int
    tick: int
    size_gb: float = 0.0
    clean: bool = False
    message: str = ""
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The effects of a settlement.

    ``counters`` are those of the pools afterwards, ``ended`` the claims that this settlement ended, ``unplaced`` the
    volumes to place again, and ``ordered`` the new claims whose commands have to be sent. ``past`` are the claims whose
    outcome came from a past epoch of the agent.
    """

    counters: Mapping[int, pool_counters.Counters]
    ended: tuple[str, ...]
    unplaced: tuple[str, ...]
    ordered: tuple[str, ...]
    past: tuple[str, ...] = ()


_IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_CLAIM = models.table(models.Claim).c
_PENDING = sa.select(_CLAIM.id, _CLAIM.volume_id, _CLAIM.verb, _CLAIM.pool_id).where(
    _CLAIM.id.in_(_IDS), _CLAIM.state == pool_counters.PENDING
)
_LOCK_VOLUMES = sa.select(models.Volume).where(models.Volume.id.in_(_IDS)).order_by(models.Volume.id).with_for_update()
_LOCK_CLAIMS = sa.select(models.Claim).where(models.Claim.id.in_(_IDS)).order_by(models.Claim.id).with_for_update()


def begin(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> "Settlement | None":
    """Lock the rows that the settlement of these claims may touch, in the one order of locks, and read them.

    Returns None if no claim is pending. A report repeats outcomes that were mostly sent to another scheduler before:
    nothing is locked for those. A claim that is not pending never becomes pending again.

    Raises :class:`~tonnage.capacity.errors.LedgerMoved` if a copy of the ledger is used instead: an agent forgets an
    outcome that was accepted, and its claim may be in that copy only.
    """
    pending = session.connection().execute(_PENDING, {"ids": claim_ids}).all()
    if not pending:
        scheduling_rules.read_generation(session)
        return None
    ids, pools = {row.id for row in pending}, {row.pool_id for row in pending}
    # Verbs that end all claims of their volume in any pool, or leave a copy behind that has to be purged.
    removing = {
        row.volume_id for row in pending if row.verb not in (claim_verbs.CREATE, claim_verbs.EXTEND, claim_verbs.MANAGE)
    }
    if removing:
        pools |= set(session.scalars(sa.select(models.Claim.pool_id).where(models.Claim.volume_id.in_(removing))))
    if managed := {row.volume_id for row in pending if row.verb == claim_verbs.MANAGE}:
        volume_usage.mark_owners_for_recount(session, managed)
    return lock(session, pools, {row.volume_id for row in pending}, ids, max_attempts)


def lock(
    session: orm.Session,
    pool_ids: Collection[int],
    volume_ids: Collection[str],
    claim_ids: Collection[str],
    max_attempts: int,
) -> "Settlement":
    """Lock pools, volumes and claims, in the one order of locks, and return the settlement of these claims."""
    locked = pool_counters.lock(session, pool_ids)
    # The rows are read under the pools' locks: another scheduler may have received the same outcome.
    volumes = session.scalars(_LOCK_VOLUMES, {"ids": volume_ids}).all()
    claims = session.scalars(_LOCK_CLAIMS, {"ids": claim_ids}).all()
    stamps = (
        {row[0]: int(row[1]) for row in session.execute(sa.select(models.Storage.name, models.Storage.stamp))}
        if locked.shared
        else {}
    )
    return Settlement(
        session=session,
        locked=locked,
        stamps=stamps,
        max_attempts=max_attempts,
        claims={row.id: row for row in claims},
        volumes={row.id: row for row in volumes},
    )


def empty_result(session: orm.Session) -> Result:
    """Return a result without changes, for claims that have all ended.

    After a lost commit it includes the counters of all pools: the caller never received them, and the claims that name
    the pools may be deleted.
    """
    pools = session.scalars(sa.select(models.Pool.id)).all() if database.may_be_committed(session) else ()
    return Result(pool_counters.read(session, pools), (), (), ())


@dataclass(slots=True, kw_only=True)
class Settlement:
    """The claims that are settled in one transaction, the rows locked for them, and the results so far."""

    session: orm.Session
    locked: pool_counters.LockedPools
    stamps: Mapping[str, int]
    max_attempts: int
    claims: Mapping[str, models.Claim]
    volumes: Mapping[str, models.Volume]
    added: dict[int, pool_counters.AllocationChange] = field(default_factory=dict)
    #: Pools whose in-flight sum may have changed.
    changed_pools: set[int] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)

    def purge(self, claim: models.Claim, pool_id: int) -> None:
        """Order the purge of the copy of a claim's volume in a pool."""
        order = purge(claim, pool_id, self.locked.backends[pool_id])
        self.session.add(order)
        self.ordered.append(order.id)

    def add_allocated(self, pool_id: int, size: int, *, deleted: int = 0, moved: int = 0) -> None:
        """Add GiB to the allocated capacity of a pool; see :class:`~pool_counters.AllocationChange`."""
        change = pool_counters.AllocationChange(size, deleted, moved)
        self.added[pool_id] = self.added.get(pool_id, pool_counters.AllocationChange()).plus(change)

    def confirm(self, claim: models.Claim, ending: EndedOperation) -> None:
        """Mark a claim as confirmed: its capacity is in use."""
        claim.state = pool_counters.CONFIRMED
        self.record_end(claim, ending)
        claim.contained = self._is_contained(claim, ending)
        if claim.contained:
            self.changed_pools.add(claim.pool_id)

    def release(self, claim: models.Claim, ending: EndedOperation, *, deleted: bool = False) -> None:
        """Release a claim: it no longer counts as allocated, and stays in flight until it is contained.

        ``deleted`` is whether its volume was deleted, else the copy is in another pool or there never was one.
        """
        if claim.state in pool_counters.LIVE:
            size = claim.size_gb
            is_move = not deleted and (claim.verb == claim_verbs.MIGRATE or claim.state == pool_counters.CONFIRMED)
            self.add_allocated(claim.pool_id, -size, deleted=size if deleted else 0, moved=-size if is_move else 0)
        claim.state = pool_counters.RELEASED
        verified_clean = ending.clean and not ending.ok
        # Otherwise the figures may still show the copy, or may never have shown it: a later report decides.
        claim.contained = claim.contained or self._is_contained(claim, ending)
        # If its pool has left the storage, no other pool has to see the claim.
        is_contained_by_all = claim.contained and (
            claim.contained_by_all or self.locked.storages[claim.pool_id] is None
        )
        if verified_clean or is_contained_by_all:
            self.session.delete(claim)
        else:
            self.record_end(claim, ending)
        self.changed_pools.add(claim.pool_id)

    def record_end(self, claim: models.Claim, ending: EndedOperation) -> None:
        """Record the epoch, the tick and the storage's stamp at which a claim ended."""
        claim.end_epoch, claim.end_tick = ending.epoch, ending.tick
        storage_id = self.locked.storages[claim.pool_id]
        if storage_id is not None:
            claim.end_stamp = self.stamps.get(storage_id, 0) + 1

    def _is_contained(self, claim: models.Claim, ending: EndedOperation) -> bool:
        return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]

    def remove_external(self, claim: models.Claim) -> float | None:
        """Take a managed copy out of the pool's external capacity; return its listed size, None if not listed."""
        discrepancies = self.session.scalars(
            sa.select(models.Discrepancy).where(
                models.Discrepancy.pool_id == claim.pool_id,
                models.Discrepancy.volume_id.in_([claim.reference, claim.volume_id]),
                models.Discrepancy.category.in_(listings.EXTERNAL),
            )
        ).all()
        if not discrepancies:
            return None
        size = math.fsum(row.listed_gb for row in discrepancies)
        pool = self.session.get_one(models.Pool, claim.pool_id)
        pool.external_gb = max(0.0, pool.external_gb - size)
        for row in discrepancies:
            self.session.delete(row)
        return size

    def release_copy(self, claim: models.Claim, ending: EndedOperation) -> None:
        """Release all claims of a volume in a pool, after its copy there is gone.

        Earlier operations on this volume have ended too: the agent works on each volume in order.
        """
        other_claims = self.session.scalars(
            sa.select(models.Claim).where(
                models.Claim.volume_id == claim.volume_id,
                models.Claim.pool_id == claim.pool_id,
                models.Claim.id != claim.id,
                models.Claim.state.in_(pool_counters.LIVE),
            )
        )
        for other_claim in other_claims:
            self.release(other_claim, ending, deleted=claim.verb == claim_verbs.DELETE)

    def finish(self) -> Result:
        """Write the counters and return the result."""
        self.session.flush()
        if self.added:
            pool_counters.add_to_pools(self.session, self.locked, self.added)
        if self.changed_pools:
            pool_counters.recount_in_flight(self.session, self.changed_pools)
        pool_counters.recount_shared(self.session, self.locked.shared)
        return Result(
            pool_counters.read(self.session, self.locked.backends.keys()),
            tuple(self.ended),
            tuple(self.unplaced),
            tuple(self.ordered),
            tuple(self.past),
        )


def purge(claim: models.Claim, pool_id: int, backend_id: int) -> models.Claim:
    """Return a claim that orders the purge of a volume's copy in a pool."""
    return models.Claim(
        id=str(uuid.uuid4()),
        volume_id=claim.volume_id,
        backend_id=backend_id,
        pool_id=pool_id,
        verb=claim_verbs.PURGE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=claim.target_size_gb,
        provisioning=claim.provisioning,
        request_id=claim.request_id,
    )
