# SPDX-License-Identifier: Apache-2.0
"""The counters of pools and backends: allocated and in-flight capacity.

Allocated is the sum of the live claims, in-flight the sum of those that the pool's last report does not contain yet,
released ones included. The ``shared`` counters are what the claims of other pools on the same storage add to that.

Whoever changes counters locks rows in one order: quotas, request keys, backends, pools, each sorted; then volumes and
claims.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import chunks

PENDING = "pending"
CONFIRMED = "confirmed"
ABANDONED = "abandoned"
RELEASED = "released"

#: States whose claims count as allocated.
LIVE = (PENDING, CONFIRMED, ABANDONED)

#: A report's epoch and covering tick.
Covers = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one pool, in GiB, and what volumes have there that Tonnage did not place."""

    allocated: int = 0
    in_flight: int = 0
    in_flight_physical: int = 0
    shared_allocated: int = 0
    shared_in_flight: int = 0
    shared_in_flight_physical: int = 0
    external: float = 0.0


#: The columns of :class:`Counters`, in its order.
COLUMNS = (
    models.Pool.allocated_capacity_gb,
    models.Pool.in_flight_gb,
    models.Pool.in_flight_physical_gb,
    models.Pool.shared_allocated_gb,
    models.Pool.shared_in_flight_gb,
    models.Pool.shared_in_flight_physical_gb,
    models.Pool.external_gb,
)


def of_row(values: Iterable[float]) -> Counters:
    """Return the counters that :data:`COLUMNS` were read as."""
    allocated, in_flight, physical, shared_allocated, shared, shared_physical, external = values
    return Counters(
        int(allocated),
        int(in_flight),
        int(physical),
        int(shared_allocated),
        int(shared),
        int(shared_physical),
        float(external),
    )


def read(session: orm.Session, pool_ids: Collection[int]) -> dict[int, Counters]:
    """Return the counters of the pools."""
    pool = models.Pool
    found: dict[int, Counters] = {}
    for some in chunks.cut(pool_ids):
        rows = session.execute(sa.select(pool.id, *COLUMNS).where(pool.id.in_(some)))
        found.update((row[0], of_row(row[1:])) for row in rows)
    return found


@dataclass(frozen=True, slots=True)
class Locked:
    """Pools whose rows, and those of their backends, are locked: the backend, storage and last report of each.

    ``epochs`` are those of the backends that were locked, by their id.
    """

    backends: Mapping[int, int]
    storages: Mapping[int, str | None]
    covers: Mapping[int, Covers]
    epochs: Mapping[int, int]

    def shared(self) -> set[str]:
        """Return the storages that any of the pools is on."""
        return {storage for storage in self.storages.values() if storage is not None}


def lock(session: orm.Session, pool_ids: Collection[int], storage_ids: Collection[str] = ()) -> Locked:
    """Lock the backends of pools, then the pools themselves and all that share a storage with them, in the one order.

    ``storage_ids`` are further storages whose pools are locked: those that the pools are about to be on.

    On SQLite the whole transaction holds the lock already.
    """
    pool, backend = models.Pool, models.Backend
    found = [
        row
        for some in chunks.cut(pool_ids)
        for row in session.execute(sa.select(pool.id, pool.backend_id, pool.storage_id).where(pool.id.in_(some)))
    ]
    storages = {row[2] for row in found if row[2] is not None} | set(storage_ids)
    ids, backend_ids = {row[0] for row in found}, {row[1] for row in found}
    for names in chunks.cut(sorted(storages)):
        ids.update(session.scalars(sa.select(pool.id).where(pool.storage_id.in_(names))))
    of_backends = sa.select(backend.id, backend.epoch).order_by(backend.id).with_for_update()
    epochs = [
        row
        for some in chunks.cut(sorted(backend_ids))
        for row in session.execute(of_backends.where(backend.id.in_(some)))
    ]
    of_pools = (
        sa.select(pool.id, pool.backend_id, pool.storage_id, pool.covers_epoch, pool.covers_tick)
        .order_by(pool.id)
        .with_for_update()
    )
    rows = [row for some in chunks.cut(sorted(ids)) for row in session.execute(of_pools.where(pool.id.in_(some)))]
    return Locked(
        {row[0]: row[1] for row in rows},
        {row[0]: row[2] for row in rows},
        {row[0]: (int(row[3]), int(row[4])) for row in rows},
        {row[0]: int(row[1]) for row in epochs},
    )


