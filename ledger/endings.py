# SPDX-License-Identifier: Apache-2.0
"""Endings: what agents tell of their operations, and what becomes of the claims.

Containment: a claim that ended at tick *t* of epoch *e* is contained in a pool's figures when the report that brought
them covers a later tick of that epoch, or belongs to a later epoch. Until then it stays in flight, however it ended:
only a failure that the driver verified as clean drops it at once.
"""

import math
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import listings
from tonnage.ledger import models
from tonnage.ledger import usages

#: Most characters of what pools said that could not make a volume: MariaDB's TEXT takes 65,535 bytes.
_REASON = 8000


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

    counters: Mapping[int, counters.Counters]
    ended: tuple[str, ...]
    unplaced: tuple[str, ...]
    ordered: tuple[str, ...]
    past: tuple[str, ...] = ()


def end(session: orm.Session, endings: Sequence[Ending], max_attempts: int) -> Result:
    """Apply endings. One that was applied before, or whose claim is gone, changes nothing.

    Neither does one of a past epoch: the next process of the agent may have been told to do it again.
    A create that failed is to be placed again (its volume is in ``unplaced``) until ``max_attempts`` pools have failed.
    """
    by_id = {ending.claim_id: ending for ending in endings}
    work = _begin(session, by_id, max_attempts)
    if work is None:
        return Result({}, (), (), ())
    for claim in work.claims.values():
        if by_id[claim.id].epoch != work.locked.epochs[claim.backend_id]:
            work.past.append(claim.id)
        elif claim.state == counters.PENDING:
            work.ended.append(claim.id)
            work.apply(claim, by_id[claim.id])
    return work.finish()


