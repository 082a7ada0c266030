# SPDX-License-Identifier: Apache-2.0
"""Reports written to the ledger: figures and limits of pools, and the containment of claims."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.locks import backend_notices, pool_counters, pool_locks, scheduling_rules


class PoolFigures(NamedTuple):
    """The figures of one pool in a report, in GiB, as its row stores them; None is unknown, infinite or no limit.

    ``id`` is the id of the pool's row, None for a new pool. ``changes_decisions`` is True if more than capacities has
    changed, so that decisions that read the old row must not take effect. ``stats`` is JSON text or a value to encode.
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
    stats: Mapping[str, Any] | msgspec.Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report of one backend: ``figures`` of the pools that changed, ``vanished`` for pools no longer reported.

    Pools in ``unusable`` keep their old figures, and their claims stay contained or uncontained as they are; so do
    pools in ``postponed``, whose figures the next part of the report has. ``stamps`` are the stamps of the storages,
    taken before the look; ``storages`` are all storages of the backend's pools. ``base`` is the number of the report
    that ``figures`` were compared with: all other pools are unchanged since that report. ``rules`` is the generation of
    the rules from which the limits were computed. ``age`` is the number of seconds between the begin of the look and
    the sending of the report, by the agent's clock.
    """

    backend_id: int
    epoch: int
    seq: int
    base: int
    covers: int
    rules: int
    figures: Sequence[PoolFigures]
    unusable: Collection[int] = ()
    postponed: Collection[int] = ()
    vanished: Collection[int] = ()
    stamps: Mapping[str, int] = field(default_factory=dict)
    storages: Collection[str] = ()
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Applied:
    """The effects of a report.

    ``ids`` are the ids, by name, of the pools that were written. ``generations`` and ``counters`` have, by pool id, all
    pools where these may have changed.
    """

    ids: Mapping[str, int]
    generations: Mapping[int, int]
    counters: Mapping[int, pool_counters.Counters]


class _LastReport(NamedTuple):
    """The time of a backend's previous report, and the further age of its figures in seconds."""

    at: datetime.datetime | None
    age: float


def apply(session: orm.Session, reports: Sequence[Report]) -> list[Applied | None]:
    """Apply reports of different backends.

    The result is None for a report that was not applied: its epoch is over, it was not compared with the last report
    that was applied, or its limits follow from outdated rules.
    """
    accepted = _record(session, reports)
    results: list[Applied | None] = [None] * len(reports)
    applied = _apply(session, [reports[number] for number in accepted], list(accepted.values()))
    for number, result in zip(accepted, applied, strict=True):
        results[number] = result
    return results


def _record(session: orm.Session, reports: Sequence[Report]) -> dict[int, _LastReport]:
    """Record reports in the rows of their backends, and return the previous report for each that is accepted.

    The keys of the result are indexes of ``reports``.
    """
    rows = _LOCK.rows(session.connection(), {"ids": [report.backend_id for report in reports]})
    last = {row[0]: (row[1], int(row[2]), int(row[3]), int(row[4]), _LastReport(row[5], row[6])) for row in rows}
    accepted: dict[int, _LastReport] = {}
    for number, report in enumerate(reports):
        epoch, seq, covers, rules, before = last.get(report.backend_id, (0, 0, 0, 0, _LastReport(None, 0.0)))
        is_current = (epoch, seq, rules) == (report.epoch, report.base, report.rules)
        if is_current and seq < report.seq and covers <= report.covers:
            accepted[number] = before
    parameters = [
        {"of": report.backend_id, "seq": report.seq, "covers": report.covers, "age": report.age}
        for report in (reports[number] for number in accepted)
    ]
    if parameters:
        _RECORD.change(session.connection(), sorted(parameters, key=lambda values: values["of"]))
    return accepted


