# SPDX-License-Identifier: Apache-2.0
"""Reports taking effect: figures and limits written to the pools' rows, claims recognised as contained."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import counters
from tonnage.ledger import models


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """What a report says of one pool, as its row keeps it, in GiB; None is unknown, infinite or no limit.

    ``id`` is that of the pool's row, None for a pool that is new. ``changes_decisions`` where something other than
    capacities is new, so that decisions that saw the old row must not take effect.
    """

    id: int | None
    name: str
    total_gb: float | None
    free_gb: float | None
    provisioned_gb: float | None
    ratio: float
    thin_limit_gb: float | None
    physical_limit_gb: float | None
    storage_id: str | None
    storage_free_gb: float | None
    changes_decisions: bool
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report of one backend: ``figures`` of the pools that changed, ``vanished`` for pools no longer reported.

    Claims on the pools in ``unheard`` (those with bad figures) stay as they are. ``stamps`` are those of the storages,
    taken before the look. ``storages`` are all that the backend's pools draw on.
    """

    backend_id: int
    epoch: int
    seq: int
    covers: int
    figures: Sequence[PoolFigures]
    unheard: Collection[int] = ()
    vanished: Collection[int] = ()
    stamps: Mapping[str, int] = field(default_factory=dict)
    storages: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """What a report did: ids, by name, of the pools that were written, and generations and counters of pools by id
    where they may have changed.
    """

    ids: Mapping[str, int]
    generations: Mapping[int, int]
    counters: Mapping[int, counters.Counters]


def apply(session: orm.Session, reports: Sequence[Report]) -> list[Applied | None]:
    """Apply reports of different backends.

    Of one whose epoch is over, or after which a newer one came first, nothing is applied, and None stands for it.
    """
    order = sorted(range(len(reports)), key=lambda number: reports[number].backend_id)
    heard = [number for number in order if _hear(session, reports[number])]
    results: list[Applied | None] = [None] * len(reports)
    for number in heard:
        results[number] = _apply(session, reports[number])
    return results


def _hear(session: orm.Session, report: Report) -> bool:
    """Note the report with its backend; tell whether it counts."""
    backend = models.Backend
    heard = session.execute(
        sa.update(backend)
        .where(
            backend.id == report.backend_id,
            backend.epoch == report.epoch,
            backend.report_seq < report.seq,
            backend.report_covers <= report.covers,
        )
        .values(report_seq=report.seq, report_covers=report.covers, last_report_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    return heard.rowcount == 1  # type: ignore[attr-defined,no-any-return]


def _apply(session: orm.Session, report: Report) -> Applied:
    pool, claim = models.Pool, models.Claim
    ids = {figure.name: figure.id for figure in report.figures if figure.id is not None}
    ids.update(_insert(session, report))
    waiting = set(
        session.scalars(
            sa.select(claim.pool_id).where(claim.backend_id == report.backend_id, claim.contained.is_(False)).distinct()
        )
    ) - set(report.unheard)
    written = set(ids.values())
    heard = waiting - written
    storages = set(report.storages) | {figure.storage_id for figure in report.figures if figure.storage_id is not None}
    if storages:
        # What is in flight in one pool counts for all on its storage, so all of them have to know what is covered.
        _make_storages(session, storages)
        of_storages = sa.select(pool.id).where(pool.backend_id == report.backend_id, pool.storage_id.in_(storages))
        heard |= set(session.scalars(of_storages)) - written - set(report.unheard)
    if waiting or storages or report.vanished:
        storages |= counters.lock(session, written | heard | set(report.vanished)).shared()
    for figure in sorted(report.figures, key=lambda figure: ids[figure.name]):
        _write(session, ids[figure.name], report, figure)
    # Pools whose figures are the same are not written, but for what they cover where a claim waits for that.
    for storage_id in [None, *sorted(storages)]:
        _cover(session, report, heard, storage_id)
    if report.vanished:
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(report.vanished))
            .values(present=False, generation=pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    if waiting:
        _contain(session, waiting, report.epoch, report.covers)
        counters.recount_in_flight(session, waiting)
    others = counters.recount_shared(session, storages)
    return _result(session, ids, written | waiting | others)


def marks(session: orm.Session, backend_id: int) -> Applied:
    """Return what the last report of a backend did, for a scheduler that has its figures from the report itself."""
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.name, pool.id, pool.generation, *counters.COLUMNS).where(pool.backend_id == backend_id)
    ).all()
    return Applied(
        {row[0]: int(row[1]) for row in rows},
        {row[1]: int(row[2]) for row in rows},
        {row[1]: counters.of_row(row[3:]) for row in rows},
    )