def add_to_backends(session: orm.Session, added: Mapping[int, int]) -> None:
    """Add GiB to the allocated capacity of backends (negative: take away)."""
    _add(session, _ADD_TO_BACKEND, added)


def claim_on_backends(session: orm.Session, added: Mapping[int, int], rules: int) -> bool:
    """Add GiB to the allocated capacity of backends that may take any more; tell whether all of these may.

    None may if the rules are of another generation than ``rules``.
    """
    return _add(session, _CLAIM_ON_BACKEND, added, rules=rules)


def add_to_pools(session: orm.Session, locked: Locked, added: Mapping[int, int]) -> None:
    """Add GiB to the allocated capacity of locked pools (negative: take away), and to that of their backends."""
    by_backend: dict[int, int] = {}
    for pool_id, size in added.items():
        by_backend[locked.backends[pool_id]] = by_backend.get(locked.backends[pool_id], 0) + size
    add_to_backends(session, by_backend)
    _add(session, _ADD_TO_POOL, added)


def _add(session: orm.Session, statement: sa.Update, added: Mapping[int, int], **given: int) -> bool:
    """Execute an update for each of these; tell whether each matched its row."""
    rows = [{"of": key, "more": size, **given} for key, size in sorted(added.items()) if size]
    return not rows or session.connection().execute(statement, rows).rowcount == len(rows)


def _adding(table: sa.Table) -> sa.Update:
    more = sa.bindparam("more", type_=sa.BigInteger())
    return (
        sa.update(table)
        .where(table.c.id == sa.bindparam("of"))
        .values(allocated_capacity_gb=table.c.allocated_capacity_gb + more)
    )


_ADD_TO_BACKEND = _adding(models.table(models.Backend))
_CLAIM_ON_BACKEND = _ADD_TO_BACKEND.where(
    models.Backend.enabled.is_(True),
    models.Backend.draining.is_(False),
    models.Backend.rules_generation == sa.bindparam("rules"),
)
_ADD_TO_POOL = _adding(models.table(models.Pool))


def spread(session: orm.Session, storage_id: str, pool_id: int, size: int, physical: int) -> None:
    """Let the other pools on a storage count what one of them has just claimed. They must be locked."""
    pool = models.Pool
    whole = sa.case((pool.storage_free_gb.is_(None), size), else_=0)
    session.execute(
        sa.update(pool)
        .where(pool.storage_id == storage_id, pool.id != pool_id)
        .values(
            shared_allocated_gb=pool.shared_allocated_gb + whole,
            shared_in_flight_gb=pool.shared_in_flight_gb + whole,
            shared_in_flight_physical_gb=pool.shared_in_flight_physical_gb + physical,
        )
        .execution_options(synchronize_session=False)
    )


def recount_in_flight(session: orm.Session, pool_ids: Collection[int]) -> None:
    """Set what is in flight on the pools to the sum of their claims that are not contained.

    The pools must be locked: a sum taken in the statement that takes the lock would be of the time before it.
    """
    claim, pool = models.Claim, models.Pool

    def total(column: orm.InstrumentedAttribute[int]) -> sa.ScalarSelect[int]:
        return (
            sa.select(sa.func.coalesce(sa.func.sum(column), 0))
            .where(claim.pool_id == pool.id, claim.contained.is_(False))
            .correlate(pool)
            .scalar_subquery()
        )

    for some in chunks.cut(pool_ids):
        session.execute(
            sa.update(pool)
            .where(pool.id.in_(some))
            .values(in_flight_gb=total(claim.size_gb), in_flight_physical_gb=total(claim.physical_gb))
            .execution_options(synchronize_session=False)
        )