def _apply(session: orm.Session, reports: Sequence[Report], before: Sequence[_LastReport]) -> list[Applied]:
    pool = models.Pool
    ids = [
        {figure.name: figure.id for figure in report.figures if figure.id is not None}
        | (_insert(session, report) if any(figure.id is None for figure in report.figures) else {})
        for report in reports
    ]
    unusable = {pool_id for report in reports for pool_id in report.unusable}
    unchanged = unusable.union(*(report.postponed for report in reports))
    vanished = {pool_id for report in reports for pool_id in report.vanished}
    waiting = {
        (row[0], row[1])
        for row in _WAITING.rows(session.connection(), {"backends": [report.backend_id for report in reports]})
        if row[1] not in unchanged
    }
    written = {pool_id for ids_by_name in ids for pool_id in ids_by_name.values()}
    covered = {pool_id for _, pool_id in waiting}
    storages = {storage for report in reports for storage in report.storages}
    storages |= {figure.storage_id for report in reports for figure in report.figures if figure.storage_id is not None}
    backend_of: dict[int, int] = {pool_id: backend_id for backend_id, pool_id in waiting}
    if storages:
        # In-flight claims of one pool count for all pools on its storage, so the coverage of all of them has to be
        # recorded.
        _make_storages(session, storages)
        pool_rows = session.execute(
            sa.select(pool.id, pool.backend_id).where(
                pool.backend_id.in_([report.backend_id for report in reports]), pool.storage_id.in_(storages)
            )
        )
        backend_of.update({row[0]: row[1] for row in pool_rows if row[0] not in unchanged})
        covered |= backend_of.keys()
    on_storage: Mapping[int, str | None] = {}
    # If more than capacities has changed, a pool may have left its storage, and the other pools there must stop
    # counting it.
    moved = any(figure.changes_decisions for report in reports for figure in report.figures)
    if waiting or storages or vanished or moved or unusable:
        locked = pool_locks.lock(session, written | covered | vanished | unusable, storages)
        on_storage = locked.storages
        storages |= locked.shared.keys()
    _write(session, reports, ids)
    for report, last in zip(reports, before, strict=True):
        if report.unusable:
            _keep(session, report.unusable, last)
    # Pools with unchanged figures are not written, except for their coverage where a claim waits for it.
    of_backend = {report.backend_id: report for report in reports}
    if covered - written:
        _cover(session, {pool_id: of_backend[backend_of[pool_id]] for pool_id in covered - written}, on_storage)
    for chunk in dialects.in_chunks(sorted(vanished)):
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(chunk))
            .values(present=False, generation=pool.generation + 1)
            .execution_options(synchronize_session=False)
        )
    if waiting:
        backend_ids = sorted({backend_id for backend_id, _ in waiting})
        _contain(session, [of_backend[backend_id] for backend_id in backend_ids], waiting)
        pool_counters.recount_in_flight(session, [pool_id for _, pool_id in waiting])
    shared_ids = pool_counters.recount_shared(session, storages)
    result = _result(session, written | {pool_id for _, pool_id in waiting} | shared_ids)
    # Each result has the counters of all pools, as any report may change the shared in-flight counters of the others.
    return [Applied(ids_by_name, result.generations, result.counters) for ids_by_name in ids]


def shared_storages(session: orm.Session, backend_id: int) -> list[str]:
    """Return the sorted ids of the storages that pools of a backend share with pools of other backends."""
    own_pool, other_pool = orm.aliased(models.Pool), orm.aliased(models.Pool)
    storage_ids = session.scalars(
        sa.select(own_pool.storage_id)
        .join(
            other_pool,
            sa.and_(other_pool.storage_id == own_pool.storage_id, other_pool.backend_id != own_pool.backend_id),
        )
        .where(own_pool.backend_id == backend_id)
        .distinct()
    )
    return sorted(storage_id for storage_id in storage_ids if storage_id is not None)


