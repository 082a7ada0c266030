# SPDX-License-Identifier: Apache-2.0
"""Repair of drift: the claims are right, and the counters are made to agree with them.

The only claims that a repair changes are those of volumes that the listings show in another pool or with a larger size,
and of leaked copies.

Each backend is repaired in transactions of a few pools, under the locks that bookings take, so schedulers may go on;
the drift is searched again under those locks. Pools that were changed get a new generation: decisions that read the old
counters do not take effect, and schedulers read the rows again.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db.database import Database, StaleRead
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters, pool_locks, volume_usage
from tonnage.ledger.models import claim_verbs
from tonnage.ledger.repair import claim_check, consistency_check, counter_check

LOG = logging.getLogger(__name__)

#: Number of pools that one transaction locks.
_POOLS_PER_TRANSACTION = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One corrected value, of a pool, a backend or, with the volume as ``subject``, of a volume or its claim."""

    cause: consistency_check.Cause
    where: str
    subject: str
    before_gb: float
    after_gb: float


@dataclass(frozen=True, slots=True)
class Repaired:
    """The changes of a repair, and the findings of a check afterwards."""

    changes: Sequence[Change]
    final_check: consistency_check.Checked


def plan(database: Database) -> Repaired:
    """Return the changes that a repair would make now, and the findings that it would leave."""
    checked = consistency_check.check(database)
    changes = [
        Change(
            cause=finding.cause,
            where=finding.where,
            subject=finding.subject,
            before_gb=finding.ledger_gb,
            after_gb=finding.found_gb,
        )
        for finding in checked.findings
        if finding.mended
    ]
    remaining = [finding for finding in checked.findings if not finding.mended]
    return Repaired(
        changes, consistency_check.Checked(pools=checked.pools, findings=remaining, backends=checked.backends)
    )


def repair(database: Database) -> Repaired:
    """Correct all drift that can be corrected without giving up capacity or data; a second run changes nothing.

    A repair never touches facts that only the storage can tell: lost volumes, orphans, pending operations.
    """
    mended = [finding for finding in consistency_check.check(database).findings if finding.mended]
    changes: list[Change] = []
    for finding in mended:
        adopt = _ADOPTIONS.get(finding.cause)
        if adopt is not None:
            changes += _logged(database.run(adopt, finding.subject))
    value_findings = [finding for finding in mended if finding.cause not in _ADOPTIONS]
    if value_findings:
        names = {finding.where for finding in value_findings}
        volumes = {
            finding.subject for finding in value_findings if finding.cause is consistency_check.Cause.VOLUME_SIZE
        }
        with database.reading() as session:
            by_backend = _pools(session, names)
        for backend_id, pool_ids in by_backend.items():
            for start in range(0, max(1, len(pool_ids)), _POOLS_PER_TRANSACTION):
                chunk = pool_ids[start : start + _POOLS_PER_TRANSACTION]
                changes += _logged(database.run(_mend, backend_id, chunk, volumes))
    return Repaired(changes, consistency_check.check(database))


def _logged(changes: Sequence[Change]) -> Sequence[Change]:
    for change in changes:
        LOG.warning(
            "Ledger repair: %s %s: %g -> %g (%s)",
            change.where,
            change.subject,
            change.before_gb,
            change.after_gb,
            change.cause,
        )
    return changes


def _pools(session: orm.Session, names: Collection[str]) -> dict[int, list[int]]:
    """Return the ids of the named pools by backend; a backend that is named itself is included, even without pools."""
    pool, backend = models.Pool, models.Backend
    by_backend: dict[int, list[int]] = {}
    rows = session.execute(
        sa.select(backend.id, backend.name, pool.id, pool.name)
        .outerjoin(pool, pool.backend_id == backend.id)
        .order_by(backend.id, pool.id)
    )
    for backend_id, backend_name, pool_id, pool_name in rows:
        if backend_name in names or pool_name in names:
            by_backend.setdefault(backend_id, [])
        if pool_name in names:
            by_backend[backend_id].append(pool_id)
    return by_backend


def _mend(session: orm.Session, backend_id: int, pool_ids: Sequence[int], volume_ids: Collection[str]) -> list[Change]:
    backend = models.Backend
    if volume_ids:
        volume_usage.mark_owners_for_recount(session, volume_ids)
    session.execute(sa.select(backend.id).where(backend.id == backend_id).with_for_update()).all()
    locked = pool_locks.lock(session, pool_ids)
    names = _names(session, locked)
    changes = _drop_leaks(session, pool_ids, names)
    changes += _resize(session, volume_ids, set(pool_ids), names)
    changes += _recount(session, locked, pool_ids, names)
    return changes + _mend_backend(session, backend_id)


