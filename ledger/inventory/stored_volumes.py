# SPDX-License-Identifier: Apache-2.0
"""The storage of a backend as the ledger knows it: its marks, and the volumes that it has to have."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.pools.pool import short_name
from tonnage.ledger import models
from tonnage.ledger.inventory.listings import Listed
from tonnage.ledger.locks import pool_counters

#: Longest name of a pool and longest mark, in characters.
_MAX_LENGTH = 255


def marks(session: orm.Session, backend: str) -> dict[str, str]:
    """Return the marks that the storage of a backend ``host@backend`` had when it joined last, by pool name."""
    table = models.StorageMark
    query = sa.select(table.pool, table.mark).join(models.Backend, models.Backend.id == table.backend_id)
    return dict(session.execute(query.where(models.Backend.name == backend)).all())


def record_marks(session: orm.Session, backend_id: int, storage_marks: Mapping[str, str]) -> None:
    """Record the marks of the storage of a backend that joins, by pool name; marks of its other pools stay.

    A name or a mark that no pool can have is left out.
    """
    table = models.StorageMark
    rows = {row.pool: row for row in session.scalars(sa.select(table).where(table.backend_id == backend_id))}
    for pool, mark in storage_marks.items():
        if not (pool + mark).isprintable() or max(len(pool), len(mark)) > _MAX_LENGTH:
            continue
        if pool not in rows:
            session.add(table(backend_id=backend_id, pool=pool, mark=mark))
        elif rows[pool].mark != mark:
            rows[pool].mark = mark
    session.flush()


def counted(session: orm.Session, backend: str, pools: Collection[str]) -> dict[str, int]:
    """Return the number of volumes with live claims in each of these pools that has any.

    ``backend`` is ``host@backend``; ``pools`` and the keys of the result are names within it.
    """
    if not pools:
        return {}
    claim, pool, names = models.Claim, models.Pool, frozenset(pools)
    rows = session.execute(
        sa.select(pool.name, sa.func.count(claim.volume_id.distinct()))
        .join(claim, claim.pool_id == pool.id)
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(models.Backend.name == backend, claim.state.in_(pool_counters.LIVE))
        .group_by(pool.name)
    )
    return {short_name(name): int(count) for name, count in rows if short_name(name) in names}


def unlisted(session: orm.Session, backend: str, pools: Collection[str], volumes: Collection[Listed]) -> dict[str, int]:
    """Return the number of settled volumes in each of these pools that has some and of which the listing shows none.

    A volume with an operation that has not ended is not settled: it may not exist yet, or not any more. The arguments
    are as in :func:`counted`.
    """
    if not pools:
        return {}
    claim, pool, names = models.Claim, models.Pool, frozenset(pools)
    rows = session.execute(
        sa.select(pool.name, claim.volume_id)
        .join(claim, claim.pool_id == pool.id)
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(models.Backend.name == backend)
        .group_by(pool.name, claim.volume_id)
        .having(sa.func.count(sa.case((claim.state != pool_counters.CONFIRMED, claim.id))) == 0)
    )
    settled: dict[str, set[str]] = {}
    for name, volume_id in rows:
        if short_name(name) in names:
            settled.setdefault(short_name(name), set()).add(volume_id)
    for volume in volumes:
        if volume.volume_id in settled.get(volume.pool, ()):
            del settled[volume.pool]
    return {name: len(volume_ids) for name, volume_ids in settled.items()}
