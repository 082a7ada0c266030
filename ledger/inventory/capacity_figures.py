# SPDX-License-Identifier: Apache-2.0
"""Figures of pools, claims and volumes for metrics: plain columns and counts, without the objects of a decision."""

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_utils import strutils
from sqlalchemy import orm

from tonnage.capacity.pool_stats import BACKEND_STATE, is_reported_down
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import backend_notices
from tonnage.ledger.locks.backend_notices import Notice

#: States of claims whose operation has not ended.
OPEN = ("pending", "abandoned")


class PoolFigures(NamedTuple):
    """The figures of one pool. Capacities are GiB; None is unknown or infinite, and for a limit: no limit.

    ``in_flight_gb`` and ``in_flight_physical_gb`` contain the claims of other pools on the same storage that count
    against this pool's figures. ``virtual_limit_gb`` bounds provisioned plus in-flight capacity of thin volumes,
    ``physical_limit_gb`` is free capacity less the reserve; ``storage_free_gb`` is the free capacity of the storage
    that the pool is a part of, and ``storage_left_gb`` that capacity less the claims of all pools of the storage.
    ``collected_at`` is the time at which the driver began to collect the figures, ``age`` the number of seconds since
    then, None if they were never reported; ``silence`` is the number of seconds since the last report of the backend,
    ``notice`` the notice of its agent that came later.
    """

    name: str
    backend: str
    zone: str
    driver: str
    storage: str | None
    total_gb: float | None
    free_gb: float | None
    provisioned_gb: float | None
    allocated_gb: int
    in_flight_gb: int
    in_flight_physical_gb: int
    virtual_limit_gb: float | None
    physical_limit_gb: float | None
    storage_free_gb: float | None
    ratio: float
    storage_left_gb: float | None
    collected_at: datetime.datetime | None
    age: float | None
    silence: float | None
    notice: Notice | None = None

    def up(self, down_time: float) -> bool:
        """Return whether the last report of the backend is at most ``down_time`` seconds old."""
        return is_up(self.silence, down_time)


class BackendSums(NamedTuple):
    """Sums of the figures of a backend's pools in GiB, None if one is unknown or infinite, and the number of pools."""

    backend: str
    pools: int
    total_gb: float | None
    free_gb: float | None
    provisioned_gb: float | None
    allocated_gb: float | None
    in_flight_gb: float | None
    in_flight_physical_gb: float | None


class _Backend(NamedTuple):
    """The common fields of the pools of a backend: name, zone and driver, and times, see :class:`PoolFigures`."""

    labels: tuple[str, str, str]
    now: datetime.datetime
    collected_at: datetime.datetime | None
    age: float | None
    silence: float | None
    notice: Notice | None


class ReportedNames(NamedTuple):
    """The names of the backend (``volume_backend_name``) and the vendor in a pool's report; a missing name is empty."""

    backend: str
    vendor: str