def _adopt(session: orm.Session, volume_id: str) -> list[Change]:
    """Move a volume and its claims, in the ledger, to the pool in which the last listings show it.

    The reports of that pool contain it already.
    """
    claim, pool, table, volume = models.Claim, models.Pool, models.Discrepancy, models.Volume
    misplaced = next(claim_check.misplaced(session, volume_id), None)
    if misplaced is None or misplaced.target_id is None:
        return []
    locked = pool_locks.lock(session, [misplaced.pool_id, misplaced.target_id])
    row = session.get(volume, volume_id, with_for_update=True)
    if row is None or list(claim_check.misplaced(session, volume_id)) != [misplaced]:
        raise StaleRead(f"volume {volume_id} has changed")
    session.execute(
        sa.update(claim)
        .where(claim.volume_id == volume_id, claim.pool_id == misplaced.pool_id, claim.state == pool_counters.CONFIRMED)
        .values(
            pool_id=misplaced.target_id,
            backend_id=locked.backends[misplaced.target_id],
            contained=True,
            contained_by_all=True,
            end_epoch=None,
            end_tick=None,
        )
        .execution_options(synchronize_session=False)
    )
    target = session.get_one(pool, misplaced.target_id)
    row.pool_id = target.id
    row.availability_zone = session.get_one(models.Backend, target.backend_id).availability_zone
    session.execute(
        sa.delete(table)
        .where(table.volume_id == volume_id, table.pool_id.in_((misplaced.pool_id, target.id)))
        .execution_options(synchronize_session=False)
    )
    session.flush()
    names = _names(session, locked)
    changes = [
        Change(
            cause=consistency_check.Cause.MISPLACED,
            where=names[target.id],
            subject=volume_id,
            before_gb=0,
            after_gb=misplaced.size_gb,
        ),
        *_recount(session, locked, [misplaced.pool_id, target.id], names),
    ]
    for backend_id in sorted({locked.backends[misplaced.pool_id], locked.backends[target.id]}):
        changes += _mend_backend(session, backend_id)
    return changes


def _adopt_size(session: orm.Session, volume_id: str) -> list[Change]:
    """Let the claims of a volume count the size that the last listing shows, and which the figures contain already.

    An extend whose outcome got lost, or somebody else, has made the volume larger.
    """
    claim, table, volume = models.Claim, models.Discrepancy, models.Volume
    grown = next(claim_check.grown(session, volume_id), None)
    if grown is None:
        return []
    volume_usage.mark_owners_for_recount(session, [volume_id])
    locked = pool_locks.lock(session, [grown.pool_id])
    row = session.get(volume, volume_id, with_for_update=True)
    if row is None or list(claim_check.grown(session, volume_id)) != [grown]:
        raise StaleRead(f"volume {volume_id} has changed")
    session.add(
        claim(
            id=str(uuid.uuid4()),
            request_id="",
            volume_id=volume_id,
            backend_id=locked.backends[grown.pool_id],
            pool_id=grown.pool_id,
            verb=claim_verbs.EXTEND,
            state=pool_counters.CONFIRMED,
            size_gb=grown.listed_gb - grown.claimed_gb,
            physical_gb=0,
            target_size_gb=grown.listed_gb,
            provisioning=row.provisioning,
            contained=True,
        )
    )
    row.size_gb = grown.listed_gb
    session.execute(
        sa.delete(table)
        .where(table.volume_id == volume_id, table.pool_id == grown.pool_id)
        .execution_options(synchronize_session=False)
    )
    session.flush()
    names = _names(session, locked)
    change = Change(
        cause=consistency_check.Cause.SIZE,
        where=names[grown.pool_id],
        subject=volume_id,
        before_gb=grown.claimed_gb,
        after_gb=grown.listed_gb,
    )
    counters = _recount(session, locked, [grown.pool_id], names)
    return [change, *counters, *_mend_backend(session, locked.backends[grown.pool_id])]


#: Repairs of single volumes, by the cause of the finding.
_ADOPTIONS: Mapping[consistency_check.Cause, Callable[[orm.Session, str], list[Change]]] = {
    consistency_check.Cause.MISPLACED: _adopt,
    consistency_check.Cause.SIZE: _adopt_size,
}


def _names(session: orm.Session, locked: pool_locks.LockedPools) -> dict[int, str]:
    """Return the names of the locked pools by their ids."""
    pool = models.Pool
    rows = session.execute(sa.select(pool.id, pool.name).where(pool.id.in_(locked.backends.keys())))
    return {row[0]: row[1] for row in rows}


