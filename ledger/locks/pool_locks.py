# SPDX-License-Identifier: Apache-2.0
"""Locks on the rows of pools, in the one order: first those of their backends, then those of the pools, each sorted."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import database, dialects
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.locks import ledger_identity, pool_counters
from tonnage.ledger.locks.pool_counters import Coverage, EndedClaim


class PoolPlace(NamedTuple):
    """The backend and the storage of a pool."""

    pool_id: int
    backend_id: int
    storage_id: str | None


class LockedPool(NamedTuple):
    """The row of a locked pool; ``stamp`` is the current stamp of its storage.

    ``is_part`` is whether it is a part carved out of its storage: only physical capacity of other pools counts there.
    """

    id: int
    backend_id: int
    storage_id: str | None
    is_part: bool
    is_present: bool
    coverage: Coverage
    stamp: int
    counters: pool_counters.Counters

    def contains(self, claim: EndedClaim) -> bool:
        """Return whether the figures of this pool contain a claim of another pool on its storage."""
        return pool_counters.is_covered(claim, self.coverage)

    @property
    def covers(self) -> pool_counters.Covers:
        """The epoch and the covering tick of the last report."""
        return self.coverage.covers_epoch, self.coverage.covers_tick


@dataclass(frozen=True, slots=True)
class LockedPools:
    """Pools whose rows, and whose backends' rows, are locked: their rows, and maps to backend and storage.

    ``epochs`` maps the ids of the locked backends to their epochs. ``shared`` maps each storage of the pools to the
    pools on it.
    """

    rows: Mapping[int, LockedPool]
    backends: Mapping[int, int]
    storages: Mapping[int, str | None]
    epochs: Mapping[int, int]
    shared: Mapping[str, Sequence[LockedPool]]


_BACKEND, _POOL = models.table(models.Backend).c, models.table(models.Pool).c
_STORAGE = models.table(models.Storage).c
_IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_PLACES = Prepared(sa.select(_POOL.id, _POOL.backend_id, _POOL.storage_id).where(_POOL.id.in_(_IDS)))
_ON_STORAGES = Prepared(sa.select(_POOL.id).where(_POOL.storage_id.in_(_IDS)))
_READ_BACKENDS = (
    sa.select(_BACKEND.id, _BACKEND.epoch, _BACKEND.rules_generation).where(_BACKEND.id.in_(_IDS)).order_by(_BACKEND.id)
)
_COLUMNS_OF_POOLS = (
    *(_POOL.id, _POOL.backend_id, _POOL.storage_id, _POOL.storage_free_gb.is_not(None), _POOL.present),
    *(_POOL.covers_epoch, _POOL.covers_tick, _POOL.covers_stamp),
    # An older stamp than that of the moment of the lock would do, too: the operation had ended before this statement.
    sa.select(_STORAGE.stamp).where(_STORAGE.name == _POOL.storage_id).scalar_subquery(),
    *(_POOL[column.key] for column in pool_counters.COLUMNS),
)
_READ_POOLS = sa.select(*_COLUMNS_OF_POOLS).where(_POOL.id.in_(_IDS)).order_by(_POOL.id)
_READ_STORAGE = sa.select(*_COLUMNS_OF_POOLS).where(_POOL.storage_id == sa.bindparam("ids")).order_by(_POOL.id)


def _for_update(statement: sa.Select[Any]) -> Prepared:
    return Prepared(statement.with_for_update())


_LOCK_BACKENDS, _LOCK_POOLS = _for_update(_READ_BACKENDS), _for_update(_READ_POOLS)
_LOCK_STORAGE = _for_update(_READ_STORAGE)


def lock(session: orm.Session, pool_ids: Collection[int], storage_ids: Collection[str] = ()) -> LockedPools:
    """Lock the backends of pools, then the pools and all pools on the same storages, in the one order of locks.

    ``storage_ids`` are further storages whose pools are locked: storages that the pools are about to join.

    On SQLite the whole transaction holds the lock already.

    Raises :class:`~tonnage.capacity.errors.LedgerMoved` if a copy of the ledger is used instead.
    """
    session.flush()
    connection = session.connection()
    return lock_placed(session, [PoolPlace(*row) for row in _select(connection, _PLACES, pool_ids)], storage_ids)


def lock_placed(
    session: orm.Session,
    places: Collection[PoolPlace],
    storage_ids: Collection[str] = (),
    *,
    with_shared: bool = True,
) -> LockedPools:
    """Do the same as :func:`lock` for pools whose places have been read in this transaction.

    Before their rows are locked a report may give them, or other pools, another storage: then the transaction runs
    again. After that it cannot, as it locks all pools of the storage that a pool joins.

    Without ``with_shared`` the other pools on the storages are not locked: no counter of a pool must change then.

    Raises :class:`~tonnage.ledger.db.database.StaleRead` if a place has changed.
    """
    connection = session.connection()
    ids = {place.pool_id for place in places}
    storages = {place.storage_id for place in places if place.storage_id is not None}.union(storage_ids)
    is_one_storage = with_shared and len(storages) == 1 and all(place.storage_id in storages for place in places)
    if with_shared and storages and not is_one_storage:
        ids.update(row[0] for row in _select(connection, _ON_STORAGES, storages))
    backends = _select(connection, _LOCK_BACKENDS, {place.backend_id for place in places})
    for backend in backends:
        if backend.rules_generation < 0:
            raise ledger_identity.moved(session)
    rows: list[Any] = []
    if is_one_storage:
        rows += _LOCK_STORAGE.rows(connection, {"ids": next(iter(storages))})
    else:
        rows += _select(connection, _LOCK_POOLS, ids)
    pools = [_locked_pool(row) for row in rows]
    _require_places(connection, ids, pools, with_shared)
    shared: dict[str, list[LockedPool]] = {}
    for pool in pools:
        if pool.storage_id is not None:
            shared.setdefault(pool.storage_id, []).append(pool)
    return LockedPools(
        {pool.id: pool for pool in pools},
        {pool.id: pool.backend_id for pool in pools},
        {pool.id: pool.storage_id for pool in pools},
        {row[0]: int(row[1]) for row in backends},
        shared,
    )


def _require_places(connection: sa.Connection, ids: set[int], pools: Sequence[LockedPool], shared: bool) -> None:
    """Raise :class:`~tonnage.ledger.db.database.StaleRead` unless all pools on the storages of the pools are locked.

    On SQLite the transaction has held the lock of the whole ledger since before its first read.
    """
    if not shared or connection.dialect.name == "sqlite":
        return
    storages = {pool.storage_id for pool in pools if pool.storage_id is not None}
    locked = {pool.id for pool in pools}
    missing = ids - locked
    missing.update(row[0] for row in _select(connection, _ON_STORAGES, storages) if row[0] not in locked)
    if missing and _select(connection, _PLACES, missing):
        raise database.StaleRead(f"pools {sorted(missing)[:5]} have changed their storage")


def _locked_pool(row: Any) -> LockedPool:
    id, backend_id, storage_id, is_part, is_present, epoch, tick, covers_stamp, stamp, *counters = row
    return LockedPool(
        id=id,
        backend_id=backend_id,
        storage_id=storage_id,
        is_part=bool(is_part),
        is_present=is_present,
        coverage=Coverage(backend_id, int(epoch), int(tick), int(covers_stamp)),
        stamp=int(stamp or 0),
        counters=pool_counters.from_row(counters),
    )


def _select(connection: sa.Connection, statement: Prepared, ids: Collection[Any]) -> list[Any]:
    return [row for chunk in dialects.in_chunks(sorted(ids)) for row in statement.rows(connection, {"ids": chunk})]
