# SPDX-License-Identifier: Apache-2.0
"""The counters of pools and backends: allocated and in-flight capacity.

Allocated is the sum of the live claims. In-flight is the sum of the claims that the pool's last report does not contain
yet, including released claims. The ``shared`` counters are the sums of claims of the other pools on the same storage.

Each transaction that changes counters locks rows in one order: quotas, request keys, backends, pools, each sorted; then
volumes and claims.
"""

import math
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.prepared_statements import Prepared

PENDING = "pending"
CONFIRMED = "confirmed"
ABANDONED = "abandoned"
RELEASED = "released"

#: States whose claims count as allocated.
LIVE = (PENDING, CONFIRMED, ABANDONED)

#: A report's epoch and covering tick.
Covers = tuple[int, int]


class Counters(NamedTuple):
    """The counters of one pool, in GiB. ``external`` is the capacity of copies that Tonnage did not place.

    (A tuple, because a starting scheduler makes one for each pool.)
    """

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


def from_row(values: Iterable[float]) -> Counters:
    """Return the counters from a row of :data:`COLUMNS`."""
    *whole, external = values
    return Counters._make((*map(int, whole), float(external)))


class CounterChange(NamedTuple):
    """GiB by which the counters of a pool change, negative if they fall.

    ``deleted`` is the part of the allocated capacity that falls because volumes were deleted, ``moved`` the part that
    rises (negative: falls) because volumes are migrated. The rest is created, or a creation is taken back.
    """

    allocated: int = 0
    in_flight: int = 0
    in_flight_physical: int = 0
    shared_allocated: int = 0
    shared_in_flight: int = 0
    shared_in_flight_physical: int = 0
    deleted: int = 0
    moved: int = 0

    def plus(self, other: "CounterChange") -> "CounterChange":
        """Return the sum of two changes."""
        return CounterChange(*map(operator.add, self, other))

    def minus(self, other: "CounterChange") -> "CounterChange":
        """Return the difference of two changes."""
        return CounterChange(*map(operator.sub, self, other))

    def applied_to(self, counters: Counters) -> Counters:
        """Return the counters after this change."""
        return Counters(
            counters.allocated + self.allocated,
            counters.in_flight + self.in_flight,
            counters.in_flight_physical + self.in_flight_physical,
            counters.shared_allocated + self.shared_allocated,
            counters.shared_in_flight + self.shared_in_flight,
            counters.shared_in_flight_physical + self.shared_in_flight_physical,
            counters.external,
        )


_POOL = models.table(models.Pool).c
_READ = Prepared(
    sa.select(_POOL.id, *(_POOL[column.key] for column in COLUMNS)).where(
        _POOL.id.in_(sa.bindparam("pool_ids", expanding=True))
    )
)


def read(session: orm.Session, pool_ids: Collection[int]) -> dict[int, Counters]:
    """Return the counters of the pools."""
    counters: dict[int, Counters] = {}
    for chunk in dialects.in_chunks(pool_ids):
        rows = _READ.rows(session.connection(), {"pool_ids": chunk})
        counters.update((row[0], from_row(row[1:])) for row in rows)
    return counters


def next_ids(session: orm.Session, after: int) -> list[int]:
    """Return the next ids of pools after this one, in their order: a chunk, or fewer at the end."""
    ids = sa.select(_POOL.id).where(_POOL.id > after).order_by(_POOL.id).limit(dialects.CHUNK_SIZE)
    return list(session.connection().execute(ids).scalars())


def allocated_on_backends(session: orm.Session) -> dict[int, int]:
    """Return the allocated capacity of all backends. It changes with each claim on their pools."""
    rows = session.execute(sa.select(models.Backend.id, models.Backend.allocated_capacity_gb))
    return {row[0]: int(row[1]) for row in rows}


class EndedClaim(Protocol):
    """The part of a claim that tells when it ended."""

    @property
    def backend_id(self) -> int: ...
    @property
    def end_epoch(self) -> int | None: ...
    @property
    def end_tick(self) -> int | None: ...
    @property
    def end_stamp(self) -> int | None: ...


def add_to_backends(session: orm.Session, added: Mapping[int, int], claimed_by: int | None = None) -> bool:
    """Add GiB to the allocated capacity of backends, in id order; a negative number takes away.

    ``claimed_by`` is the generation of the scheduling rules by which claims were decided: then only a backend that
    accepts claims is changed, which is enabled, not draining, and at that generation. Return False if one of them is
    not changed.
    """
    statement, parameters = _ADD_TO_BACKEND, dict[str, int]()
    if claimed_by is not None:
        statement, parameters = _CLAIM_ON_BACKEND, {"rules": claimed_by}
    rows = [{"of": key, "more": size, **parameters} for key, size in sorted(added.items()) if size]
    return not rows or statement.change(session.connection(), rows) == len(rows)