def next_stamps(session: orm.Session, storage_ids: Collection[str]) -> dict[str, int]:
    """Increase the stamps of storages before a look begins, and return them by storage.

    Raises :class:`~tonnage.capacity.errors.LedgerMoved` if a copy of the ledger is used instead: it gives the same
    stamps to claims that end later.
    """
    scheduling_rules.lock_shared(session)
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
    """Insert rows for new pools and return their ids by name."""
    pool = models.Pool
    names = [figure.name for figure in report.figures if figure.id is None]
    if not names:
        return {}
    existing_ids = _ids(session, names)
    missing = [name for name in names if name not in existing_ids]
    if missing:
        session.execute(
            sa.insert(pool),
            [{"backend_id": report.backend_id, "name": name, "generation": 0, "stats": {}} for name in missing],
        )
    return _ids(session, names)


def _ids(session: orm.Session, names: Sequence[str]) -> dict[str, int]:
    """Return the ids of the rows of these pools, by name; pools without a row are left out."""
    pool = models.Pool
    selects = (sa.select(pool.name, pool.id).where(pool.name.in_(chunk)) for chunk in dialects.in_chunks(names))
    return {row[0]: int(row[1]) for select in selects for row in session.execute(select)}


def _make_storages(session: orm.Session, storage_ids: Collection[str]) -> None:
    storage = models.Storage
    missing = set(storage_ids)
    for chunk in dialects.in_chunks(sorted(storage_ids)):
        missing.difference_update(session.scalars(sa.select(storage.name).where(storage.name.in_(chunk))))
    if missing:
        session.execute(sa.insert(storage), [{"name": name, "stamp": 0} for name in sorted(missing)])


def _write(session: orm.Session, reports: Sequence[Report], ids: Sequence[Mapping[str, int]]) -> None:
    rows = [
        _row(ids_by_name[figure.name], report, figure)
        for report, ids_by_name in zip(reports, ids, strict=True)
        for figure in report.figures
    ]
    if rows:
        _WRITE.change(session.connection(), sorted(rows, key=lambda row: row["of"]))
    moved = [
        ids_by_name[figure.name]
        for report, ids_by_name in zip(reports, ids, strict=True)
        for figure in report.figures
        if figure.changes_decisions and figure.storage_id is not None
    ]
    if moved:
        # The pools may have joined their storage with this report: their in-flight claims count for the other pools
        # from now on.
        session.execute(
            sa.update(models.Claim)
            .where(models.Claim.pool_id.in_(moved), models.Claim.contained.is_(False))
            .values(contained_by_all=False)
            .execution_options(synchronize_session=False)
        )
    claim, pool = models.Claim, models.Pool
    for report in reports:
        joined = {
            figure.storage_id for figure in report.figures if figure.changes_decisions and figure.storage_id is not None
        }
        for storage_id in sorted(joined):
            # Claims of other backends on the storage that ended after this look are not in these figures, though they
            # may be in all others. A look without a stamp contains none.
            there = sa.select(pool.id).where(pool.storage_id == storage_id, pool.backend_id != report.backend_id)
            session.execute(
                sa.update(claim)
                .where(claim.pool_id.in_(there), claim.end_stamp > report.stamps.get(storage_id, 0))
                .values(contained_by_all=False)
                .execution_options(synchronize_session=False)
            )


def _keep(session: orm.Session, pool_ids: Collection[int], before: _LastReport) -> None:
    """Record that pools keep their figures, and when these were collected.

    The figures are of the previous report, if that had usable figures, else of an earlier one.
    """
    pool = models.Pool
    fresh = None if before.at is None else before.at - datetime.timedelta(seconds=before.age)
    for ids in dialects.in_chunks(sorted(pool_ids)):
        pool_rows = session.execute(sa.select(pool.id, pool.unheard_at, pool.figures_at).where(pool.id.in_(ids)))
        kept = {row.id: row.figures_at for row in pool_rows if row.unheard_at and row.unheard_at == before.at}
        session.connection().execute(_KEEP, [{"of": id, "since": kept.get(id, fresh)} for id in ids])