def abandon(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> Result:
    """Let requests move on whose agent stays away. Only creates and migrations can.

    What was claimed stays counted, and is purged once the agent is back.
    """
    work = _begin(session, claim_ids, max_attempts)
    if work is None:
        return Result({}, (), (), ())
    for claim in work.claims.values():
        if claim.state == counters.PENDING:
            work.abandon(claim)
    return work.finish()


def fail_volume(session: orm.Session, volume_id: str, reason: str) -> None:
    """Put a volume that cannot be made in error and tell its owner why: what its pools said, then ``reason``."""
    volume = session.get(models.Volume, volume_id, with_for_update=True)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        return
    if volume.status_reason is not None:
        reason = f"No pool could make the volume. {volume.status_reason}. {reason}"
    _fail(session, volume, "error", "create", reason)


def forget_volume(session: orm.Session, volume: models.Volume) -> None:
    """Remove the row of a volume that is on no pool. The keys of its requests live on for a while."""
    session.execute(
        sa.update(models.RequestKey)
        .where(models.RequestKey.volume_id == volume.id)
        .values(counted_from=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    session.delete(volume)


def purge(claim: models.Claim, pool_id: int, backend_id: int) -> models.Claim:
    """Return the order to delete the copy of a claim's volume in a pool."""
    return models.Claim(
        id=str(uuid.uuid4()),
        volume_id=claim.volume_id,
        backend_id=backend_id,
        pool_id=pool_id,
        verb=bookings.PURGE,
        state=counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=claim.target_size_gb,
        provisioning=claim.provisioning,
        request_id=claim.request_id,
    )


def _fail(session: orm.Session, volume: models.Volume, status: str, event: str, reason: str) -> None:
    volume.status = status
    volume.status_reason = reason
    session.add(
        models.Message(
            id=str(uuid.uuid4()),
            project_id=volume.project_id,
            request_id=volume.request_id,
            resource_id=volume.id,
            event=f"volume_{event}_failed",
            text=reason,
        )
    )


def _begin(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> "_Work | None":
    """Lock what the endings of these claims may touch, in the one order, and read it; None if all have ended.

    Most have been told to another scheduler by the time that a report brings them: nothing of those is locked. A claim
    that is not pending never is again.
    """
    claim, volume = models.Claim, models.Volume
    pending = session.execute(
        sa.select(claim.id, claim.volume_id, claim.verb, claim.pool_id).where(
            claim.id.in_(claim_ids), claim.state == counters.PENDING
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
        usages.distrust_owners(session, managed)
    locked = counters.lock(session, pools)
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
    return _Work(
        session=session,
        locked=locked,
        stamps=stamps,
        max_attempts=max_attempts,
        claims={row.id: row for row in claims},
        volumes={row.id: row for row in volumes},
    )


@dataclass(slots=True, kw_only=True)
class _Work:
    """The endings of one transaction."""

    session: orm.Session
    locked: counters.Locked
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

    def apply(self, claim: models.Claim, ending: Ending) -> None:
        volume = self.volumes.get(claim.volume_id)
        _APPLY[claim.verb](self, claim, volume, ending)

    def abandon(self, claim: models.Claim) -> None:
        volume = self.volumes.get(claim.volume_id)
        pool = self.session.get_one(models.Pool, claim.pool_id)
        reason = f"{pool.name} stayed away"
        if volume is None:
            return
        if claim.verb == bookings.CREATE and volume.status == "creating":
            self._place_again(claim, volume, reason)
        elif claim.verb == bookings.MIGRATE and volume.status in MOVING:
            self._stay(claim, volume, reason)
        else:
            return
        claim.state = counters.ABANDONED
        self._purge(claim, claim.pool_id)

    def finish(self) -> Result:
        self.session.flush()
        counters.add_to_pools(self.session, self.locked, self.added)
        counters.recount_in_flight(self.session, self.moved)
        counters.recount_shared(self.session, self.locked.shared())
        return Result(
            counters.read(self.session, self.locked.backends.keys()),
            tuple(self.ended),
            tuple(self.unplaced),
            tuple(self.ordered),
            tuple(self.past),
        )

    def created(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        if ending.ok:
            self._confirm(claim, ending)
            if volume is not None and volume.status == "creating":
                volume.status = "available"
            return
        if ending.size_gb > 0:
            # It has failed, and something is there all the same: it stays counted and its volume where it is, so that
            # a delete finds it. Another pool would make a second one.
            self._confirm(claim, ending)
            if volume is not None and volume.status == "creating":
                _fail(self.session, volume, "error", "create", f"{ending.message} (what was made of it is still there)")
            return
        self._release(claim, ending)
        if volume is not None and volume.status == "creating":
            self._place_again(claim, volume, ending.message)

    def extended(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        before = claim.target_size_gb - claim.size_gb
        reached = math.ceil(ending.size_gb - 1e-9)
        if ending.ok:
            self._confirm(claim, ending)
        elif reached > before:
            # It has failed, but something has grown: the claim becomes what is there.
            grown = min(reached, claim.target_size_gb) - before
            self._add(claim.pool_id, grown - claim.size_gb)
            claim.physical_gb = min(claim.physical_gb, grown)
            claim.size_gb = grown
            self.moved.add(claim.pool_id)
            self._confirm(claim, ending)
        else:
            self._release(claim, ending)
        if volume is None:
            return
        if ending.ok:
            volume.size_gb = claim.target_size_gb
            volume.status = "available"
            volume.status_reason = None
        else:
            volume.size_gb = max(volume.size_gb, min(reached, claim.target_size_gb))
            _fail(self.session, volume, "available" if ending.clean else "error_extending", "extend", ending.message)

    def migrated(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        # If an operator has removed the backend that it came from, this copy is all there is of it.
        moving = volume is not None and (
            volume.status in MOVING or (ending.ok and volume.status == "error" and volume.pool_id is None)
        )
        # A clean failure made none of what is there, which is not to be deleted without being told.
        made = ending.ok or (ending.size_gb > 0 and not ending.clean)
        if made:
            self._confirm(claim, ending)
        else:
            self._release(claim, ending)
        if volume is None or not moving:
            if made:
                self._purge(claim, claim.pool_id)
            return
        if not ending.ok:
            if made:
                self._purge(claim, claim.pool_id)
            self._stay(claim, volume, ending.message)
            return
        # Another backend's agent may still hold the copy that was left; it is counted there until it is gone.
        if claim.source_pool_id is not None and claim.source_pool_id in self.locked.backends:
            self._purge(claim, claim.source_pool_id)
        pool = self.session.get_one(models.Pool, claim.pool_id)
        volume.pool_id = pool.id
        volume.provisioning = claim.provisioning
        volume.availability_zone = self.session.get_one(models.Backend, pool.backend_id).availability_zone
        # A type that was deleted just when this began is no reason not to end it.
        if claim.volume_type_id is not None and self.session.get(models.VolumeType, claim.volume_type_id) is not None:
            volume.volume_type_id = claim.volume_type_id
        volume.status = "available"
        volume.status_reason = None
        volume.migration_status = "success"

    def managed(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        if not ending.ok or not 0 <= ending.size_gb <= MAX_SIZE_GB:
            self._release(claim, ending)
            if volume is not None:
                volume.pool_id = None
                no_size = f"{ending.size_gb:g} GiB is not the size of a volume"
                _fail(self.session, volume, "error_managing", "manage", no_size if ending.ok else ending.message)
            return
        size = math.ceil(ending.size_gb - 1e-9)
        claim.size_gb = claim.target_size_gb = size
        claim.state = counters.CONFIRMED
        self._note(claim, ending)
        before = self._take_over(claim)
        thick = claim.provisioning == Provisioning.THICK
        # It was there before anybody asked, so the figures contain it, unless it came after the last list, has just got
        # its space, or grown to whole GiB: then it counts twice until the next report, rather than too little.
        claim.contained = not thick and before is not None and before >= size
        claim.everywhere = claim.contained or self.locked.storages[claim.pool_id] is None
        if not claim.contained:
            claim.physical_gb = size if thick else 0
            self.moved.add(claim.pool_id)
        self._add(claim.pool_id, size)
        if volume is not None:
            volume.size_gb = size
            volume.status = "available"

    def _take_over(self, claim: models.Claim) -> float | None:
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

    def deleted(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        self.session.delete(claim)
        if not ending.ok:
            if volume is not None:
                _fail(self.session, volume, "error_deleting", "delete", ending.message)
            return
        self._release_copy(claim, ending)
        if volume is not None:
            forget_volume(self.session, volume)

    def purged(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        self.session.delete(claim)
        if ending.ok:
            self._release_copy(claim, ending)
        else:
            # Nobody waits for it, but it has to go: the order is given again, as another one, since an agent answers
            # one that it has run from its record.
            self.session.add(purge(claim, claim.pool_id, claim.backend_id))

    def _release_copy(self, claim: models.Claim, ending: Ending) -> None:
        """Release what a volume has in a pool, now that it is gone there.

        Whatever went before on this volume has ended too: the agent works on one volume in order.
        """
        others = self.session.scalars(
            sa.select(models.Claim).where(
                models.Claim.volume_id == claim.volume_id,
                models.Claim.pool_id == claim.pool_id,
                models.Claim.id != claim.id,
                models.Claim.state.in_(counters.LIVE),
            )
        )
        for other in others:
            self._release(other, ending)

    def _place_again(self, claim: models.Claim, volume: models.Volume, message: str) -> None:
        pool = self.session.get_one(models.Pool, claim.pool_id)
        volume.attempted_pools = [*volume.attempted_pools, pool.name]
        volume.pool_id = None
        volume.provisioning = None
        said = message if pool.name in message else f"{pool.name}: {message}"
        reason = said if volume.status_reason is None else f"{volume.status_reason}; {said}"
        volume.status_reason = reason[:_REASON]
        if len(volume.attempted_pools) < self.max_attempts:
            self.unplaced.append(volume.id)
        else:
            _fail(self.session, volume, "error", "create", f"No pool could make the volume. {volume.status_reason}")

    def _stay(self, claim: models.Claim, volume: models.Volume, message: str) -> None:
        """Leave a volume that could not be moved where it is."""
        event = "migrate" if claim.volume_type_id is None else "retype"
        _fail(self.session, volume, "available", event, message)
        volume.migration_status = "error"

    def _purge(self, claim: models.Claim, pool_id: int) -> None:
        order = purge(claim, pool_id, self.locked.backends[pool_id])
        self.session.add(order)
        self.ordered.append(order.id)

    def _add(self, pool_id: int, size: int) -> None:
        self.added[pool_id] = self.added.get(pool_id, 0) + size

    def _confirm(self, claim: models.Claim, ending: Ending) -> None:
        claim.state = counters.CONFIRMED
        self._note(claim, ending)
        claim.contained = self._is_contained(claim, ending)
        if claim.contained:
            self.moved.add(claim.pool_id)

    def _release(self, claim: models.Claim, ending: Ending) -> None:
        if claim.state in counters.LIVE:
            self._add(claim.pool_id, -claim.size_gb)
        claim.state = counters.RELEASED
        verified_clean = ending.clean and not ending.ok
        # Otherwise the figures may not show yet that it is gone, or still lack it: a later report will tell.
        claim.contained = claim.contained or self._is_contained(claim, ending)
        if verified_clean or (claim.contained and claim.everywhere):
            self.session.delete(claim)
        else:
            self._note(claim, ending)
        self.moved.add(claim.pool_id)

    def _note(self, claim: models.Claim, ending: Ending) -> None:
        claim.end_epoch, claim.end_tick = ending.epoch, ending.tick
        storage_id = self.locked.storages[claim.pool_id]
        if storage_id is not None:
            claim.end_stamp = self.stamps.get(storage_id, 0) + 1

    def _is_contained(self, claim: models.Claim, ending: Ending) -> bool:
        return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]


#: States of a volume that is being moved.
MOVING = ("maintenance", "retyping")

_APPLY: dict[str, Callable[[_Work, models.Claim, models.Volume | None, Ending], None]] = {
    bookings.CREATE: _Work.created,
    bookings.EXTEND: _Work.extended,
    bookings.MIGRATE: _Work.migrated,
    bookings.MANAGE: _Work.managed,
    bookings.DELETE: _Work.deleted,
    bookings.PURGE: _Work.purged,
}
