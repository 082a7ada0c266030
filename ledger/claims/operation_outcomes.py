# SPDX-License-Identifier: Apache-2.0
"""Outcomes of the agents' operations: their effects on volumes.

Their effects on claims and counters are in :mod:`tonnage.ledger.claims.settlement`.
"""

import math
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger import models
from tonnage.ledger.claims import settlement
from tonnage.ledger.claims.row_changes import ClaimRow, LockedRows, VolumeRow
from tonnage.ledger.claims.settlement import EndedOperation, Result, Settlement
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.locks import pool_counters, volume_usage
from tonnage.ledger.models import claim_verbs

#: States of a volume that is being migrated, retyped or extended by a migration.
MOVING = ("maintenance", "retyping", "extending")

#: The state of a volume during an operation, and while the outcome of that operation is unknown.
_UNKNOWN = {
    claim_verbs.CREATE: ("creating", "error"),
    claim_verbs.EXTEND: ("extending", "error_extending"),
    claim_verbs.DELETE: ("deleting", "error_deleting"),
}

#: A tick behind all others of an epoch.
_END_OF_EPOCH = 2**62

#: Longest stored text of the failures of pools, in characters: MariaDB's TEXT takes 65,535 bytes.
_MAX_REASON = 8000


def apply(session: orm.Session, endings: Sequence[EndedOperation], max_attempts: int) -> Result:
    """Apply the outcomes of operations. An outcome that was applied before, or whose claim is gone, changes nothing.

    An outcome of a past epoch changes nothing either: the agent's next process may have been told to run the operation
    again. After a failed create, the volume is placed again (its id is in ``unplaced``) until ``max_attempts`` pools
    have failed. An outcome that is still unknown ends no claim: only the volume shows it, and may be deleted.
    """
    by_id = {ending.claim_id: ending for ending in endings}
    work = settlement.begin(session, by_id, max_attempts)
    if work is None:
        return settlement.empty_result(session)
    for claim in work.claims.values():
        if by_id[claim.id].epoch != work.locked.epochs[claim.backend_id]:
            work.past.append(claim.id)
        elif claim.state == pool_counters.PENDING and by_id[claim.id].unknown:
            _show_unknown(work, claim, by_id[claim.id])
        elif claim.state == pool_counters.PENDING:
            work.ended.append(claim.id)
            _APPLY[claim.verb](work, claim, work.volumes.get(claim.volume_id), by_id[claim.id])
    return work.finish()


def abandon(session: orm.Session, claim_ids: Collection[str], max_attempts: int) -> Result:
    """Let requests whose agent stays away go on with other pools. This affects only creates and migrations.

    The claims stay counted, and their copies are purged when the agent is back.
    """
    work = settlement.begin(session, claim_ids, max_attempts)
    if work is None:
        return settlement.empty_result(session)
    for claim in work.claims.values():
        if claim.state == pool_counters.PENDING:
            _abandon(work, claim)
    return work.finish()


def interrupt(session: orm.Session, volume_ids: Collection[str], reason: str) -> None:
    """End all that is under way for volumes, as if each operation had stopped half-way, and order nothing.

    A volume stays in its pool, where it counts with its largest size, and its status and ``reason`` tell that its
    content is uncertain. Copies in other pools are released: if the storage has them, the next listings show orphans.
    Only a report of a later epoch contains these ends.
    """
    claim = models.Claim
    rows = session.execute(sa.select(claim.id, claim.pool_id, claim.verb).where(claim.volume_id.in_(volume_ids))).all()
    if any(row.verb == claim_verbs.MANAGE for row in rows):
        volume_usage.mark_owners_for_recount(session, volume_ids)
    work = settlement.lock(session, {row.pool_id for row in rows}, volume_ids, [row.id for row in rows], 0)
    for open_claim in work.claims.values():
        volume = work.volumes.get(open_claim.volume_id)
        ending = EndedOperation(
            claim_id=open_claim.id,
            ok=False,
            epoch=work.locked.epochs[open_claim.backend_id],
            tick=_END_OF_EPOCH,
            size_gb=open_claim.target_size_gb if open_claim.verb == claim_verbs.EXTEND else 0,
            message=reason,
        )
        if open_claim.state == pool_counters.PENDING:
            if open_claim.verb == claim_verbs.PURGE:
                work.claim_rows.delete(open_claim)
            elif open_claim.verb == claim_verbs.CREATE:
                work.confirm(open_claim, ending)
                if volume is not None and volume.status in _UNKNOWN[claim_verbs.CREATE]:
                    _fail(session, volume, "error", "create", reason)
            else:
                _APPLY[open_claim.verb](work, open_claim, volume, ending)
        in_place = volume is not None and volume.pool_id == open_claim.pool_id
        if open_claim.state in (pool_counters.CONFIRMED, pool_counters.ABANDONED) and not in_place:
            work.release(open_claim, ending)
    for volume in work.volumes.values():
        _fail_unplaced(session, volume, reason)
    work.finish()