def stamp(session: orm.Session, storage_ids: Collection[str]) -> dict[str, int]:
    """Give a look that is about to begin its stamps, by storage."""
    storage = models.Storage
    _make_storages(session, storage_ids)
    for storage_id in sorted(storage_ids):
        session.execute(
            sa.update(storage)
            .where(storage.name == storage_id)
            .values(stamp=storage.stamp + 1)
            .execution_options(synchronize_session=False)
        )
    rows = session.execute(sa.select(storage.name, storage.stamp).where(storage.name.in_(storage_ids)))
    return {row[0]: int(row[1]) for row in rows}


def _insert(session: orm.Session, report: Report) -> dict[str, int]:
    """Insert rows for pools that are new and return their ids by name."""
    pool = models.Pool
    names = [figure.name for figure in report.figures if figure.id is None]
    if not names:
        return {}
    known = set(session.scalars(sa.select(pool.name).where(pool.name.in_(names))))
    missing = [name for name in names if name not in known]
    if missing:
        session.execute(
            sa.insert(pool),
            [{"backend_id": report.backend_id, "name": name, "generation": 0, "stats": {}} for name in missing],
        )
    rows = session.execute(sa.select(pool.name, pool.id).where(pool.name.in_(names)))
    return {row[0]: int(row[1]) for row in rows}


def _make_storages(session: orm.Session, storage_ids: Collection[str]) -> None:
    storage = models.Storage
    known = set(session.scalars(sa.select(storage.name).where(storage.name.in_(storage_ids))))
    missing = sorted(set(storage_ids) - known)
    if missing:
        session.execute(sa.insert(storage), [{"name": name, "stamp": 0} for name in missing])


def _write(session: orm.Session, pool_id: int, report: Report, figure: PoolFigures) -> None:
    pool = models.Pool
    session.execute(
        sa.update(pool)
        .where(pool.id == pool_id)
        .values(
            present=True,
            total_capacity_gb=figure.total_gb,
            free_capacity_gb=figure.free_gb,
            provisioned_capacity_gb=figure.provisioned_gb,
            ratio=figure.ratio,
            thin_limit_gb=figure.thin_limit_gb,
            physical_limit_gb=figure.physical_limit_gb,
            generation=pool.generation + int(figure.changes_decisions),
            covers_epoch=report.epoch,
            covers_tick=report.covers,
            covers_stamp=report.stamps.get(figure.storage_id or "", 0),
            storage_id=figure.storage_id,
            storage_free_gb=figure.storage_free_gb,
            reported_at=models.utcnow(),
            stats=dict(figure.stats),
        )
        .execution_options(synchronize_session=False)
    )
    if figure.changes_decisions and figure.storage_id is not None:
        # It may be on this storage only now: what is in flight there counts for the others from here on.
        session.execute(
            sa.update(models.Claim)
            .where(models.Claim.pool_id == pool_id, models.Claim.contained.is_(False))
            .values(everywhere=False)
            .execution_options(synchronize_session=False)
        )


def _cover(session: orm.Session, report: Report, pool_ids: Collection[int], storage_id: str | None) -> None:
    if not pool_ids:
        return
    pool = models.Pool
    session.execute(
        sa.update(pool)
        .where(pool.id.in_(pool_ids), pool.storage_id.is_not_distinct_from(storage_id))
        .values(
            covers_epoch=report.epoch,
            covers_tick=report.covers,
            covers_stamp=0 if storage_id is None else report.stamps.get(storage_id, 0),
        )
        .execution_options(synchronize_session=False)
    )


def _contain(session: orm.Session, pool_ids: Collection[int], epoch: int, covers: int) -> None:
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


def _result(session: orm.Session, ids: Mapping[str, int], pool_ids: Collection[int]) -> Applied:
    pool = models.Pool
    rows = (
        session.execute(sa.select(pool.id, pool.generation, *counters.COLUMNS).where(pool.id.in_(pool_ids))).all()
        if pool_ids
        else []
    )
    return Applied(ids, {row[0]: int(row[1]) for row in rows}, {row[0]: counters.of_row(row[2:]) for row in rows})
