# SPDX-License-Identifier: Apache-2.0
"""Claims on observed backends: promises of capacity for volumes of another system, such as Cinder.

No agent confirms these claims. Their ends are seen in the rows of the other system, by any scheduler that polls them.
An end has the number of the last probe that was allocated when the end was recorded, in place of an agent's tick: only
the report of a later probe contains the claim (:mod:`tonnage.extensions.cinder.ledger.probes`).

The scheduler claims first, then writes the row of the other system, then records the claim as sent, and only then sends
the command. A claim that was ended meanwhile cannot be recorded as sent.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import bookings, request_keys, settlement
from tonnage.ledger.claims.row_changes import ClaimRow
from tonnage.ledger.db import database, dialects
from tonnage.ledger.locks import pool_counters, scheduling_rules
from tonnage.ledger.models import claim_verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClaim:
    """A live claim on an observed backend. ``ended`` is whether its end was seen; ``age`` is seconds."""

    id: str
    volume_id: str
    pool: str
    verb: str
    size_gb: int
    target_size_gb: int
    ended: bool
    sent: bool
    age: float


@dataclass(frozen=True, slots=True)
class SeenEnd:
    """The end of a claim, seen in the row of its volume.

    ``sent`` is the claim's state that was read before the row. ``kept`` is whether the volume has the capacity;
    otherwise the claim is released, and ``deleted`` is whether its volume was deleted.
    """

    claim_id: str
    sent: bool
    kept: bool
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVolume:
    """A volume that a row of the other system shows in a pool, with a size in GiB that its claims do not add up to.

    ``ended`` is whether no operation of it is under way; ``physical`` is whether it uses all of its size at once.
    ``group_id`` is its group: while the claim of the group counts in this pool, the volume needs none of its own.
    """

    volume_id: str
    pool: str
    size_gb: int
    ended: bool
    physical: bool = False
    group_id: str | None = None


_CLAIM = models.table(models.Claim).c
_RECORD_SENT = (
    sa.update(models.table(models.Claim))
    .where(_CLAIM.id == sa.bindparam("of"), _CLAIM.state == pool_counters.PENDING, _CLAIM.sent.is_(False))
    .values(sent=True)
)

#: The verb of the claim for a snapshot, which is released as soon as the snapshot is made.
SNAPSHOT = "snapshot"

#: The verb of the claim for all volumes of a group that is made from a source. Their own claims replace it. No
#: command belongs to it, and it is never recorded as sent, so it puts nothing on the storage.
GROUP = "group"


class Repeated(Exception):
    """The request was answered before, by another claim: its message was delivered again."""


def key(volume_id: str, verb: str, occasion: str) -> request_keys.Key:
    """Return the request key of an operation. ``occasion`` is the attempt, or the id of the request."""
    request_id = str(uuid.uuid5(uuid.UUID(volume_id), f"{verb} {occasion}"))
    return request_keys.Key(request_id, volume_id, verb, {"delivery": str(uuid.uuid4())})


def book(session: orm.Session, booking: bookings.Booking, request_key: request_keys.Key) -> None:
    """Book a claim that is not sent yet, and its request key.

    Raises :class:`Repeated` for a known key, and :class:`~tonnage.ledger.claims.bookings.PoolsChanged` if the pool does
    not admit the claim.
    """
    earlier_key = request_keys.insert_unless_known(session, replace(request_key, answer={"claim_id": booking.id}))
    if earlier_key is not None:
        if earlier_key.answer.get("claim_id") == booking.id:
            return  # by an earlier try of this transaction, whose commit got no answer
        raise Repeated(request_key.volume_id)
    generation = scheduling_rules.read_generation(session)
    # The limits in the pool's row are those of the other system's arithmetic, and hold for all of its volumes.
    bookings.take(session, [booking], Calculation.STANDARD, generation, all_bounded=True)
    bookings.insert_claims(session, [booking], sent=False)


def refuse(session: orm.Session, request_key: request_keys.Key) -> None:
    """Insert the request key of a refusal; raises :class:`Repeated` for a key that an earlier message has inserted."""
    earlier_key = request_keys.find(session, {request_key.request_id: None}).get(request_key.request_id)
    if earlier_key is None:
        request_keys.insert(session, [replace(request_key, refused=True)])
    elif earlier_key.answer != request_key.answer:
        raise Repeated(request_key.volume_id)


def record_sent(session: orm.Session, claim_id: str) -> bool:
    """Record that the command of a claim is about to be sent; return whether to send it: the claim has not ended."""
    changed = session.connection().execute(_RECORD_SENT, {"of": claim_id})
    if changed.rowcount or not database.may_be_committed(session):
        return bool(changed.rowcount)
    # An earlier try of this transaction may have recorded it.
    claim = models.Claim
    pending = sa.select(claim.sent).where(claim.id == claim_id, claim.state == pool_counters.PENDING)
    return bool(session.scalar(pending))


def drop(session: orm.Session, claim_id: str) -> None:
    """Release a claim whose command was never sent: nothing can be on the storage."""
    row = session.execute(sa.select(models.Claim.pool_id).where(models.Claim.id == claim_id)).one_or_none()
    if row is None:
        return
    work = settlement.lock(session, [row.pool_id], (), [claim_id], 0)
    for claim in work.claims.values():
        if not claim.sent and claim.state == pool_counters.PENDING:
            work.release(claim, _ending(work, claim, 0, kept=False, clean=True))
    work.finish()


def open_claims(session: orm.Session, volume_ids: Collection[str] | None = None) -> list[OpenClaim]:
    """Return live claims on observed backends: those without an end or, with ``volume_ids``, all of these volumes."""
    claim, pool, backend = models.Claim, models.Pool, models.Backend
    statement = (
        sa.select(claim, pool.name, models.utcnow())
        .join(pool, pool.id == claim.pool_id)
        .join(backend, backend.id == claim.backend_id)
        .where(backend.observed.is_(True), claim.state.in_(pool_counters.LIVE))
        .order_by(claim.created_at, claim.id)
    )
    statements = (
        [statement.where(claim.state == pool_counters.PENDING)]
        if volume_ids is None
        else [statement.where(claim.volume_id.in_(chunk)) for chunk in dialects.in_chunks(sorted(volume_ids))]
    )
    return [
        OpenClaim(
            id=row.id,
            volume_id=row.volume_id,
            pool=name,
            verb=row.verb,
            size_gb=row.size_gb,
            target_size_gb=row.target_size_gb,
            ended=row.state != pool_counters.PENDING,
            sent=row.sent,
            age=models.age(now, row.created_at) or 0.0,
        )
        for query in statements
        for row, name, now in session.execute(query.execution_options(populate_existing=True))
    ]


def volumes(session: orm.Session) -> set[str]:
    """Return the ids of all volumes with a live claim on an observed backend."""
    claim, backend = models.Claim, models.Backend
    rows = session.scalars(
        sa.select(claim.volume_id)
        .join(backend, backend.id == claim.backend_id)
        .where(backend.observed.is_(True), claim.state.in_(pool_counters.LIVE))
        .distinct()
    )
    return set(rows)


def settle(session: orm.Session, ends: Sequence[SeenEnd], seen_volumes: Sequence[SeenVolume]) -> None:
    """Record the ends of claims, and adopt volumes that other schedulers or other systems made.

    A claim that has changed since its state was read stays as it is. The pools of ``seen_volumes`` must have rows, see
    :func:`insert_pools`.
    """
    claim, pool = models.Claim, models.Pool
    ids = [end.claim_id for end in ends]
    of_claims = set(session.scalars(sa.select(claim.pool_id).where(claim.id.in_(ids))))
    names = {seen_volume.pool for seen_volume in seen_volumes}
    by_name = {row[0]: row[1] for row in session.execute(sa.select(pool.name, pool.id).where(pool.name.in_(names)))}
    work = settlement.lock(session, of_claims | set(by_name.values()), (), ids, 0)
    # Under the locks of the backends: a probe that is allocated later is sent after the ends were seen.
    last = _last_probes(session, work.locked.epochs.keys())
    for end in ends:
        row = work.claims.get(end.claim_id)
        if row is None or row.sent != end.sent or row.state not in pool_counters.LIVE:
            continue
        if not end.kept:
            ending = _ending(work, row, last[row.backend_id], kept=False, clean=not row.sent)
            work.release(row, ending, deleted=end.deleted)
        elif row.state == pool_counters.PENDING:
            work.confirm(row, _ending(work, row, last[row.backend_id], kept=True))
    work.write_rows()
    counted = _counted(session, [volume.volume_id for volume in seen_volumes])
    groups = _claimed_groups(session, {volume.group_id for volume in seen_volumes if volume.group_id is not None})
    for volume in seen_volumes:
        if volume.pool in by_name:
            pool_id = by_name[volume.pool]
            if (volume.group_id, pool_id) in groups:
                continue
            _adopt(work, volume, pool_id, volume.size_gb - counted.get((volume.volume_id, pool_id), 0), last)
    work.finish()


def insert_pools(session: orm.Session, names: Mapping[str, int]) -> None:
    """Insert rows of pools that no report has shown yet; ``names`` maps them to their backends. Nothing fits there."""
    pool = models.Pool
    existing_names = set(session.scalars(sa.select(pool.name).where(pool.name.in_(names))))
    missing = [
        {"backend_id": backend_id, "name": name, "present": False, "generation": 0, "stats": {}}
        for name, backend_id in sorted(names.items())
        if name not in existing_names
    ]
    if missing:
        session.execute(sa.insert(pool), missing)


def _counted(session: orm.Session, volume_ids: Collection[str]) -> dict[tuple[str, int], int]:
    """Return the sums of the live claims of volumes, by volume and pool, including claims that were made meanwhile."""
    claim = models.Claim
    sums = sa.select(claim.volume_id, claim.pool_id, sa.func.sum(claim.size_gb)).group_by(
        claim.volume_id, claim.pool_id
    )
    return {
        (row[0], row[1]): int(row[2])
        for chunk in dialects.in_chunks(sorted(volume_ids))
        for row in session.execute(sums.where(claim.volume_id.in_(chunk), claim.state.in_(pool_counters.LIVE)))
    }


def _claimed_groups(session: orm.Session, group_ids: Collection[str]) -> set[tuple[str | None, int]]:
    """Return the groups that are claimed as a whole, with the pools of the claims."""
    claim = models.Claim
    claims = sa.select(claim.volume_id, claim.pool_id).where(claim.verb == GROUP, claim.state.in_(pool_counters.LIVE))
    return {
        (row[0], row[1])
        for chunk in dialects.in_chunks(sorted(group_ids))
        for row in session.execute(claims.where(claim.volume_id.in_(chunk)))
    }


def _adopt(work: settlement.Settlement, volume: SeenVolume, pool_id: int, size: int, last: Mapping[int, int]) -> None:
    """Claim the ``size`` GiB that the claims of a volume lack."""
    if size <= 0:
        return
    backend_id = work.locked.backends[pool_id]
    adopted = ClaimRow(
        id=str(uuid.uuid4()),
        volume_id=volume.volume_id,
        backend_id=backend_id,
        pool_id=pool_id,
        verb=claim_verbs.CREATE,
        state=pool_counters.PENDING,
        size_gb=size,
        physical_gb=size if volume.physical else 0,
        target_size_gb=volume.size_gb,
        provisioning=(Provisioning.THICK if volume.physical else Provisioning.THIN).value,
    )
    work.claim_rows.insert(adopted)
    if volume.ended:
        work.confirm(adopted, _ending(work, adopted, last[backend_id], kept=True))


def _last_probes(session: orm.Session, backend_ids: Collection[int]) -> dict[int, int]:
    backend = models.Backend
    rows = session.execute(sa.select(backend.id, backend.last_probe).where(backend.id.in_(backend_ids)))
    return {row[0]: int(row[1]) for row in rows}


def _ending(
    work: settlement.Settlement, claim: ClaimRow, tick: int, *, kept: bool, clean: bool = False
) -> settlement.EndedOperation:
    return settlement.EndedOperation(
        claim_id=claim.id,
        ok=kept,
        epoch=work.locked.epochs[claim.backend_id],
        tick=tick,
        size_gb=claim.target_size_gb if kept else 0,
        clean=clean,
    )
