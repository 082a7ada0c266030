# SPDX-License-Identifier: Apache-2.0
"""Endings: what agents tell of their operations, and what becomes of the claims.

Containment: a claim that ended at tick *t* of epoch *e* is contained in a pool's figures when the report that brought
them covers a later tick of that epoch, or belongs to a later epoch. Until then it stays in flight, however it ended:
only a failure that the driver verified as clean drops it at once.
"""

import math
import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import models


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
    before), and the volumes that have to be placed again.
    """

    counters: Mapping[int, counters.Counters]
    ended: tuple[str, ...]
    unplaced: tuple[str, ...]


def end(session: orm.Session, endings: Sequence[Ending], max_attempts: int) -> Result:
    """Apply endings. One that was applied before, or whose claim is gone, changes nothing.

    A create that failed is to be placed again (its volume is in ``unplaced``) until ``max_attempts`` pools have failed.
    """
    claim = models.Claim
    by_id = {ending.claim_id: ending for ending in endings}
    where = claim.id.in_(by_id)
    named = session.execute(sa.select(claim.pool_id, claim.volume_id).where(where)).all()
    pools = {row[0] for row in named}
    # A delete ends all the claims of its volume, wherever they are.
    pools |= set(session.scalars(sa.select(claim.pool_id).where(claim.volume_id.in_({row[1] for row in named}))))
    backends = dict(
        session.execute(sa.select(models.Pool.id, models.Pool.backend_id).where(models.Pool.id.in_(pools))).all()
    )
    _lock_backends(session, sorted(set(backends.values())))
    counters.lock_pools(session, pools)
    covers = {
        row[0]: (int(row[1]), int(row[2]))
        for row in session.execute(
            sa.select(models.Pool.id, models.Pool.covers_epoch, models.Pool.covers_tick).where(
                models.Pool.id.in_(pools)
            )
        )
    }
    released: dict[int, int] = dict.fromkeys(pools, 0)
    unplaced: list[str] = []
    applied: list[str] = []
    # Read again under the pools' locks: another scheduler may have heard of the same ending.
    claims = session.scalars(sa.select(claim).where(where).order_by(claim.id).with_for_update()).all()
    work = _Work(session, covers, released, unplaced, max_attempts)
    for row in claims:
        if row.state == counters.PENDING:
            applied.append(row.id)
            work.apply(row, by_id[row.id])
    session.flush()
    by_backend: dict[int, int] = {}
    for pool_id, size in released.items():
        by_backend[backends[pool_id]] = by_backend.get(backends[pool_id], 0) - size
    counters.add_to_backends(session, by_backend)
    counters.add_to_pools(session, {pool_id: -size for pool_id, size in released.items()})
    counters.recount_in_flight(session, pools)
    return Result(counters.read(session, pools), tuple(applied), tuple(unplaced))


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


def _lock_backends(session: orm.Session, backend_ids: Sequence[int]) -> None:
    backend = models.Backend
    session.execute(
        sa.select(backend.id).where(backend.id.in_(backend_ids)).order_by(backend.id).with_for_update()
    ).all()


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


@dataclass(slots=True)
class _Work:
    """The endings of one transaction."""

    session: orm.Session
    covers: Mapping[int, tuple[int, int]]
    released: dict[int, int]
    unplaced: list[str]
    max_attempts: int

    def apply(self, claim: models.Claim, ending: Ending) -> None:
        volume = self.session.get(models.Volume, claim.volume_id, with_for_update=True)
        if claim.verb == bookings.DELETE:
            self._deleted(claim, volume, ending)
        elif claim.verb == bookings.CREATE:
            self._created(claim, volume, ending)
        else:
            self._extended(claim, volume, ending)

    def _created(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
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
        if volume is None or volume.status != "creating":
            return
        pool = self.session.get_one(models.Pool, claim.pool_id)
        volume.attempted_pools = [*volume.attempted_pools, pool.name]
        volume.pool_id = None
        volume.provisioning = None
        said = ending.message if pool.name in ending.message else f"{pool.name}: {ending.message}"
        volume.status_reason = said if volume.status_reason is None else f"{volume.status_reason}; {said}"
        if len(volume.attempted_pools) < self.max_attempts:
            self.unplaced.append(volume.id)
        else:
            _fail(self.session, volume, "error", "create", f"No pool could make the volume. {volume.status_reason}")

    def _extended(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        before = claim.target_size_gb - claim.size_gb
        reached = math.ceil(ending.size_gb - 1e-9)
        if ending.ok:
            self._confirm(claim, ending)
        elif reached > before:
            # It has failed, but something has grown: the claim becomes what is there.
            grown = min(reached, claim.target_size_gb) - before
            self.released[claim.pool_id] += claim.size_gb - grown
            claim.physical_gb = min(claim.physical_gb, grown)
            claim.size_gb = grown
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

    def _deleted(self, claim: models.Claim, volume: models.Volume | None, ending: Ending) -> None:
        self.session.delete(claim)
        if not ending.ok:
            if volume is not None:
                _fail(self.session, volume, "error_deleting", "delete", ending.message)
            return
        others = self.session.scalars(
            sa.select(models.Claim).where(
                models.Claim.volume_id == claim.volume_id,
                models.Claim.backend_id == claim.backend_id,
                models.Claim.id != claim.id,
                models.Claim.state.in_(counters.LIVE),
            )
        )
        for other in others:
            # Whatever went before on this volume has ended too: the agent works on one volume in order.
            self._release(other, ending)
        if volume is not None:
            forget_volume(self.session, volume)

    def _confirm(self, claim: models.Claim, ending: Ending) -> None:
        claim.state = counters.CONFIRMED
        claim.end_epoch, claim.end_tick = ending.epoch, ending.tick
        claim.contained = self._is_contained(claim, ending)

    def _release(self, claim: models.Claim, ending: Ending) -> None:
        if claim.state in counters.LIVE:
            self.released[claim.pool_id] += claim.size_gb
        claim.state = counters.RELEASED
        verified_clean = ending.clean and not ending.ok
        # Otherwise the figures may not show yet that it is gone, or still lack it: a later report will tell.
        if verified_clean or claim.contained or self._is_contained(claim, ending):
            self.session.delete(claim)
        else:
            claim.end_epoch, claim.end_tick = ending.epoch, ending.tick

    def _is_contained(self, claim: models.Claim, ending: Ending) -> bool:
        return (ending.epoch, ending.tick) < self.covers[claim.pool_id]
