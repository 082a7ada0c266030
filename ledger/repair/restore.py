# SPDX-License-Identifier: Apache-2.0
"""Precaution after an older ledger was restored: no operation that was under way at the backup continues.

The storage went on after the backup. An operation that the restored ledger takes for pending has ended, perhaps in
another pool, and the copy that it made may be the only copy of a volume in use. So each operation ends here, without a
command to an agent, and the next listings show which copies there are.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, pending_claims
from tonnage.ledger.locks import heartbeats, pool_counters

_REASON = (
    "the ledger was restored from a backup that was made during an operation on this volume; how that ended is not "
    "known"
)
_DRAINED = "the ledger was restored from a backup; the backend was draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Work that does not continue: an operation on a volume in a pool ``host@backend#pool``, or a drain of a backend.

    ``operation`` is the verb of a claim, ``copy`` for a copy in another pool than the volume, ``retry`` for a volume
    without a pool, or ``drain``. ``volume_id`` is empty for a drain, ``target`` for a retry.
    """

    target: str
    volume_id: str
    operation: str


def interrupt(ledger: Database, down_time: float) -> list[Interrupted]:
    """End all operations, retries and drains that are under way in a restored ledger, and return them.

    A second call finds nothing. Raises :class:`~tonnage.capacity.errors.Conflict` while a scheduler is up; a silent one
    counts as down after ``down_time`` seconds.
    """
    with ledger.reading() as session:
        heartbeats.require_no_scheduler(session, down_time)
        interrupted = _under_way(session)
    for chunk in dialects.in_chunks(sorted({work.volume_id for work in interrupted})):
        ledger.run(operation_outcomes.interrupt, chunk, _REASON)
    return interrupted + ledger.run(_stop_drains)


def _under_way(session: orm.Session) -> list[Interrupted]:
    claim, pool, volume = models.Claim, models.Pool, models.Volume
    pending = claim.state == pool_counters.PENDING
    misplaced = sa.or_(volume.pool_id.is_(None), volume.pool_id != claim.pool_id)
    copy = sa.and_(claim.state.in_(pool_counters.LIVE), misplaced)
    claims = session.execute(
        sa.select(pool.name, claim.volume_id, sa.case((pending, claim.verb), else_="copy"))
        .join(pool, pool.id == claim.pool_id)
        .outerjoin(volume, volume.id == claim.volume_id)
        .where(sa.or_(pending, copy))
        .order_by(pool.name, claim.volume_id, claim.id)
    )
    operations = [Interrupted(target=row[0], volume_id=row[1], operation=row[2]) for row in claims]
    retries = pending_claims.unplaced_volumes(session)
    return operations + [Interrupted(target="", volume_id=volume_id, operation="retry") for volume_id in retries]


def _stop_drains(session: orm.Session) -> list[Interrupted]:
    """Disable the backends that are draining: a drain moves volumes before the listings have shown where they are."""
    backend = models.Backend
    names = session.scalars(sa.select(backend.name).where(backend.draining.is_(True)).order_by(backend.id)).all()
    for name in names:
        backends.set_state(session, name, enabled=False, draining=False, reason=_DRAINED)
    return [Interrupted(target=name, volume_id="", operation="drain") for name in names]
