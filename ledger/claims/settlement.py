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

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.claims import row_changes
from tonnage.ledger.claims.row_changes import ClaimRow, LockedRows, VolumeRow
from tonnage.ledger.db import database
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters, pool_locks, scheduling_rules, volume_usage
from tonnage.ledger.locks.pool_counters import CounterChange
from tonnage.ledger.locks.pool_locks import PoolPlace
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


_CLAIM, _POOL = models.table(models.Claim), models.table(models.Pool).c
_OF_VOLUME = _CLAIM.alias("of_volume")
#: Each pending claim, and each claim of its volume with the place of its pool.
_PENDING = Prepared(
    sa.select(
        *(_CLAIM.c.id, _CLAIM.c.volume_id, _CLAIM.c.verb, _CLAIM.c.pool_id == _OF_VOLUME.c.pool_id),
        *(_POOL.id, _POOL.backend_id, _POOL.storage_id),
    )
    .join_from(_CLAIM, _OF_VOLUME, _OF_VOLUME.c.volume_id == _CLAIM.c.volume_id)
    .join(models.table(models.Pool), _POOL.id == _OF_VOLUME.c.pool_id)
    .where(_CLAIM.c.id.in_(sa.bindparam("ids", expanding=True)), _CLAIM.c.state == pool_counters.PENDING)
)
_CLAIMS = sa.select(*row_changes.columns(ClaimRow)).order_by(_CLAIM.c.id).with_for_update()
_LOCK_CLAIMS = Prepared(_CLAIMS.where(_CLAIM.c.id.in_(sa.bindparam("ids", expanding=True))))
_LOCK_CLAIMS_OF_VOLUMES = Prepared(
    _CLAIMS.where(
        _CLAIM.c.volume_id.in_(sa.bindparam("volume_ids", expanding=True)),
        _CLAIM.c.pool_id.in_(sa.bindparam("pool_ids", expanding=True)),
    )
)

_NOTHING = CounterChange()

#: Verbs that end no other claim of their volume, and leave no copy behind that has to be purged.
_SINGLE = (claim_verbs.CREATE, claim_verbs.EXTEND, claim_verbs.MANAGE)