def _recount(
    session: orm.Session, locked: pool_locks.LockedPools, pool_ids: Sequence[int], names: dict[int, str]
) -> list[Change]:
    """Make the counters of locked pools agree with their claims."""
    pool = models.Pool
    changes: list[Change] = []
    before = _counters(session, locked.backends.keys())
    for pool_id, size in counter_check.allocated(session, pool_ids).items():
        if before[pool_id][counter_check.ALLOCATED] != size:
            session.execute(
                sa.update(pool)
                .where(pool.id == pool_id)
                .values(allocated_capacity_gb=size)
                .execution_options(synchronize_session=False)
            )
    pool_counters.recount_in_flight(session, pool_ids)
    pool_counters.recount_shared(session, locked.shared)
    not_shared = [pool_id for pool_id in pool_ids if locked.storages[pool_id] is None]
    session.execute(
        sa.update(pool)
        .where(pool.id.in_(not_shared))
        .values(**counter_check.NOTHING_SHARED)
        .execution_options(synchronize_session=False)
    )
    after = _counters(session, locked.backends.keys())
    changed = sorted(pool_id for pool_id in before if before[pool_id] != after[pool_id])
    for pool_id in changed:
        for column, value in after[pool_id].items():
            if value != before[pool_id][column]:
                cause = (
                    consistency_check.Cause.SHARED_COUNTER
                    if column in counter_check.SHARED
                    else consistency_check.Cause.COUNTER
                )
                changes.append(_counter_change(cause, names[pool_id], column, before[pool_id][column], value))
    if changed:
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(changed))
            .values(generation=pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    return changes


def _mend_backend(session: orm.Session, backend_id: int) -> list[Change]:
    """Correct the counter of a backend.

    Each transaction that changes the allocated capacity of a pool locks its backend first, so the sum is consistent.
    """
    pool, backend = models.Pool, models.Backend
    row = session.execute(
        sa.select(backend.name, backend.allocated_capacity_gb).where(backend.id == backend_id)
    ).one_or_none()
    total = session.scalar(
        sa.select(sa.func.coalesce(sa.func.sum(pool.allocated_capacity_gb), 0)).where(pool.backend_id == backend_id)
    )
    if row is None or int(total or 0) == row.allocated_capacity_gb:
        return []
    session.execute(
        sa.update(backend)
        .where(backend.id == backend_id)
        .values(allocated_capacity_gb=int(total or 0))
        .execution_options(synchronize_session=False)
    )
    return [
        _counter_change(
            consistency_check.Cause.BACKEND_COUNTER,
            row.name,
            counter_check.ALLOCATED,
            row.allocated_capacity_gb,
            int(total or 0),
        )
    ]


def _drop_leaks(session: orm.Session, pool_ids: Collection[int], names: dict[int, str]) -> list[Change]:
    """Delete leaked claims whose copies the storage does not have."""
    claim, table = models.Claim, models.Discrepancy
    changes = []
    for leak in list(claim_check.leaks(session, pool_ids)):
        lost = session.scalar(
            sa.select(table.id).where(
                table.pool_id == leak.pool_id, table.volume_id == leak.volume_id, table.category == listings.LOST
            )
        )
        if lost is None or leak.state != pool_counters.CONFIRMED:
            continue
        session.execute(sa.delete(claim).where(claim.id == leak.claim_id).execution_options(synchronize_session=False))
        changes.append(
            Change(
                cause=consistency_check.Cause.LEAKED,
                where=names[leak.pool_id],
                subject=leak.volume_id,
                before_gb=leak.size_gb,
                after_gb=0,
            )
        )
    return changes


def _resize(
    session: orm.Session, volume_ids: Collection[str], pool_ids: Collection[int], names: dict[int, str]
) -> list[Change]:
    """Set the sizes of volumes to the sums of their claims, unless the last listing contradicts these."""
    volume, table = models.Volume, models.Discrepancy
    session.execute(
        sa.select(volume.id)
        .where(volume.id.in_(volume_ids), volume.pool_id.in_(pool_ids))
        .order_by(volume.id)
        .with_for_update()
    ).all()
    changes = []
    for row in list(claim_check.odd_volumes(session, volume_ids)):
        if row.pool_id not in pool_ids or not (row.counted and row.settled) or row.claimed_gb == row.size_gb:
            continue
        contradiction = sa.select(table.id).where(table.pool_id == row.pool_id, table.volume_id == row.id)
        if session.scalar(contradiction) is not None:
            continue
        session.execute(
            sa.update(volume)
            .where(volume.id == row.id)
            .values(size_gb=row.claimed_gb)
            .execution_options(synchronize_session=False)
        )
        changes.append(
            Change(
                cause=consistency_check.Cause.VOLUME_SIZE,
                where=names[row.pool_id or 0],
                subject=row.id,
                before_gb=row.size_gb,
                after_gb=row.claimed_gb,
            )
        )
    return changes


def _counters(session: orm.Session, pool_ids: Collection[int]) -> dict[int, dict[str, int]]:
    pool = models.Pool
    columns = (
        counter_check.ALLOCATED,
        counter_check.IN_FLIGHT,
        counter_check.IN_FLIGHT_PHYSICAL,
        *counter_check.SHARED,
    )
    rows = session.execute(
        sa.select(pool.id, *(getattr(pool, column) for column in columns)).where(pool.id.in_(pool_ids))
    )
    return {row[0]: dict(zip(columns, map(int, row[1:]), strict=True)) for row in rows}


def _counter_change(cause: consistency_check.Cause, where: str, column: str, before: int, after: int) -> Change:
    return Change(cause=cause, where=where, subject=column, before_gb=before, after_gb=after)