class ClaimCount(NamedTuple):
    """The number of claims of a verb in a state, and the time of the oldest."""

    verb: str
    state: str
    number: int
    oldest_at: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of rows: open claims, volumes by status, discrepancies by kind, and findings of drivers by breach.

    ``allocated_by_type`` maps the name of each volume type, empty for volumes without one, to the GiB of its volumes.
    """

    claims: list[ClaimCount]
    volumes: dict[str, int]
    discrepancies: dict[str, int]
    findings: dict[str, int]
    allocated_by_type: dict[str, int]


def is_up(silence: float | None, down_time: float) -> bool:
    """Return whether a backend is up after ``silence`` seconds without a report; None means that it never reported."""
    return silence is not None and silence <= down_time


def pools(session: orm.Session, *, backend: str | None = None, with_absent: bool = False) -> list[PoolFigures]:
    """Return the figures of all pools that were in the last reports, or of the pools of one backend, by name.

    ``with_absent`` adds the pools of :func:`absent_pools`, with their last figures.
    """
    pool, backend_model = models.Pool, models.Backend
    all_physical = pool.in_flight_physical_gb + pool.shared_in_flight_physical_gb
    statement = (
        sa.select(
            *(backend_model.id, pool.name, pool.storage_id),
            *(pool.total_capacity_gb, pool.free_capacity_gb, pool.provisioned_capacity_gb),
            pool.allocated_capacity_gb,
            pool.in_flight_gb + pool.shared_in_flight_gb,
            # The claims of other pools are not in the limits of a part, but in the rest of its storage.
            sa.case((pool.storage_free_gb.is_(None), all_physical), else_=pool.in_flight_physical_gb),
            *(pool.thin_limit_gb, pool.physical_limit_gb, pool.storage_free_gb, pool.ratio),
            pool.storage_free_gb - all_physical,
            backends.FIGURES_KEPT_SINCE,
        )
        .join(backend_model, backend_model.id == pool.backend_id)
        .where(sa.or_(pool.present.is_(True), backends.IS_ABSENT) if with_absent else pool.present.is_(True))
        .order_by(pool.name)
    )
    if backend is not None:
        statement = statement.where(backend_model.name == backend)
    # The columns of a backend are not read for each of its pools. Rows go as they come: the garbage collector looks
    # through those that are kept.
    by_id = _backends(session, backend)
    rows = session.connection().execute(statement, execution_options={"yield_per": dialects.CHUNK_SIZE})
    return [_pool(by_id[of_id], *row) for of_id, *row in rows if of_id in by_id]


def absent_pools(session: orm.Session) -> set[str]:
    """Return the names of the pools that were not in the last reports and still have volumes."""
    return set(session.scalars(sa.select(models.Pool.name).where(backends.IS_ABSENT)))


def thin_pools(session: orm.Session) -> set[str]:
    """Return the names of the pools that can have thin volumes."""
    pool = models.Pool
    flags = session.execute(sa.select(pool.name, pool.stats["thin_provisioning_support"].as_string()))
    return {name for name, flag in flags if flag is not None and strutils.bool_from_string(flag)}


def reported_down(session: orm.Session) -> set[str]:
    """Return the names of the backends whose driver reports each of their pools as down."""
    pool, backend_model = models.Pool, models.Backend
    rows = session.execute(
        sa.select(backend_model.name, pool.stats[BACKEND_STATE].as_string())
        .join(backend_model, backend_model.id == pool.backend_id)
        .where(pool.present.is_(True))
        .distinct()
    )
    states: dict[str, list[bool]] = {}
    for name, state in rows:
        states.setdefault(name, []).append(is_reported_down(state))
    return {name for name, are_down in states.items() if all(are_down)}


def number_of_pools(session: orm.Session, *, backend: str | None = None) -> int:
    """Return the number of the pools that :func:`pools` returns."""
    statement = sa.select(sa.func.count()).select_from(models.Pool).where(models.Pool.present.is_(True))
    if backend is not None:
        statement = statement.join(models.Backend).where(models.Backend.name == backend)
    return session.execute(statement).scalar_one()


def backend_sums(session: orm.Session, down_time: float, *, backend: str | None = None) -> list[BackendSums]:
    """Return the sums of the pools of each backend that is up (see :func:`is_up`), by name."""
    pool, backend_model = models.Pool, models.Backend
    columns = (
        *(pool.total_capacity_gb, pool.free_capacity_gb, pool.provisioned_capacity_gb, pool.allocated_capacity_gb),
        pool.in_flight_gb + pool.shared_in_flight_gb,
        pool.in_flight_physical_gb + pool.shared_in_flight_physical_gb,
    )
    # A sum with an unknown capacity is unknown.
    sum_columns = [sa.case((sa.func.count(column) == sa.func.count(), sa.func.sum(column))) for column in columns]
    statement = (
        sa.select(backend_model.id, backend_model.name, sa.func.count(), *sum_columns)
        .join(backend_model, backend_model.id == pool.backend_id)
        .where(pool.present.is_(True))
        .group_by(backend_model.id, backend_model.name)
        .order_by(backend_model.name)
    )
    if backend is not None:
        statement = statement.where(backend_model.name == backend)
    rows = session.execute(statement).all()
    up = {of_id for of_id, of_backend in _backends(session, backend).items() if is_up(of_backend.silence, down_time)}
    return [
        BackendSums(name, number, *(None if value is None else float(value) for value in sums))
        for of_id, name, number, *sums in rows
        if of_id in up
    ]


def _backends(session: orm.Session, backend: str | None) -> dict[int, _Backend]:
    backend_model = models.Backend
    statement = sa.select(
        *(
            backend_model.id,
            backend_model.name,
            backend_model.availability_zone,
            backend_model.driver,
            backend_model.last_report_at,
            backend_model.report_age,
            backend_model.observed,
            backend_model.notice,
            backend_model.notice_text,
            backend_model.notice_at,
        ),
        models.utcnow(),
    )
    if backend is not None:
        statement = statement.where(backend_model.name == backend)
    by_id = {}
    for of_id, name, zone, driver, reported_at, delay, observed, *columns, now in session.execute(statement):
        collected_at = None if reported_at is None else reported_at - datetime.timedelta(seconds=delay)
        notice = backend_notices.of_columns(*columns)
        silence = models.silence(now, reported_at, observed=observed, notice=None if notice is None else notice.code)
        ages = (models.age(now, collected_at), silence)
        by_id[of_id] = _Backend((name, zone, driver), now, collected_at, *ages, notice)
    return by_id


def _pool(backend: _Backend, name: str, storage: str | None, *row: Any) -> PoolFigures:
    *figures, kept_since = row
    times = (
        (backend.collected_at, backend.age) if kept_since is None else (kept_since, models.age(backend.now, kept_since))
    )
    return PoolFigures._make((name, *backend.labels, storage, *figures, *times, backend.silence, backend.notice))


def reported_names(session: orm.Session) -> dict[str, ReportedNames]:
    """Return the names in the last reports, by the names of the pools."""
    rows = session.execute(sa.select(models.Pool.name, models.Pool.stats).where(models.Pool.present.is_(True)))
    return {
        name: ReportedNames(*(str(stats.get(key) or "") for key in ("volume_backend_name", "vendor_name")))
        for name, stats in rows
    }


def volumes_by_status(session: orm.Session) -> dict[str, int]:
    """Return the number of volumes with each status."""
    return _numbers(session, models.Volume.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums over pools in GiB. A figure is None if it is unknown or infinite for one of them.

    ``counts_storage_once`` is whether the sums differ from those of the pools' own figures, because pools share a
    storage.
    """

    total_gb: float | None
    free_gb: float | None
    allocated_gb: int
    in_flight_gb: int
    counts_storage_once: bool