def begin(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> "Settlement | None":
    """Lock the rows that the settlement of these claims may touch, in the one order of locks, and read them.

    Returns None if no claim is pending. A report repeats outcomes that were mostly sent to another scheduler before:
    nothing is locked for those. A claim that is not pending never becomes pending again.

    Raises :class:`~tonnage.capacity.errors.LedgerMoved` if a copy of the ledger is used instead: an agent forgets an
    outcome that was accepted, and its claim may be in that copy only.
    """
    pending = _PENDING.rows(session.connection(), {"ids": claim_ids})
    if not pending:
        scheduling_rules.read_generation(session)
        return None
    ids, volume_ids = {row[0] for row in pending}, {row[1] for row in pending}
    places = {PoolPlace(*row[4:]) for row in pending if row[3] or row[2] not in _SINGLE}
    if managed := {row[1] for row in pending if row[2] == claim_verbs.MANAGE}:
        volume_usage.mark_owners_for_recount(session, managed)
    locked = pool_locks.lock_placed(session, places)
    removes = any(row[2] not in _SINGLE for row in pending)
    return _begun(
        session, locked, volume_ids, ids, max_attempts, {place.pool_id for place in places} if removes else None
    )


def lock(
    session: orm.Session,
    pool_ids: Collection[int],
    volume_ids: Collection[str],
    claim_ids: Collection[str],
    max_attempts: int,
) -> "Settlement":
    """Lock pools, volumes and claims, in the one order of locks, and return the settlement of these claims."""
    return _begun(session, pool_locks.lock(session, pool_ids), volume_ids, claim_ids, max_attempts)


def _begun(
    session: orm.Session,
    locked: pool_locks.LockedPools,
    volume_ids: Collection[str],
    claim_ids: Collection[str],
    max_attempts: int,
    copies_in: Collection[int] | None = None,
) -> "Settlement":
    """Lock volumes and claims. With ``copies_in`` all claims of the volumes in these pools are locked."""
    connection = session.connection()
    # The rows are read under the pools' locks: another scheduler may have received the same outcome.
    volumes = row_changes.lock_volumes(connection, volume_ids)
    if copies_in is not None:
        of_volumes = {"volume_ids": sorted(volume_ids), "pool_ids": sorted(copies_in)}
        claims = LockedRows(ClaimRow, _LOCK_CLAIMS_OF_VOLUMES.rows(connection, of_volumes))
    else:
        claims = LockedRows(ClaimRow, _LOCK_CLAIMS.rows(connection, {"ids": sorted(claim_ids)}))
    return Settlement(
        session=session,
        locked=locked,
        max_attempts=max_attempts,
        claims={id: row for id, row in claims.rows.items() if id in claim_ids},
        claim_rows=claims,
        volume_rows=volumes,
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
    """The claims that are settled in one transaction, the rows locked for them, and the results so far.

    ``claims`` are the claims to settle. ``claim_rows`` has also the other claims of their volumes, where a copy that is
    removed ends all of them.
    """

    session: orm.Session
    locked: pool_locks.LockedPools
    max_attempts: int
    claims: Mapping[str, ClaimRow]
    claim_rows: LockedRows[ClaimRow]
    volume_rows: LockedRows[VolumeRow]
    #: Changes of counters by pool.
    changes: dict[int, CounterChange] = field(default_factory=dict)
    external: dict[int, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)

    @property
    def volumes(self) -> Mapping[str, VolumeRow]:
        """The locked volumes by id."""
        return self.volume_rows.rows

    def purge(self, claim: ClaimRow, pool_id: int) -> None:
        """Order the purge of the copy of a claim's volume in a pool."""
        order = purge(claim, pool_id, self.locked.backends[pool_id])
        self.claim_rows.insert(order)
        self.ordered.append(order.id)

    def confirm(self, claim: ClaimRow, ending: EndedOperation) -> None:
        """Mark a claim as confirmed: its capacity is in use."""
        claim.state = pool_counters.CONFIRMED
        self.record_end(claim, ending)
        claim.contained = self._is_contained(claim, ending)
        claim.contained_by_all = self._is_contained_by_all(claim)

    def release(self, claim: ClaimRow, ending: EndedOperation, *, deleted: bool = False) -> None:
        """Release a claim: it no longer counts as allocated, and stays in flight until it is contained.

        ``deleted`` is whether its volume was deleted, else the copy is in another pool or there never was one.
        """
        if claim.state in pool_counters.LIVE:
            size = claim.size_gb
            is_move = not deleted and (claim.verb == claim_verbs.MIGRATE or claim.state == pool_counters.CONFIRMED)
            self._add(claim.pool_id, CounterChange(deleted=size if deleted else 0, moved=-size if is_move else 0))
        claim.state = pool_counters.RELEASED
        verified_clean = ending.clean and not ending.ok
        # Otherwise the figures may still show the copy, or may never have shown it: a later report decides.
        claim.contained = claim.contained or self._is_contained(claim, ending)
        if not claim.contained or not claim.contained_by_all:
            self.record_end(claim, ending)
        claim.contained_by_all = self._is_contained_by_all(claim)
        if verified_clean or (claim.contained and claim.contained_by_all):
            self.claim_rows.delete(claim)

    def record_end(self, claim: ClaimRow, ending: EndedOperation) -> None:
        """Record the epoch, the tick and the storage's stamp at which a claim ended."""
        claim.end_epoch, claim.end_tick = ending.epoch, ending.tick
        pool = self.locked.rows[claim.pool_id]
        if pool.storage_id is not None:
            claim.end_stamp = pool.stamp + 1

    def _is_contained(self, claim: ClaimRow, ending: EndedOperation) -> bool:
        return (ending.epoch, ending.tick) < self.locked.rows[claim.pool_id].covers

    def _is_contained_by_all(self, claim: ClaimRow) -> bool:
        """Return whether no other pool has to see a claim: none is on its storage, or the figures of all contain it.

        A claim that the figures of its own pool lack stays as it is.
        """
        storage_id = self.locked.storages[claim.pool_id]
        if claim.contained_by_all or not claim.contained:
            return claim.contained_by_all
        others = () if storage_id is None else self.locked.shared[storage_id]
        return all(pool.contains(claim) for pool in others if pool.is_present and pool.id != claim.pool_id)

    def remove_external(self, claim: ClaimRow) -> float | None:
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
        pool = self.locked.rows[claim.pool_id]
        before = self.external.get(pool.id, pool.counters.external)
        after = self.external[pool.id] = max(0.0, before - size)
        for other in () if pool.storage_id is None else self.locked.shared[pool.storage_id]:
            if other.id != pool.id and not other.is_part:
                self._add(other.id, CounterChange(shared_allocated=math.ceil(after) - math.ceil(before)))
        self.session.execute(sa.update(models.Pool).where(models.Pool.id == pool.id).values(external_gb=after))
        for row in discrepancies:
            self.session.delete(row)
        return size

    def release_copy(self, claim: ClaimRow, ending: EndedOperation) -> None:
        """Release all claims of a volume in a pool, after its copy there is gone.

        Earlier operations on this volume have ended too: the agent works on each volume in order.
        """
        for other_claim in list(self.claim_rows.rows.values()):
            of_copy = (other_claim.volume_id, other_claim.pool_id) == (claim.volume_id, claim.pool_id)
            if of_copy and other_claim.id != claim.id and other_claim.state in pool_counters.LIVE:
                self.release(other_claim, ending, deleted=claim.verb == claim_verbs.DELETE)

    def write_rows(self) -> None:
        """Write the changes of volumes and claims, and add up their effects on the counters."""
        for before, after in self.claim_rows.changes():
            earlier, later = self._effects(before), self._effects(after)
            for pool_id in earlier.keys() | later.keys():
                self._add(pool_id, later.get(pool_id, _NOTHING).minus(earlier.get(pool_id, _NOTHING)))
        connection = self.session.connection()
        self.volume_rows.write(connection)
        self.claim_rows.write(connection)

    def finish(self) -> Result:
        """Write the rows and the counters, and return the result."""
        self.session.flush()
        self.write_rows()
        pool_counters.add_to_pools(self.session, self.locked.backends, self.changes)
        return Result(
            {id: self._counters_after(pool) for id, pool in self.locked.rows.items()},
            tuple(self.ended),
            tuple(self.unplaced),
            tuple(self.ordered),
            tuple(self.past),
        )

    def _counters_after(self, pool: pool_locks.LockedPool) -> pool_counters.Counters:
        counters = self.changes.get(pool.id, _NOTHING).applied_to(pool.counters)
        return counters._replace(external=self.external.get(pool.id, counters.external))

    def _add(self, pool_id: int, change: CounterChange) -> None:
        if change != _NOTHING:
            self.changes[pool_id] = self.changes.get(pool_id, _NOTHING).plus(change)

    def _effects(self, claim: ClaimRow | None) -> Mapping[int, CounterChange]:
        """Return the effects of a claim on the counters of the pools on its storage, by pool; None has no effect.

        A settlement adds the difference of the effects before and after it. An example: a claim of 20 GiB in pool 1,
        on one storage with pool 2, neither of whose figures contains it. Its volume is deleted::

                                     pool 1: allocated, in flight    pool 2: shared allocated, shared in flight
            before, confirmed                       20         20                          20                20
            after, released                          0         20                           0                20
            difference                             -20          0                         -20                 0
        """
        if claim is None:
            return {}
        own = self.locked.rows[claim.pool_id]
        allocated = claim.size_gb if claim.state in pool_counters.LIVE else 0
        size, physical = (0, 0) if claim.contained else (claim.size_gb, claim.physical_gb)
        effects = {own.id: CounterChange(allocated, size, physical)}
        for pool in () if own.storage_id is None else self.locked.shared[own.storage_id]:
            if pool.id != own.id:
                is_seen = claim.contained_by_all or pool.contains(claim)
                size, physical = (0, 0) if is_seen else (claim.size_gb, claim.physical_gb)
                whole = CounterChange(0, 0, 0, allocated, size, physical)
                effects[pool.id] = CounterChange(shared_in_flight_physical=physical) if pool.is_part else whole
        return effects


def purge(claim: ClaimRow, pool_id: int, backend_id: int) -> ClaimRow:
    """Return a claim that orders the purge of a volume's copy in a pool."""
    return ClaimRow(
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