def fail_volume(session: orm.Session, volume_id: str, reason: str) -> None:
    """Put a volume that cannot be made in error; its owner is told the failures of the pools, then ``reason``."""
    volume = session.get(models.Volume, volume_id, with_for_update=True)
    if volume is not None:
        _fail_unplaced(session, volume, reason)


def _fail_unplaced(session: orm.Session, volume: VolumeRow | models.Volume, reason: str) -> None:
    if volume.status != "creating" or volume.pool_id is not None:
        return
    if volume.status_reason is not None:
        reason = f"No pool could make the volume. {volume.status_reason}. {reason}"
    _fail(session, volume, "error", "create", reason)


def forget_volume(session: orm.Session, volumes: LockedRows[VolumeRow], volume: VolumeRow) -> None:
    """Remove the row of a volume that is on no pool. The keys of its requests are kept for some days."""
    _COUNT_KEYS.change(session.connection(), [{"of_volume": volume.id}])
    volumes.delete(volume)


_KEY = models.table(models.RequestKey).c
_COUNT_KEYS = Prepared(
    sa.update(models.table(models.RequestKey))
    .where(_KEY.volume_id == sa.bindparam("of_volume"), _KEY.refused.is_(False))
    .values(counted_from=models.utcnow())
)


def _fail(session: orm.Session, volume: VolumeRow | models.Volume, status: str, event: str, reason: str) -> None:
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


def _show_unknown(work: Settlement, claim: ClaimRow, ending: EndedOperation) -> None:
    """Put a volume in error, in its pool, while the outcome of its operation is unknown."""
    volume = work.volumes.get(claim.volume_id)
    states = _UNKNOWN.get(claim.verb)
    if volume is not None and states is not None and volume.status == states[0]:
        _fail(work.session, volume, states[1], claim.verb, ending.message)


def _abandon(work: Settlement, claim: ClaimRow) -> None:
    volume = work.volumes.get(claim.volume_id)
    pool = work.session.get_one(models.Pool, claim.pool_id)
    reason = f"{pool.name} stayed away"
    if volume is None:
        return
    if claim.verb == claim_verbs.CREATE and volume.status == "creating":
        _place_again(work, claim, volume, reason)
    elif claim.verb == claim_verbs.MIGRATE and _is_moving(claim, volume):
        _stay(work, claim, volume, reason)
    else:
        return
    claim.state = pool_counters.ABANDONED
    work.purge(claim, claim.pool_id)


