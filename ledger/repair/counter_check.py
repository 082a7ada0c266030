# SPDX-License-Identifier: Apache-2.0
"""Sums of claims per pool, computed without the code that keeps the counters."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.locks import pool_counters

ALLOCATED = "allocated_capacity_gb"
IN_FLIGHT = "in_flight_gb"
IN_FLIGHT_PHYSICAL = "in_flight_physical_gb"
SHARED = ("shared_allocated_gb", "shared_in_flight_gb", "shared_in_flight_physical_gb")
#: The shared counters of a pool that shares its storage with no other pool.
NOTHING_SHARED = dict.fromkeys(SHARED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSums:
    """One pool: its stored counters, and the sums of its own claims.

    ``contained`` is the sum of live claims that its figures contain; ``oldest`` is the age in seconds of the oldest of
    its ``pending`` claims.
    """

    id: int
    name: str
    backend_id: int
    backend: str
    present: bool
    counters: Mapping[str, int]
    claimed: Mapping[str, int]
    contained: int
    pending: int
    oldest: float | None
    provisioned: float | None
    external: float
    storage_id: str | None
    storage_free: float | None
    covers: tuple[int, int]
    covers_stamp: int


def load(session: orm.Session, pool_ids: Collection[int] | None = None) -> dict[int, PoolSums]:
    """Return all pools, or those with these ids."""
    pool, backend = models.Pool, models.Backend
    sums = _sums(session, pool_ids)
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    pools = {}
    for row, backend_name in session.execute(
        sa.select(pool, backend.name)
        .join(backend, backend.id == pool.backend_id)
        .where(sa.true() if pool_ids is None else pool.id.in_(pool_ids))
        .options(orm.defer(pool.stats))
        .execution_options(populate_existing=True)
    ):
        live, in_flight, physical, contained, pending, oldest = sums.get(row.id, (0, 0, 0, 0, 0, None))
        pools[row.id] = PoolSums(
            id=row.id,
            name=row.name,
            backend_id=row.backend_id,
            backend=backend_name,
            present=row.present,
            counters={name: int(getattr(row, name)) for name in (ALLOCATED, IN_FLIGHT, IN_FLIGHT_PHYSICAL, *SHARED)},
            claimed={ALLOCATED: int(live), IN_FLIGHT: int(in_flight), IN_FLIGHT_PHYSICAL: int(physical)},
            contained=int(contained),
            pending=int(pending),
            oldest=models.age(now, oldest),
            provisioned=row.provisioned_capacity_gb,
            external=row.external_gb,
            storage_id=row.storage_id,
            storage_free=row.storage_free_gb,
            covers=(int(row.covers_epoch), int(row.covers_tick)),
            covers_stamp=int(row.covers_stamp),
        )
    return pools


def allocated(session: orm.Session, pool_ids: Collection[int]) -> dict[int, int]:
    """Return the sums of the live claims of these pools."""
    claim = models.Claim
    rows = session.execute(
        sa.select(claim.pool_id, sa.func.sum(claim.size_gb))
        .where(claim.pool_id.in_(pool_ids), claim.state.in_(pool_counters.LIVE))
        .group_by(claim.pool_id)
    )
    return {**dict.fromkeys(pool_ids, 0), **{row[0]: int(row[1]) for row in rows}}


def shared(session: orm.Session, pools: Mapping[int, PoolSums]) -> dict[int, dict[str, int]]:
    """Return the correct shared counters of pools with a storage; ``pools`` must have all pools on each storage.

    Claims of the other pools count, released or not, until the pool's figures contain them. For a part that is carved
    out of a storage (a pool with a ``storage_free_gb``) only their physical capacity counts.
    """
    claim = models.Claim
    by_storage: dict[str, list[PoolSums]] = {}
    for pool in pools.values():
        if pool.storage_id is not None:
            by_storage.setdefault(pool.storage_id, []).append(pool)
    on_storages = [pool.id for pools_of_storage in by_storage.values() for pool in pools_of_storage]
    if not on_storages:
        return {}
    uncovered: dict[int, list[Any]] = {}
    for row in session.execute(
        sa.select(
            claim.pool_id,
            claim.backend_id,
            claim.size_gb,
            claim.physical_gb,
            claim.end_epoch,
            claim.end_tick,
            claim.end_stamp,
        ).where(claim.contained_by_all.is_(False), claim.pool_id.in_(on_storages))
    ):
        uncovered.setdefault(row.pool_id, []).append(row)
    expected = {}
    for pools_of_storage in by_storage.values():
        for pool in pools_of_storage:
            other_pools = [other for other in pools_of_storage if other.id != pool.id]
            claims = [row for other in other_pools for row in uncovered.get(other.id, ()) if not _contains(pool, row)]
            carved = pool.storage_free is not None
            expected[pool.id] = dict(
                zip(
                    SHARED,
                    (
                        0
                        if carved
                        else sum(other.claimed[ALLOCATED] + math.ceil(other.external) for other in other_pools),
                        0 if carved else sum(row.size_gb for row in claims),
                        sum(row.physical_gb for row in claims),
                    ),
                    strict=True,
                )
            )
    return expected


def _contains(pool: PoolSums, claim: Any) -> bool:
    """Return whether a pool's figures contain a claim of another pool: by ticks within a backend, else by stamps."""
    if claim.backend_id == pool.backend_id:
        return claim.end_tick is not None and (claim.end_epoch, claim.end_tick) < pool.covers
    return claim.end_stamp is not None and bool(claim.end_stamp <= pool.covers_stamp)


def _sums(session: orm.Session, pool_ids: Collection[int] | None) -> dict[int, tuple[Any, ...]]:
    claim = models.Claim

    def total(value: Any, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
        return sa.func.sum(sa.case((sa.and_(*conditions), value), else_=0))

    live, in_flight = claim.state.in_(pool_counters.LIVE), claim.contained.is_(False)
    pending = claim.state == pool_counters.PENDING
    rows = session.execute(
        sa.select(
            claim.pool_id,
            total(claim.size_gb, live),
            total(claim.size_gb, in_flight),
            total(claim.physical_gb, in_flight),
            total(claim.size_gb, live, claim.contained.is_(True)),
            total(1, pending),
            sa.func.min(sa.case((pending, claim.created_at))),
        )
        .where(sa.true() if pool_ids is None else claim.pool_id.in_(pool_ids))
        .group_by(claim.pool_id)
    )
    return {row[0]: tuple(row[1:]) for row in rows}