def _row(pool_id: int, report: Report, figure: PoolFigures) -> dict[str, Any]:
    return {
        "of": pool_id,
        "total": figure.total_gb,
        "free": figure.free_gb,
        "provisioned": figure.provisioned_gb,
        "its_ratio": figure.ratio,
        "thin_limit": figure.thin_limit_gb,
        "physical_limit": figure.physical_limit_gb,
        "more": int(figure.changes_decisions),
        "epoch": report.epoch,
        "covers": report.covers,
        "stamp": report.stamps.get(figure.storage_id or "", 0),
        "storage": figure.storage_id,
        "storage_free": figure.storage_free_gb,
        "alone": figure.storage_id is None,
        "as_reported": figure.stats,
    }


def _cover(session: orm.Session, reports: Mapping[int, Report], storages: Mapping[int, str | None]) -> None:
    """Record the coverage of the pools' figures, from the report of each."""
    rows = [
        {
            "of": pool_id,
            "epoch": report.epoch,
            "covers": report.covers,
            "stamp": report.stamps.get(storages.get(pool_id) or "", 0),
        }
        for pool_id, report in sorted(reports.items())
    ]
    if rows:
        _COVER.change(session.connection(), rows)


def _contain(session: orm.Session, reports: Sequence[Report], waiting: Collection[tuple[int, int]]) -> None:
    """Mark the claims that the reports contain; delete released claims that no other pool has to see.

    ``waiting`` are the ids of the backends and pools with claims that the reports may contain: they have their figures.
    """
    for of_backend, of_pools in ((_DROP, _DROP_OF_POOLS), (_CONTAIN, _CONTAIN_OF_POOLS)):
        whole = [_ended(report) for report in reports if not (report.unusable or report.postponed)]
        if whole:
            of_backend.change(session.connection(), whole)
        for report in reports:
            if report.unusable or report.postponed:
                pool_ids = sorted(pool_id for backend_id, pool_id in waiting if backend_id == report.backend_id)
                for chunk in dialects.in_chunks(pool_ids):
                    of_pools.change(session.connection(), [{**_ended(report), "pools": chunk}])


def _ended(report: Report) -> dict[str, Any]:
    return {"on": report.backend_id, "epoch": report.epoch, "covers": report.covers}


@dataclass(frozen=True, slots=True)
class _Rows:
    generations: Mapping[int, int]
    counters: Mapping[int, pool_counters.Counters]


def _result(session: orm.Session, pool_ids: Collection[int]) -> _Rows:
    if not pool_ids:
        return _Rows({}, {})
    chunks = dialects.in_chunks(sorted(pool_ids))
    rows = [row for chunk in chunks for row in _RESULT.rows(session.connection(), {"ids": chunk})]
    return _Rows({row[0]: int(row[1]) for row in rows}, {row[0]: pool_counters.from_row(row[2:]) for row in rows})


_BACKEND, _POOL = models.table(models.Backend), models.table(models.Pool)

_SHARED = ("shared_allocated_gb", "shared_in_flight_gb", "shared_in_flight_physical_gb")

# An IN with a list cannot be executed with several rows at once.
_HAS_ENDED = sa.or_(*(_BACKEND.c.notice == code for code in backend_notices.ENDED))