def recount_shared(session: orm.Session, storage_ids: Collection[str]) -> set[int]:
    """Work out anew, for pools that share storages, what the others there add; return those pools.

    They must be locked. A claim, released or not, counts against another pool's figures until a look has seen it that
    began after its end: by ticks where both pools are of one backend, else by stamps (see
    :class:`tonnage.ledger.models.Storage`). Pools that are no longer reported are not waited for: should one come
    back, it counts what its figures lack as one does that is new on the storage.
    """
    pool, claim = models.Pool, models.Claim
    touched: set[int] = set()
    for storage_id in sorted(storage_ids):
        pools = session.execute(
            sa.select(
                pool.id,
                pool.backend_id,
                pool.allocated_capacity_gb,
                pool.external_gb,
                pool.storage_free_gb,
                pool.covers_epoch,
                pool.covers_tick,
                pool.covers_stamp,
                pool.present,
            ).where(pool.storage_id == storage_id)
        ).all()
        touched.update(row.id for row in pools)
        claims = session.execute(
            sa.select(
                claim.id,
                claim.pool_id,
                claim.backend_id,
                claim.size_gb,
                claim.physical_gb,
                claim.state,
                claim.contained,
                claim.end_epoch,
                claim.end_tick,
                claim.end_stamp,
            ).where(claim.pool_id.in_([row.id for row in pools]), claim.everywhere.is_(False))
        ).all()
        views = {row.id: _View(row.backend_id, row.covers_epoch, row.covers_tick, row.covers_stamp) for row in pools}
        reported = {row.id: views[row.id] for row in pools if row.present}
        looking = Counter(reported.values())
        settled = [
            one
            for one in claims
            if one.contained
            # In the view of its own pool others have to see it too, if there are any.
            and all(_seen(one, view) or count == (reported.get(one.pool_id) == view) for view, count in looking.items())
        ]
        gone = {one.id for one in settled}
        unseen = {
            view: _Unseen(one for one in claims if one.id not in gone and not _seen(one, view))
            for view in set(views.values())
        }
        # What others than Tonnage placed there counts too, where no provisioned capacity shows it.
        held = {row.id: int(row.allocated_capacity_gb) + math.ceil(row.external_gb) for row in pools}
        total = sum(held.values())
        values = []
        for row in pools:
            size, physical = unseen[views[row.id]].elsewhere(row.id)
            whole = row.storage_free_gb is None
            values.append(
                {
                    "id": row.id,
                    "shared_allocated_gb": total - held[row.id] if whole else 0,
                    "shared_in_flight_gb": size if whole else 0,
                    "shared_in_flight_physical_gb": physical,
                }
            )
        session.execute(sa.update(pool), sorted(values, key=lambda value: value["id"]))
        for over in chunks.cut(one.id for one in settled if one.state == RELEASED):
            session.execute(sa.delete(claim).where(claim.id.in_(over)).execution_options(synchronize_session=False))
        for there in chunks.cut(one.id for one in settled if one.state != RELEASED):
            session.execute(
                sa.update(claim)
                .where(claim.id.in_(there))
                .values(everywhere=True)
                .execution_options(synchronize_session=False)
            )
    return touched


class _View(NamedTuple):
    """What the figures of a pool contain; those of pools of one backend mostly contain the same."""

    backend_id: int
    covers_epoch: int
    covers_tick: int
    covers_stamp: int


class _Unseen:
    """What claims on a storage add up to that are not in a view."""

    def __init__(self, claims: Iterable[Any]) -> None:
        self._sizes: Counter[int] = Counter()
        self._physical: Counter[int] = Counter()
        for claim in claims:
            self._sizes[claim.pool_id] += claim.size_gb
            self._physical[claim.pool_id] += claim.physical_gb
        self._all = self._sizes.total(), self._physical.total()

    def elsewhere(self, pool_id: int) -> tuple[int, int]:
        """Return the sums of those in other pools than this one: of what they add, and of what of that is physical."""
        return self._all[0] - self._sizes[pool_id], self._all[1] - self._physical[pool_id]


def _seen(claim: Any, view: _View) -> bool:
    """Tell whether figures contain a claim of another pool on the same storage."""
    if claim.backend_id == view.backend_id:
        covers = (view.covers_epoch, view.covers_tick)
        return claim.end_tick is not None and bool((claim.end_epoch, claim.end_tick) < covers)
    return claim.end_stamp is not None and bool(claim.end_stamp <= view.covers_stamp)
