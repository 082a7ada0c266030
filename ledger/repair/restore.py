# SPDX-License-Identifier: Apache-2.0
"""Precaution after an older ledger was restored: its pending purges may name the only copies of volumes."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.claims import bookings, pool_counters


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledPurge:
    """A purge of a copy of a volume that is not carried out. ``pool`` is its pool ``host@backend#pool``."""

    pool: str
    volume_id: str


def cancel_purges(session: orm.Session) -> list[CancelledPurge]:
    """Delete the pending purges of copies that have the ids of volumes, and return them.

    In the time that the restored state lacks, such a copy may have become the volume again. The copy remains as an
    orphan. A purge of an orphan that is no volume stays pending.
    """
    claim, pool, volume = models.Claim, models.Pool, models.Volume
    rows = session.execute(
        sa.select(claim.id, claim.volume_id, claim.pool_id, pool.name)
        .join(pool, pool.id == claim.pool_id)
        .join(volume, volume.id == claim.volume_id)
        .where(claim.verb == bookings.PURGE, claim.state == pool_counters.PENDING)
        .order_by(pool.name, claim.volume_id)
    ).all()
    pool_counters.lock(session, {row.pool_id for row in rows})
    session.execute(
        sa.delete(claim)
        .where(claim.id.in_([row.id for row in rows]), claim.state == pool_counters.PENDING)
        .execution_options(synchronize_session=False)
    )
    return [CancelledPurge(pool=row.name, volume_id=row.volume_id) for row in rows]