def add_to_pools(session: orm.Session, backends: Mapping[int, int], changes: Mapping[int, CounterChange]) -> None:
    """Change the counters of locked pools, and the allocated capacity of their backends.

    ``changes`` maps the ids of the pools to their changes, ``backends`` to the ids of their backends.
    """
    by_backend: dict[int, int] = {}
    for pool_id, change in changes.items():
        by_backend[backends[pool_id]] = by_backend.get(backends[pool_id], 0) + change.allocated
    add_to_backends(session, by_backend)
    rows = [{"of": pool_id, **change._asdict()} for pool_id, change in sorted(changes.items()) if any(change)]
    if rows:
        _ADD_TO_POOL.change(session.connection(), rows)


_BACKEND = models.table(models.Backend).c
_ADD_TO_ALLOCATED = (
    sa.update(models.table(models.Backend))
    .where(_BACKEND.id == sa.bindparam("of"))
    .values(allocated_capacity_gb=_BACKEND.allocated_capacity_gb + sa.bindparam("more", type_=sa.BigInteger()))
)
_ADD_TO_BACKEND = Prepared(_ADD_TO_ALLOCATED)
_CLAIM_ON_BACKEND = Prepared(
    _ADD_TO_ALLOCATED.where(
        _BACKEND.enabled.is_(True), _BACKEND.draining.is_(False), _BACKEND.rules_generation == sa.bindparam("rules")
    )
)
_ADD_TO_POOL = Prepared(
    sa.update(models.table(models.Pool))
    .where(_POOL.id == sa.bindparam("of"))
    .values(
        {
            column: _POOL[column] + sa.bindparam(name, type_=sa.BigInteger())
            for name, column in (
                ("allocated", "allocated_capacity_gb"),
                ("in_flight", "in_flight_gb"),
                ("in_flight_physical", "in_flight_physical_gb"),
                ("shared_allocated", "shared_allocated_gb"),
                ("shared_in_flight", "shared_in_flight_gb"),
                ("shared_in_flight_physical", "shared_in_flight_physical_gb"),
                ("deleted", "deleted_gb"),
                ("moved", "moved_gb"),
            )
        }
    )
)


def add_to_shared(session: orm.Session, storage_id: str, pool_id: int, size: int, physical: int) -> None:
    """Add a new claim of one pool to the ``shared`` counters of the other pools on its storage. They must be locked."""
    parameters = {"storage": storage_id, "claimed": pool_id, "size": size, "physical": physical}
    _ADD_TO_SHARED.change(session.connection(), [parameters])


_WHOLE_SIZE = sa.case((_POOL.storage_free_gb.is_(None), sa.bindparam("size", type_=sa.BigInteger())), else_=0)
_ADD_TO_SHARED = Prepared(
    sa.update(models.table(models.Pool))
    .where(_POOL.storage_id == sa.bindparam("storage"), _POOL.id != sa.bindparam("claimed"))
    .values(
        shared_allocated_gb=_POOL.shared_allocated_gb + _WHOLE_SIZE,
        shared_in_flight_gb=_POOL.shared_in_flight_gb + _WHOLE_SIZE,
        shared_in_flight_physical_gb=_POOL.shared_in_flight_physical_gb
        + sa.bindparam("physical", type_=sa.BigInteger()),
    )
)


def recount_in_flight(session: orm.Session, pool_ids: Collection[int]) -> None:
    """Set the in-flight counters of the pools to the sums of their uncontained claims.

    The pools must be locked by an earlier statement: a sum in the statement that takes the lock would be older than the
    lock.
    """
    for chunk in dialects.in_chunks(pool_ids):
        _RECOUNT.change(session.connection(), [{"pool_ids": chunk}])


_CLAIM = models.table(models.Claim).c


def _in_flight(column: sa.Column[int]) -> sa.ScalarSelect[int]:
    total = sa.select(sa.func.coalesce(sa.func.sum(column), 0))
    of_pool = total.where(_CLAIM.pool_id == _POOL.id, _CLAIM.contained.is_(False))
    return of_pool.correlate(models.table(models.Pool)).scalar_subquery()


