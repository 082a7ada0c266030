# SPDX-License-Identifier: Apache-2.0
"""Work that has not ended: the claims that wait for their agents, and the volumes that wait for a pool."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.prepared_statements import Prepared
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


_CLAIM, _POOL, _VOLUME = (models.table(model).c for model in (models.Claim, models.Pool, models.Volume))
_PENDING = (
    sa.select(
        *(_CLAIM.id, _CLAIM.backend_id, _CLAIM.pool_id, _CLAIM.volume_id, _CLAIM.verb, _CLAIM.target_size_gb),
        *(_CLAIM.physical_gb, _CLAIM.provisioning, _CLAIM.request_id, _CLAIM.source_pool_id, _CLAIM.reference),
        *(_CLAIM.created_at, _POOL.name.label("pool_name"), models.utcnow().label("now")),
    )
    .join_from(models.table(models.Claim), models.table(models.Pool), _POOL.id == _CLAIM.pool_id)
    .where(_CLAIM.state == pool_counters.PENDING)
)
_ALL = Prepared(_PENDING)
_OF_BACKEND = Prepared(_PENDING.where(_CLAIM.backend_id == sa.bindparam("on")))
_OF_IDS = Prepared(_PENDING.where(_CLAIM.id.in_(sa.bindparam("ids", expanding=True))))
_UNPLACED = Prepared(
    sa.select(_VOLUME.id).where(_VOLUME.status == "creating", _VOLUME.pool_id.is_(None)).order_by(_VOLUME.created_at)
)


def load(
    session: orm.Session, *, backend_id: int | None = None, ids: Collection[str] | None = None
) -> list[PendingClaim]:
    """Return the claims that wait for their agent, oldest first: all, of one backend, or those with these ids."""
    connection = session.connection()
    if ids is not None:
        rows = [row for chunk in dialects.in_chunks(ids) for row in _OF_IDS.rows(connection, {"ids": chunk})]
    elif backend_id is not None:
        rows = _OF_BACKEND.rows(connection, {"on": backend_id})
    else:
        rows = _ALL.rows(connection, {})
    rows.sort(key=lambda row: (row.created_at, row.id))
    sources = _sources(session, rows)
    return [
        PendingClaim(
            id=row.id,
            backend_id=row.backend_id,
            pool_id=row.pool_id,
            pool_name=row.pool_name,
            volume_id=row.volume_id,
            verb=row.verb,
            target_size_gb=row.target_size_gb,
            provisioning=row.provisioning,
            request_id=row.request_id,
            source=sources.get(row.id),
            reference=row.reference,
            age=models.age(row.now, row.created_at) or 0.0,
        )
        for row in rows
    ]


def _sources(session: orm.Session, claims: Sequence[Any]) -> dict[str, SourceVolume]:
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
    return [row.id for row in _UNPLACED.rows(session.connection(), {})]
