# SPDX-License-Identifier: Apache-2.0
"""The storage of a backend as the ledger knows it: its marks, and the volumes that it has to have."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.pools.pool import short_name
from tonnage.ledger import models
from tonnage.ledger.db import dialects
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
    claim, pool = models.Claim, models.Pool
    counts: dict[str, int] = {}
    for names in dialects.in_chunks(_full_names(backend, pools)):
        rows = session.execute(
            sa.select(pool.name, sa.func.count(claim.volume_id.distinct()))
            .join(claim, claim.pool_id == pool.id)
            .where(pool.name.in_(names), claim.state.in_(pool_counters.LIVE))
            .group_by(pool.name)
        )
        counts.update((short_name(name), int(count)) for name, count in rows)
    return counts


def unlisted(session: orm.Session, backend: str, pools: Collection[str], volumes: Collection[Listed]) -> dict[str, int]:
    """Return the number of settled volumes in each of these pools that has some and of which the listing shows none.

    A volume with an operation that has not ended is not settled: it may not exist yet, or not any more. The arguments
    are as in :func:`counted`.
    """
    claim, pool = models.Claim, models.Pool
    settled: dict[str, set[str]] = {}
    for names in dialects.in_chunks(_full_names(backend, pools)):
        rows = session.execute(
            sa.select(pool.name, claim.volume_id)
            .join(claim, claim.pool_id == pool.id)
            .where(pool.name.in_(names))
            .group_by(pool.name, claim.volume_id)
            .having(sa.func.count(sa.case((claim.state != pool_counters.CONFIRMED, claim.id))) == 0)
        )
        for name, volume_id in rows:
            settled.setdefault(short_name(name), set()).add(volume_id)
    for volume in volumes:
        if volume.volume_id in settled.get(volume.pool, ()):
            del settled[volume.pool]
    return {name: len(volume_ids) for name, volume_ids in settled.items()}


def _full_names(backend: str, pools: Collection[str]) -> list[str]:
    """Return the full names of pools; a name that no report could have would be an error of the database."""
    return [f"{backend}#{name}" for name in pools if name.isprintable()]