_RECOUNT = Prepared(
    sa.update(models.table(models.Pool))
    .where(_POOL.id.in_(sa.bindparam("pool_ids", expanding=True)))
    .values(in_flight_gb=_in_flight(_CLAIM.size_gb), in_flight_physical_gb=_in_flight(_CLAIM.physical_gb))
)


def recount_shared(session: orm.Session, storage_ids: Collection[str]) -> set[int]:
    """Recount the ``shared`` counters of all pools on the storages; return the ids of those pools.

    The pools must be locked. A claim, released or not, counts against the figures of another pool until that pool's
    report comes from a look that began after the claim ended. Ticks tell that where both pools are on one backend, else
    stamps do (see :class:`tonnage.ledger.models.Storage`).

    No claim is kept for a pool that is no longer reported. If such a pool comes back, the claims that its figures lack
    count again, as for a pool that is new on the storage.
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
            ).where(claim.pool_id.in_([row.id for row in pools]), claim.contained_by_all.is_(False))
        ).all()
        coverages = {
            row.id: Coverage(row.backend_id, row.covers_epoch, row.covers_tick, row.covers_stamp) for row in pools
        }
        reported = {row.id: coverages[row.id] for row in pools if row.present}
        pools_by_coverage = Counter(reported.values())
        fully_contained = [
            claim_row
            for claim_row in claims
            if claim_row.contained
            # Where only the claim's own pool has this coverage, no other pool has to see the claim.
            and all(
                is_covered(claim_row, coverage) or count == (reported.get(claim_row.pool_id) == coverage)
                for coverage, count in pools_by_coverage.items()
            )
        ]
        settled_ids = {claim_row.id for claim_row in fully_contained}
        uncovered = {
            coverage: _UncoveredClaims(
                claim_row
                for claim_row in claims
                if claim_row.id not in settled_ids and not is_covered(claim_row, coverage)
            )
            for coverage in set(coverages.values())
        }
        # External capacity counts too, as no provisioned capacity shows it.
        occupied = {row.id: int(row.allocated_capacity_gb) + math.ceil(row.external_gb) for row in pools}
        total = sum(occupied.values())
        values = []
        for row in pools:
            size, physical = uncovered[coverages[row.id]].elsewhere(row.id)
            whole = row.storage_free_gb is None
            values.append(
                {
                    "id": row.id,
                    "shared_allocated_gb": total - occupied[row.id] if whole else 0,
                    "shared_in_flight_gb": size if whole else 0,
                    "shared_in_flight_physical_gb": physical,
                }
            )
        session.execute(sa.update(pool), sorted(values, key=lambda value: value["id"]))
        for released_ids in dialects.in_chunks(
            claim_row.id for claim_row in fully_contained if claim_row.state == RELEASED
        ):
            session.execute(
                sa.delete(claim).where(claim.id.in_(released_ids)).execution_options(synchronize_session=False)
            )
        for live_ids in dialects.in_chunks(
            claim_row.id for claim_row in fully_contained if claim_row.state != RELEASED
        ):
            session.execute(
                sa.update(claim)
                .where(claim.id.in_(live_ids))
                .values(contained_by_all=True)
                .execution_options(synchronize_session=False)
            )
    return touched


class Coverage(NamedTuple):
    """The coverage of a pool's figures. Pools of one backend mostly have the same coverage."""

    backend_id: int
    covers_epoch: int
    covers_tick: int
    covers_stamp: int


class _UncoveredClaims:
    """Sums of the claims on a storage that one coverage lacks."""

    def __init__(self, claims: Iterable[Any]) -> None:
        self._sizes: Counter[int] = Counter()
        self._physical: Counter[int] = Counter()
        for claim in claims:
            self._sizes[claim.pool_id] += claim.size_gb
            self._physical[claim.pool_id] += claim.physical_gb
        self._all = self._sizes.total(), self._physical.total()

    def elsewhere(self, pool_id: int) -> tuple[int, int]:
        """Return the sums, total and physical, over the claims of all pools but this one."""
        return self._all[0] - self._sizes[pool_id], self._all[1] - self._physical[pool_id]


def is_covered(claim: EndedClaim, coverage: Coverage) -> bool:
    """Return whether figures of this coverage contain a claim of another pool on the same storage."""
    if claim.backend_id == coverage.backend_id:
        covers = (coverage.covers_epoch, coverage.covers_tick)
        return claim.end_tick is not None and bool((claim.end_epoch, claim.end_tick) < covers)
    return claim.end_stamp is not None and bool(claim.end_stamp <= coverage.covers_stamp)
