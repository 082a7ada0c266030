# SPDX-License-Identifier: Apache-2.0
"""Reports taking effect: figures and limits written to the pools' rows, claims recognised as contained."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import counters
from tonnage.ledger import models


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """What a report says of one pool, as its row keeps it, in GiB; None is unknown, infinite or no limit.

    ``changes_decisions`` where something other than capacities is new, so that decisions that saw the old row must not
    take effect.
    """

    name: str
    total_gb: float | None
    free_gb: float | None
    provisioned_gb: float | None
    ratio: float
    thin_limit_gb: float | None
    physical_limit_gb: float | None
    changes_decisions: bool
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a report did: per pool name its id and generation, per pool id its counters where they may have changed."""

    pools: Mapping[str, tuple[int, int]]
    counters: Mapping[int, counters.Counters]


def apply(
    session: orm.Session,
    backend_id: int,
    epoch: int,
    seq: int,
    covers: int,
    figures: Sequence[PoolFigures],
    unheard: Collection[int],
    vanished: Collection[int],
) -> Applied | None:
    """Apply a report: ``figures`` of the pools that changed, ``vanished`` for pools no longer reported.

    Nothing is applied, and None returned, if the epoch is over or a newer report came first. Claims on the pools in
    ``unheard`` (those with bad figures) stay as they are.
    """
    backend, claim = models.Backend, models.Claim
    heard = session.execute(
        sa.update(backend)
        .where(
            backend.id == backend_id,
            backend.epoch == epoch,
            backend.report_seq < seq,
            backend.report_covers <= covers,
        )
        .values(report_seq=seq, report_covers=covers, last_report_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    if heard.rowcount != 1:  # type: ignore[attr-defined]
        return None
    pool = models.Pool
    known = {
        row[0]: (int(row[1]), int(row[2]))
        for row in session.execute(sa.select(pool.name, pool.id, pool.generation).where(pool.backend_id == backend_id))
    }
    missing = [figure for figure in figures if figure.name not in known]
    if missing:
        session.execute(
            sa.insert(pool),
            [{"backend_id": backend_id, "name": figure.name, "generation": 0, "stats": {}} for figure in missing],
        )
        names = [figure.name for figure in missing]
        for row in session.execute(sa.select(pool.name, pool.id, pool.generation).where(pool.name.in_(names))):
            known[row[0]] = (int(row[1]), int(row[2]))
    in_flight = set(
        session.scalars(
            sa.select(claim.pool_id).where(claim.backend_id == backend_id, claim.contained.is_(False)).distinct()
        )
    ) - set(unheard)
    written = {known[figure.name][0] for figure in figures}
    counters.lock_pools(session, sorted(written | in_flight | set(vanished)))
    result = {name: known[name] for name in known}
    for figure in figures:
        pool_id, generation = known[figure.name]
        if figure.changes_decisions:
            generation += 1
        result[figure.name] = (pool_id, generation)
        _write(session, pool_id, generation, epoch, covers, figure)
    # Pools whose figures are the same are not written, but for what they cover where a claim waits for that.
    waiting = sorted(in_flight - written)
    if waiting:
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(waiting))
            .values(covers_epoch=epoch, covers_tick=covers)
            .execution_options(synchronize_session=False)
        )
    if vanished:
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(vanished))
            .values(present=False, generation=pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    touched = sorted(written | in_flight)
    if in_flight:
        _contain(session, sorted(in_flight), epoch, covers)
        counters.recount_in_flight(session, sorted(in_flight))
    return Applied(result, counters.read(session, touched))


def _write(session: orm.Session, pool_id: int, generation: int, epoch: int, covers: int, figure: PoolFigures) -> None:
    session.execute(
        sa.update(models.Pool)
        .where(models.Pool.id == pool_id)
        .values(
            present=True,
            total_capacity_gb=figure.total_gb,
            free_capacity_gb=figure.free_gb,
            provisioned_capacity_gb=figure.provisioned_gb,
            ratio=figure.ratio,
            thin_limit_gb=figure.thin_limit_gb,
            physical_limit_gb=figure.physical_limit_gb,
            generation=generation,
            covers_epoch=epoch,
            covers_tick=covers,
            reported_at=models.utcnow(),
            stats=dict(figure.stats),
        )
        .execution_options(synchronize_session=False)
    )


def _contain(session: orm.Session, pool_ids: Sequence[int], epoch: int, covers: int) -> None:
    claim = models.Claim
    ended = sa.or_(
        claim.end_epoch < epoch,
        sa.and_(claim.end_epoch == epoch, claim.end_tick < covers),
    )
    session.execute(
        sa.delete(claim)
        .where(claim.pool_id.in_(pool_ids), claim.contained.is_(False), claim.state == counters.RELEASED, ended)
        .execution_options(synchronize_session=False)
    )
    session.execute(
        sa.update(claim)
        .where(claim.pool_id.in_(pool_ids), claim.contained.is_(False), ended)
        .values(contained=True)
        .execution_options(synchronize_session=False)
    )
