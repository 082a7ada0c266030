# SPDX-License-Identifier: Apache-2.0
"""Settling claims whose operations have ended: what is counted of them from then on.

Containment: a claim that ended at tick *t* of epoch *e* is contained in a pool's figures when the report that brought
them covers a later tick of that epoch, or belongs to a later epoch. Until then it stays in flight, however it ended:
only a failure that the driver verified as clean drops it at once.
"""

import math
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.catalog import volume_usage
from tonnage.ledger.claims import bookings, pool_counters
from tonnage.ledger.db import database
from tonnage.ledger.inventory import listings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an operation ended. ``size_gb`` is what the volume has now; ``clean``: nothing of a failed one is left."""

    claim_id: str
    ok: bool
    epoch: int
    tick: int
    size_gb: float = 0.0
    clean: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a set of endings did: the pools' counters afterwards, the claims that ended with it (those that had not
    before), the volumes that have to be placed again, and the claims that came about and whose commands are to be sent.
    ``past`` are the claims of which it was told by an agent process that is none any more.
    """

    counters: Mapping[int, pool_counters.Counters]
    ended: tuple[str, ...]
    unplaced: tuple[str, ...]
    ordered: tuple[str, ...]
    past: tuple[str, ...] = ()


def begin(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> "Settlement | None":
    """Lock what the endings of these claims may touch, in the one order, and read it; None if all have ended.

    Most have been told to another scheduler by the time that a report brings them: nothing of those is locked. A claim
    that is not pending never is again.
    """
    claim, volume = models.Claim, models.Volume
    pending = session.execute(
        sa.select(claim.id, claim.volume_id, claim.verb, claim.pool_id).where(
            claim.id.in_(claim_ids), claim.state == pool_counters.PENDING
        )
    ).all()
    if not pending:
        return None
    ids, pools = {row.id for row in pending}, {row.pool_id for row in pending}
    # Those that end all claims of their volume, wherever they are, or leave a copy behind that has to go.
    far = {row.volume_id for row in pending if row.verb not in (bookings.CREATE, bookings.EXTEND, bookings.MANAGE)}
    if far:
        pools |= set(session.scalars(sa.select(claim.pool_id).where(claim.volume_id.in_(far))))
    if managed := {row.volume_id for row in pending if row.verb == bookings.MANAGE}:
        volume_usage.distrust_owners(session, managed)
    locked = pool_counters.lock(session, pools)
    # Read under the pools' locks: another scheduler may have heard of the same ending.
    volumes = session.scalars(
        sa.select(volume).where(volume.id.in_({row.volume_id for row in pending})).order_by(volume.id).with_for_update()
    ).all()
    claims = session.scalars(sa.select(claim).where(claim.id.in_(ids)).order_by(claim.id).with_for_update()).all()
    shared = locked.shared()
    stamps = (
        {row[0]: int(row[1]) for row in session.execute(sa.select(models.Storage.name, models.Storage.stamp))}
        if shared
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


def nothing(session: orm.Session) -> Result:
    """Return what comes of claims that have all ended: nothing, but the commit before may have been theirs.

    Who asks has not heard what that did to the counters. Claims may be gone with it, and so it is told of all pools.
    """
    pools = session.scalars(sa.select(models.Pool.id)).all() if database.may_be_committed(session) else ()
    return Result(pool_counters.read(session, pools), (), (), ())


@dataclass(slots=True, kw_only=True)
class Settlement:
    """The claims that end in one transaction, with all that is locked for them, and what comes of it."""

    session: orm.Session
    locked: pool_counters.Locked
    stamps: Mapping[str, int]
    max_attempts: int
    claims: Mapping[str, models.Claim]
    volumes: Mapping[str, models.Volume]
    added: dict[int, int] = field(default_factory=dict)
    #: Pools whose sum of what is in flight may be another now.
    moved: set[int] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)

    def purge(self, claim: models.Claim, pool_id: int) -> None:
        """Order that the copy of a claim's volume in a pool is deleted."""
        order = purge(claim, pool_id, self.locked.backends[pool_id])
        self.session.add(order)
        self.ordered.append(order.id)

    def add(self, pool_id: int, size: int) -> None:
        """Count so many GiB more, or less, as allocated in a pool."""
        self.added[pool_id] = self.added.get(pool_id, 0) + size

    def confirm(self, claim: models.Claim, ending: Ending) -> None:
        """Count a claim from now on as what is there."""
        claim.state = pool_counters.CONFIRMED
        self.note(claim, ending)
        claim.contained = self._is_contained(claim, ending)
        if claim.contained:
            self.moved.add(claim.pool_id)

    def release(self, claim: models.Claim, ending: Ending) -> None:
        """Count a claim no more as allocated, and as in flight until it is contained."""
        if claim.state in pool_counters.LIVE:
            self.add(claim.pool_id, -claim.size_gb)
        claim.state = pool_counters.RELEASED
        verified_clean = ending.clean and not ending.ok
        # Otherwise the figures may not show yet that it is gone, or still lack it: a later report will tell.
        claim.contained = claim.contained or self._is_contained(claim, ending)
        # Where its pool is on no storage any more, there are no others that have to see it.
        seen = claim.contained and (claim.everywhere or self.locked.storages[claim.pool_id] is None)
        if verified_clean or seen:
            self.session.delete(claim)
        else:
            self.note(claim, ending)
        self.moved.add(claim.pool_id)

    def note(self, claim: models.Claim, ending: Ending) -> None:
        """Note when a claim ended."""
        claim.end_epoch, claim.end_tick = ending.epoch, ending.tick
        storage_id = self.locked.storages[claim.pool_id]
        if storage_id is not None:
            claim.end_stamp = self.stamps.get(storage_id, 0) + 1

    def _is_contained(self, claim: models.Claim, ending: Ending) -> bool:
        return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]

    def take_over(self, claim: models.Claim) -> float | None:
        """Count no longer as others' what a claim takes over; return its size if it was listed."""
        listed = self.session.scalars(
            sa.select(models.Discrepancy).where(
                models.Discrepancy.pool_id == claim.pool_id,
                models.Discrepancy.volume_id.in_([claim.reference, claim.volume_id]),
                models.Discrepancy.kind.in_(listings.EXTERNAL),
            )
        ).all()
        if not listed:
            return None
        size = math.fsum(row.listed_gb for row in listed)
        pool = self.session.get_one(models.Pool, claim.pool_id)
        pool.external_gb = max(0.0, pool.external_gb - size)
        for row in listed:
            self.session.delete(row)
        return size

    def release_copy(self, claim: models.Claim, ending: Ending) -> None:
        """Release what a volume has in a pool, now that it is gone there.

        Whatever went before on this volume has ended too: the agent works on one volume in order.
        """
        others = self.session.scalars(
            sa.select(models.Claim).where(
                models.Claim.volume_id == claim.volume_id,
                models.Claim.pool_id == claim.pool_id,
                models.Claim.id != claim.id,
                models.Claim.state.in_(pool_counters.LIVE),
            )
        )
        for other in others:
            self.release(other, ending)

    def finish(self) -> Result:
        """Write the counters and return what came of it."""
        self.session.flush()
        pool_counters.add_to_pools(self.session, self.locked, self.added)
        pool_counters.recount_in_flight(self.session, self.moved)
        pool_counters.recount_shared(self.session, self.locked.shared())
        return Result(
            pool_counters.read(self.session, self.locked.backends.keys()),
            tuple(self.ended),
            tuple(self.unplaced),
            tuple(self.ordered),
            tuple(self.past),
        )


def purge(claim: models.Claim, pool_id: int, backend_id: int) -> models.Claim:
    """Return the order to delete the copy of a claim's volume in a pool."""
    return models.Claim(
        id=str(uuid.uuid4()),
        volume_id=claim.volume_id,
        backend_id=backend_id,
        pool_id=pool_id,
        verb=bookings.PURGE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=claim.target_size_gb,
        provisioning=claim.provisioning,
        request_id=claim.request_id,
    )