def _created(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    # A volume that is being deleted meanwhile stays so.
    waits = volume if volume is not None and volume.status in _UNKNOWN[claim_verbs.CREATE] else None
    if ending.ok:
        work.confirm(claim, ending)
        if waits is not None:
            if waits.status == "error":
                waits.status_reason = None
            waits.status = "available"
        return
    if ending.size_gb > 0:
        # It has failed, but a copy exists. The claim stays counted and the volume stays in its pool, so that a delete
        # finds the copy. A create in another pool would make a second copy.
        work.confirm(claim, ending)
        if waits is not None:
            _fail(work.session, waits, "error", "create", f"{ending.message} (its copy is still on the storage)")
        return
    work.release(claim, ending)
    if waits is not None:
        if waits.status == "error":
            waits.status, waits.status_reason = "creating", None
        _place_again(work, claim, waits, ending.message)


def _extended(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    before = claim.target_size_gb - claim.size_gb
    reached = math.ceil(ending.size_gb - 1e-9)
    if ending.ok:
        work.confirm(claim, ending)
    elif reached > before:
        # It has failed, but the volume has grown: the claim shrinks to the real growth.
        grown = min(reached, claim.target_size_gb) - before
        claim.physical_gb = min(claim.physical_gb, grown)
        claim.size_gb = grown
        work.confirm(claim, ending)
    else:
        work.release(claim, ending)
    if volume is None:
        return
    volume.size_gb = max(volume.size_gb, claim.target_size_gb if ending.ok else min(reached, claim.target_size_gb))
    if volume.status not in _UNKNOWN[claim_verbs.EXTEND]:
        return  # it is being deleted
    if ending.ok:
        volume.status = "available"
        volume.status_reason = None
    else:
        _fail(work.session, volume, "available" if ending.clean else "error_extending", "extend", ending.message)


def _migrated(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    # If an operator has removed the source backend, this is the only copy of the volume.
    moving = volume is not None and (
        _is_moving(claim, volume) or (ending.ok and volume.status == "error" and volume.pool_id is None)
    )
    # After a clean failure, a copy at the target was not made by this operation and must not be purged without an
    # order.
    copy_exists = ending.ok or (ending.size_gb > 0 and not ending.clean)
    if copy_exists:
        work.confirm(claim, ending)
    else:
        # A copy from before the operation may not be in any report yet: it counts as in flight until it is.
        work.release(claim, replace(ending, clean=ending.clean and ending.size_gb == 0))
    if volume is None or not moving:
        if copy_exists:
            work.purge(claim, claim.pool_id)
        return
    if not ending.ok:
        if copy_exists:
            work.purge(claim, claim.pool_id)
        _stay(work, claim, volume, ending.message)
        return
    # The agent of the source backend still has the old copy; it is counted there until it is purged.
    if claim.source_pool_id is not None and claim.source_pool_id in work.locked.backends:
        work.purge(claim, claim.source_pool_id)
    pool = work.session.get_one(models.Pool, claim.pool_id)
    volume.pool_id = pool.id
    # The copy has the new size of a volume that moves to grow.
    volume.size_gb = claim.target_size_gb
    volume.provisioning = claim.provisioning
    volume.availability_zone = work.session.get_one(models.Backend, pool.backend_id).availability_zone
    # The new type may have been deleted since the retype began; the retype ends all the same.
    if claim.volume_type_id is not None and work.session.get(models.VolumeType, claim.volume_type_id) is not None:
        volume.volume_type_id = claim.volume_type_id
    volume.status = "available"
    volume.status_reason = None
    volume.migration_status = "success"


def _managed(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    if not ending.ok or not 0 <= ending.size_gb <= MAX_SIZE_GB:
        work.release(claim, ending)
        if volume is not None:
            volume.pool_id = None
            reason = f"{ending.size_gb:g} GiB is not the size of a volume" if ending.ok else ending.message
            if ending.size_gb > 0:
                # A second attempt has to use the new name.
                reason = f"{reason} (on the storage it is named {volume.id} now)"
            _fail(work.session, volume, "error_managing", "manage", reason)
        return
    size = math.ceil(ending.size_gb - 1e-9)
    claim.size_gb = claim.target_size_gb = size
    claim.state = pool_counters.CONFIRMED
    work.record_end(claim, ending)
    before = work.remove_external(claim)
    thick = claim.provisioning == Provisioning.THICK
    # The copy existed before the request, so the figures normally contain it. There are three exceptions: it appeared
    # after the last listing, its space has just been allocated, or it has grown to whole GiB. Then it counts twice
    # until the next report, rather than too little.
    claim.contained = not thick and before is not None and before >= size
    claim.contained_by_all = claim.contained or work.locked.storages[claim.pool_id] is None
    if not claim.contained:
        claim.physical_gb = size if thick else 0
    if volume is not None:
        volume.size_gb = size
        volume.status = "available"


def _deleted(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    work.claim_rows.delete(claim)
    if not ending.ok:
        if volume is not None:
            _fail(work.session, volume, "error_deleting", "delete", ending.message)
        return
    work.release_copy(claim, ending)
    if volume is not None:
        forget_volume(work.session, work.volume_rows, volume)


def _purged(work: Settlement, claim: ClaimRow, volume: VolumeRow | None, ending: EndedOperation) -> None:
    work.claim_rows.delete(claim)
    if ending.ok:
        work.release_copy(claim, ending)
    else:
        # No request waits for a purge, but the copy has to go: a new claim orders it again, since an agent answers a
        # claim that it has run from its record.
        work.claim_rows.insert(settlement.purge(claim, claim.pool_id, claim.backend_id))


def _place_again(work: Settlement, claim: ClaimRow, volume: VolumeRow, message: str) -> None:
    pool = work.session.get_one(models.Pool, claim.pool_id)
    volume.attempted_pools = [*volume.attempted_pools, pool.name]
    volume.pool_id = None
    volume.provisioning = None
    entry = message if pool.name in message else f"{pool.name}: {message}"
    reason = entry if volume.status_reason is None else f"{volume.status_reason}; {entry}"
    volume.status_reason = reason[:_MAX_REASON]
    if len(volume.attempted_pools) < work.max_attempts:
        work.unplaced.append(volume.id)
    else:
        _fail(work.session, volume, "error", "create", f"No pool could make the volume. {volume.status_reason}")


def _stay(work: Settlement, claim: ClaimRow, volume: VolumeRow, message: str) -> None:
    """Leave a volume whose migration, retype or extension by a migration failed in its pool, at its size."""
    event = "migrate" if claim.volume_type_id is None else "retype"
    if _moves_to_grow(claim, volume):
        event = "extend"
    _fail(work.session, volume, "available", event, message)
    volume.migration_status = "error"


def _moves_to_grow(claim: ClaimRow, volume: VolumeRow) -> bool:
    return claim.target_size_gb > volume.size_gb


def _is_moving(claim: ClaimRow, volume: VolumeRow) -> bool:
    """Return whether a volume is in the state of its migration by a claim."""
    return (volume.status == "extending") == _moves_to_grow(claim, volume) and volume.status in MOVING


_APPLY: dict[str, Callable[[Settlement, ClaimRow, VolumeRow | None, EndedOperation], None]] = {
    claim_verbs.CREATE: _created,
    claim_verbs.EXTEND: _extended,
    claim_verbs.MIGRATE: _migrated,
    claim_verbs.MANAGE: _managed,
    claim_verbs.DELETE: _deleted,
    claim_verbs.PURGE: _purged,
}