_LOCK = Prepared(
    sa.select(
        *(_BACKEND.c.id, _BACKEND.c.epoch, _BACKEND.c.report_seq, _BACKEND.c.report_covers),
        *(_BACKEND.c.rules_generation, _BACKEND.c.last_report_at, _BACKEND.c.report_age),
    )
    .where(_BACKEND.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(_BACKEND.c.id)
    .with_for_update()
)

_RECORD = Prepared(
    sa.update(_BACKEND)
    .where(_BACKEND.c.id == sa.bindparam("of"))
    .values(
        report_seq=sa.bindparam("seq"),
        report_covers=sa.bindparam("covers"),
        report_age=sa.bindparam("age"),
        last_report_at=models.utcnow(),
        # A report may be late, and arrive after the notice that its agent serves the backend no more.
        **{column: sa.case((_HAS_ENDED, _BACKEND.c[column])) for column in ("notice", "notice_text", "notice_at")},
    )
)

_COVER = Prepared(
    sa.update(_POOL)
    .where(_POOL.c.id == sa.bindparam("of"))
    .values(covers_epoch=sa.bindparam("epoch"), covers_tick=sa.bindparam("covers"), covers_stamp=sa.bindparam("stamp"))
)

_KEEP = (
    sa.update(_POOL)
    .where(_POOL.c.id == sa.bindparam("of"))
    .values(
        figures_at=sa.bindparam("since"),
        # Copied by the database, so that a comparison of the two times is exact.
        unheard_at=sa.select(_BACKEND.c.last_report_at).where(_BACKEND.c.id == _POOL.c.backend_id).scalar_subquery(),
    )
)

_CLAIM = models.table(models.Claim)
_WAITING = Prepared(
    sa.select(_CLAIM.c.backend_id, _CLAIM.c.pool_id)
    .where(_CLAIM.c.backend_id.in_(sa.bindparam("backends", expanding=True)), _CLAIM.c.contained.is_(False))
    .distinct()
)
_RESULT = Prepared(
    sa.select(_POOL.c.id, _POOL.c.generation, *(_POOL.c[column.key] for column in pool_counters.COLUMNS)).where(
        _POOL.c.id.in_(sa.bindparam("ids", expanding=True))
    )
)
_ENDED = sa.and_(
    _CLAIM.c.backend_id == sa.bindparam("on"),
    _CLAIM.c.contained.is_(False),
    sa.or_(
        _CLAIM.c.end_epoch < sa.bindparam("epoch"),
        sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), _CLAIM.c.end_tick < sa.bindparam("covers")),
    ),
)
#: A released claim is kept while other pools on its storage may have to see it.
_DROP_ENDED = sa.delete(_CLAIM).where(
    _ENDED,
    _CLAIM.c.state == pool_counters.RELEASED,
    sa.or_(_CLAIM.c.contained_by_all, _CLAIM.c.pool_id.in_(sa.select(_POOL.c.id).where(_POOL.c.storage_id.is_(None)))),
)
_CONTAIN_ENDED = sa.update(_CLAIM).where(_ENDED).values(contained=True)
_IN_POOLS = _CLAIM.c.pool_id.in_(sa.bindparam("pools", expanding=True))
_DROP, _DROP_OF_POOLS = Prepared(_DROP_ENDED), Prepared(_DROP_ENDED.where(_IN_POOLS))
_CONTAIN, _CONTAIN_OF_POOLS = Prepared(_CONTAIN_ENDED), Prepared(_CONTAIN_ENDED.where(_IN_POOLS))

_WRITE = Prepared(
    sa.update(_POOL)
    .where(_POOL.c.id == sa.bindparam("of"))
    .values(
        present=True,
        total_capacity_gb=sa.bindparam("total"),
        free_capacity_gb=sa.bindparam("free"),
        provisioned_capacity_gb=sa.bindparam("provisioned"),
        ratio=sa.bindparam("its_ratio"),
        thin_limit_gb=sa.bindparam("thin_limit"),
        physical_limit_gb=sa.bindparam("physical_limit"),
        generation=_POOL.c.generation + sa.bindparam("more", type_=sa.BigInteger()),
        covers_epoch=sa.bindparam("epoch"),
        covers_tick=sa.bindparam("covers"),
        covers_stamp=sa.bindparam("stamp"),
        storage_id=sa.bindparam("storage"),
        storage_free_gb=sa.bindparam("storage_free"),
        **{name: sa.case((sa.bindparam("alone", type_=sa.Boolean()), 0), else_=_POOL.c[name]) for name in _SHARED},
        reported_at=models.utcnow(),
        stats=sa.bindparam("as_reported"),
    )
)
