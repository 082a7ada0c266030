# SPDX-License-Identifier: Apache-2.0
"""Work that has not ended: the claims that wait for their agents, and the volumes that wait for a pool."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVolume:
    """The source of a clone or a migration, and its pool."""

    volume_id: str
    pool_name: str
    size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClaim:
    """A claim whose agent has not reported its end yet.

    ``source`` is the source of a migration or a clone. ``age`` is the number of seconds since the claim was made, by
    the database's clock.
    """

    id: str
    backend_id: int
    pool_id: int
    pool_name: str
    volume_id: str
    verb: str
    target_size_gb: int
    provisioning: str
    request_id: str
    source: SourceVolume | None = None
    reference: str | None = None
    age: float = 0.0


def load(
    session: orm.Session, *, backend_id: int | None = None, ids: Collection[str] | None = None
) -> list[PendingClaim]:
    """Return the claims that wait for their agent, oldest first: all, of one backend, or those with these ids."""
    claim = models.Claim
    statement = (
        sa.select(claim, models.Pool.name, models.utcnow())
        .join(models.Pool, models.Pool.id == claim.pool_id)
        .where(claim.state == pool_counters.PENDING)
    )
    if backend_id is not None:
        statement = statement.where(claim.backend_id == backend_id)
    statements = (
        [statement] if ids is None else [statement.where(claim.id.in_(chunk)) for chunk in dialects.in_chunks(ids)]
    )
    rows = [row for query in statements for row in session.execute(query)]
    rows.sort(key=lambda row: (row[0].created_at, row[0].id))
    sources = _sources(session, [row for row, _, _ in rows])
    return [
        PendingClaim(
            id=row.id,
            backend_id=row.backend_id,
            pool_id=row.pool_id,
            pool_name=pool_name,
            volume_id=row.volume_id,
            verb=row.verb,
            target_size_gb=row.target_size_gb,
            provisioning=row.provisioning,
            request_id=row.request_id,
            source=sources.get(row.id),
            reference=row.reference,
            age=models.age(now, row.created_at) or 0.0,
        )
        for row, pool_name, now in rows
    ]


def _sources(session: orm.Session, claims: Sequence[models.Claim]) -> dict[str, SourceVolume]:
    """Return the sources of claims by claim id: the old copy for a migration, the source volume for a clone."""
    volume, pool = models.Volume, models.Pool
    sources: dict[str, SourceVolume] = {}
    moves = {claim.id: claim for claim in claims if claim.source_pool_id is not None}
    if not moves:
        return sources
    names: dict[int, str] = {}
    for pool_ids in dialects.in_chunks({claim.source_pool_id for claim in moves.values()}):
        rows = session.execute(sa.select(pool.id, pool.name).where(pool.id.in_(pool_ids)))
        names.update((row[0], row[1]) for row in rows)
    original = orm.aliased(volume)
    clones = sa.select(volume.id, volume.source_volume_id, original.size_gb).outerjoin(
        original, original.id == volume.source_volume_id
    )
    sizes = sa.select(volume.id, volume.size_gb)
    cloned: dict[str, tuple[str | None, int | None]] = {}
    for ids in dialects.in_chunks({claim.volume_id for claim in moves.values() if claim.verb == claim_verbs.CREATE}):
        cloned.update((row[0], (row[1], row[2])) for row in session.execute(clones.where(volume.id.in_(ids))))
    moved_sizes: dict[str, int] = {}
    for ids in dialects.in_chunks({claim.volume_id for claim in moves.values() if claim.verb == claim_verbs.MIGRATE}):
        # A volume that moves to grow has its old size until the move has ended.
        moved_sizes.update((row[0], row[1]) for row in session.execute(sizes.where(volume.id.in_(ids))))
    for claim in moves.values():
        volume_id, size = cloned.get(claim.volume_id, (claim.volume_id, moved_sizes.get(claim.volume_id)))
        # The source volume may have been deleted or unmanaged meanwhile; the claim has the size that is to be copied.
        size = size or claim.physical_gb or claim.target_size_gb
        pool_name = names.get(claim.source_pool_id or 0, "a pool that is gone")
        sources[claim.id] = SourceVolume(volume_id=volume_id or claim.volume_id, pool_name=pool_name, size_gb=size)
    return sources


def unplaced_volumes(session: orm.Session) -> list[str]:
    """Return volumes that are being created and on no pool: their last attempt failed and the next has not begun."""
    volume = models.Volume
    return list(
        session.scalars(
            sa.select(volume.id)
            .where(volume.status == "creating", volume.pool_id.is_(None))
            .order_by(volume.created_at)
        )
    )