def sums(pools: Iterable[PoolFigures]) -> Sums:
    """Return the sums over pools. The figures of pools that share a storage, and are not parts of it, count once."""
    all_pools = list(pools)
    separate_pools = [pool for pool in all_pools if pool.storage is None]
    shared: dict[str, list[PoolFigures]] = {}
    for pool in all_pools:
        if pool.storage is not None:
            shared.setdefault(pool.storage, []).append(pool)
    figures = [(pool.total_gb, pool.free_gb, pool.in_flight_gb) for pool in separate_pools]
    figures += [_of_storage(members) for members in shared.values()]
    total, free, in_flight = _column_sums(figures)
    return Sums(
        total_gb=total,
        free_gb=free,
        allocated_gb=sum(pool.allocated_gb for pool in all_pools),
        in_flight_gb=in_flight,
        counts_storage_once=(total, free, in_flight)
        != _column_sums([(pool.total_gb, pool.free_gb, pool.in_flight_gb) for pool in all_pools]),
    )


def _column_sums(
    figures: Sequence[tuple[float | None, float | None, int]],
) -> tuple[float | None, float | None, int]:
    totals, frees = [total for total, _, _ in figures], [free for _, free, _ in figures]
    return _sum(totals), _sum(frees), sum(in_flight for _, _, in_flight in figures)


def _of_storage(pools: Sequence[PoolFigures]) -> tuple[float | None, float | None, int]:
    """Return the total, the free and the in-flight capacity of the pools of one storage."""
    totals, frees = [pool.total_gb for pool in pools], [pool.free_gb for pool in pools]
    in_flight = [pool.in_flight_gb for pool in pools]
    if any(pool.storage_free_gb is None for pool in pools):
        # Each pool has the figures of the storage, and counts the claims of all.
        return _largest(totals), _largest(frees), max(in_flight)
    free, of_storage = _sum(frees), _largest([pool.storage_free_gb for pool in pools])
    return _sum(totals), None if free is None or of_storage is None else min(free, of_storage), sum(in_flight)


def _sum(figures: Sequence[float | None]) -> float | None:
    finite_figures = [figure for figure in figures if figure is not None and math.isfinite(figure)]
    return sum(finite_figures) if len(finite_figures) == len(figures) else None


def _largest(figures: Sequence[float | None]) -> float | None:
    finite_figures = [figure for figure in figures if figure is not None and math.isfinite(figure)]
    return max(finite_figures) if finite_figures and len(finite_figures) == len(figures) else None


def counts(session: orm.Session) -> Counts:
    """Return the counts of the whole ledger."""
    claim, volume, volume_type = models.Claim, models.Volume, models.VolumeType
    open_claims = (
        sa.select(claim.verb, claim.state, sa.func.count(), sa.func.min(claim.created_at))
        .where(claim.state.in_(OPEN))
        .group_by(claim.verb, claim.state)
    )
    by_type = (
        sa.select(sa.func.coalesce(volume_type.name, ""), sa.func.sum(volume.size_gb))
        .join(volume_type, volume_type.id == volume.volume_type_id, isouter=True)
        .where(volume.pool_id.is_not(None))
        .group_by(volume_type.name)
    )
    return Counts(
        claims=[ClaimCount(*row) for row in session.execute(open_claims)],
        volumes=volumes_by_status(session),
        discrepancies=_numbers(session, models.Discrepancy.category),
        findings=_numbers(session, models.Finding.breach),
        allocated_by_type={name: int(size) for name, size in session.execute(by_type)},
    )


def _numbers(session: orm.Session, column: orm.InstrumentedAttribute[str]) -> dict[str, int]:
    """Return the number of rows for each value of a column."""
    return {
        value: int(number) for value, number in session.execute(sa.select(column, sa.func.count()).group_by(column))
    }
