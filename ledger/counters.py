# SPDX-License-Identifier: Apache-2.0
"""The counters of pools and backends: allocated and in-flight capacity.

Allocated is the sum of the live claims (pending and confirmed), in-flight the sum of those that the pool's last report
does not contain yet, released ones included. Whoever changes counters locks rows in one order: request keys, backends,
pools, each sorted; then volumes and claims.
"""

from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models

PENDING = "pending"
CONFIRMED = "confirmed"
RELEASED = "released"

#: States whose claims count as allocated.
LIVE = (PENDING, CONFIRMED)


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one pool, in GiB."""

    allocated: int = 0
    in_flight: int = 0
    in_flight_physical: int = 0


def read(session: orm.Session, pool_ids: Collection[int]) -> dict[int, Counters]:
    """Return the counters of the pools."""
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.id, pool.allocated_capacity_gb, pool.in_flight_gb, pool.in_flight_physical_gb).where(
            pool.id.in_(pool_ids)
        )
    )
    return {row[0]: Counters(*map(int, row[1:])) for row in rows}


def lock_pools(session: orm.Session, pool_ids: Collection[int]) -> None:
    """Lock pool rows in the one order. (On SQLite the whole transaction holds the lock already.)"""
    if pool_ids:
        session.execute(
            sa.select(models.Pool.id).where(models.Pool.id.in_(pool_ids)).order_by(models.Pool.id).with_for_update()
        ).all()


def lock_backends(session: orm.Session, pool_ids: Collection[int]) -> dict[int, int]:
    """Lock the rows of the pools' backends in the one order, before the pools; return each pool's backend."""
    pool, backend = models.Pool, models.Backend
    backends = {
        row[0]: row[1] for row in session.execute(sa.select(pool.id, pool.backend_id).where(pool.id.in_(pool_ids)))
    }
    session.execute(
        sa.select(backend.id).where(backend.id.in_(set(backends.values()))).order_by(backend.id).with_for_update()
    ).all()
    return backends


def add_to_backends(session: orm.Session, added: Mapping[int, int]) -> None:
    """Add GiB to the allocated capacity of backends (negative: take away)."""
    for backend_id, size in sorted(added.items()):
        if size:
            session.execute(
                sa.update(models.Backend)
                .where(models.Backend.id == backend_id)
                .values(allocated_capacity_gb=models.Backend.allocated_capacity_gb + size)
                .execution_options(synchronize_session=False)
            )


def add_to_pools(session: orm.Session, added: Mapping[int, int]) -> None:
    """Add GiB to the allocated capacity of pools (negative: take away). Their backends come first, separately."""
    for pool_id, size in sorted(added.items()):
        if size:
            session.execute(
                sa.update(models.Pool)
                .where(models.Pool.id == pool_id)
                .values(allocated_capacity_gb=models.Pool.allocated_capacity_gb + size)
                .execution_options(synchronize_session=False)
            )


def recount_in_flight(session: orm.Session, pool_ids: Collection[int]) -> None:
    """Set what is in flight on the pools to the sum of their claims that are not contained.

    The pools must be locked: a sum taken in the statement that takes the lock would be of the time before it.
    """
    claim, pool = models.Claim, models.Pool
    sums = {
        row[0]: (int(row[1]), int(row[2]))
        for row in session.execute(
            sa.select(claim.pool_id, sa.func.sum(claim.size_gb), sa.func.sum(claim.physical_gb))
            .where(claim.pool_id.in_(pool_ids), claim.contained.is_(False))
            .group_by(claim.pool_id)
        )
    }
    for pool_id in sorted(pool_ids):
        size, physical = sums.get(pool_id, (0, 0))
        session.execute(
            sa.update(pool)
            .where(pool.id == pool_id)
            .values(in_flight_gb=size, in_flight_physical_gb=physical)
            .execution_options(synchronize_session=False)
        )
