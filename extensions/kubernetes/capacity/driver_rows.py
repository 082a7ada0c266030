# SPDX-License-Identifier: Apache-2.0
"""The rows of drivers in the ledger's database.

A transaction that changes a driver's storage, or claims capacity, locks the driver's row first. So concurrent writers
take turns without lost updates or deadlocks.
"""

import datetime
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors, type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import patches
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, Storage
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch, PoolPatch, StoragePatch
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models
from tonnage.ledger.db import database

_STORAGE, _POOL = tables.CsiStorage, tables.CsiPool

#: Number of names in one statement.
_BATCH_SIZE = 500


class VersionConflict(errors.Conflict):
    """The driver's version is not the one that the patch names."""


def find(session: orm.Session, name: str) -> Driver:
    """Return a driver with its storage. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    row = session.scalar(sa.select(tables.CsiDriver).where(tables.CsiDriver.name == name))
    if row is None:
        raise _not_found(name)
    return _driver(row, read_storage(session, row.uid))


def list_all(session: orm.Session) -> list[Driver]:
    """Return all drivers by name, without their storage."""
    rows = session.scalars(sa.select(tables.CsiDriver).order_by(tables.CsiDriver.name))
    return [_driver(row, ()) for row in rows]


def patch(session: orm.Session, name: str, change: DriverPatch) -> Driver:
    """Apply a patch to a driver, and return the driver without its storage.

    A missing driver is created only if the patch has a ``spec``, so a writer that does not know of a driver's removal
    does not restore it. Raises :class:`~tonnage.capacity.errors.NotFound`,
    :class:`~tonnage.capacity.errors.InvalidInput` and :class:`VersionConflict`.
    """
    storage = change.storage()
    version = None if change.metadata is None else change.metadata.resource_version
    row = lock(session, name)
    if row is None:
        if not isinstance(change.spec, patches.SpecPatch) or version is not None:
            raise _not_found(name)
        row = _insert(session, name)
    elif version is not None and version != (current := _driver(row, ()).resource_version):
        raise VersionConflict(f"driver {name!r} is of version {current}, no longer of {version[:64]}: read it again")
    tracking = _merged_tracking(change, row.capacity_tracking)
    update = _StorageUpdate(session, row.uid, row.version + 1)
    update.apply(storage)
    if update.changed or tracking != row.capacity_tracking:
        row.version += 1
        row.layout += update.layout_changed
        row.capacity_tracking = tracking
    session.flush()
    return _driver(row, ())


def delete(session: orm.Session, name: str) -> None:
    """Delete a driver with its pools and claims. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    row = lock(session, name)
    if row is None:
        raise _not_found(name)
    for table in (tables.CsiClaim, tables.CsiClaimEnd, _POOL, _STORAGE):
        session.execute(sa.delete(table).where(table.driver_uid == row.uid))
    session.delete(row)
    session.flush()


def lock(session: orm.Session, name: str) -> tables.CsiDriver | None:
    """Lock a driver's row until the transaction ends, and return it; return None if there is none."""
    query = sa.select(tables.CsiDriver).where(tables.CsiDriver.name == name).with_for_update()
    row: tables.CsiDriver | None = session.scalar(query)
    return row


def lock_or_create(session: orm.Session, name: str) -> tables.CsiDriver:
    """Lock a driver's row until the transaction ends, and return it. A new driver tracks capacity."""
    row = lock(session, name)
    if row is None:
        row = _insert(session, name)
        row.capacity_tracking = True
    return row


def write_pools(
    session: orm.Session,
    row: tables.CsiDriver,
    pools: Sequence[tuple[str, Pool]],
    removed: Collection[tuple[str, str]] = (),
) -> None:
    """Write whole pools, each given with its storage class, and remove others, each a storage class and a name.

    The transaction has locked the driver's row. Raises :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    update = _StorageUpdate(session, row.uid, row.version + 1)
    update.write(pools, removed)
    row.version += update.changed
    row.layout += update.layout_changed
    session.flush()


def drivers_with_objects(session: orm.Session) -> set[str]:
    """Return the names of the drivers with figures from ``CSIStorageCapacity`` objects."""
    query = sa.select(tables.CsiDriver.name).join(_POOL, _POOL.driver_uid == tables.CsiDriver.uid)
    return set(session.scalars(query.where(_POOL.object_name.is_not(None)).distinct()))


def read_storage(session: orm.Session, uid: str) -> tuple[Storage, ...]:
    """Return the storage of a driver, ordered by storage class and pool name."""
    pools_by_class: dict[str, list[Pool]] = {
        class_name: []
        for class_name in session.scalars(
            sa.select(_STORAGE.storage_class).where(_STORAGE.driver_uid == uid).order_by(_STORAGE.storage_class)
        )
    }
    for storage_class, pool in read_pools(session, uid):
        pools_by_class[storage_class].append(pool)
    return tuple(Storage(name, tuple(pools)) for name, pools in pools_by_class.items())


def read_pools(session: orm.Session, uid: str, since: int | None = None) -> list[tuple[str, Pool]]:
    """Return the pools of a driver with their storage classes. ``since`` selects those written after that version."""
    table = models.table(_POOL)
    query = sa.select(table).where(table.c.driver_uid == uid).order_by(table.c.storage_class, table.c.name)
    if since is not None:
        query = query.where(table.c.version > since)
    return [(row.storage_class, _pool(row)) for row in session.connection().execute(query)]


@dataclass(slots=True)
class _StorageUpdate:
    """An update of one driver's storage.

    ``layout_changed`` tells whether anything but capacities, sizes and times has changed.
    """

    session: orm.Session
    uid: str
    version: int
    changed: bool = False
    layout_changed: bool = False

    def apply(self, storage: Sequence[StoragePatch] | None) -> None:
        """Apply the patches; None deletes all storage."""
        if storage is None:
            self._delete(_POOL, ())
            self._delete(_STORAGE, ())
            return
        stored_classes = set(
            self.session.scalars(sa.select(_STORAGE.storage_class).where(_STORAGE.driver_uid == self.uid))
            if storage
            else ()
        )
        for storage_patch in storage:
            name = storage_patch.storage_class_name
            if storage_patch.deletes:
                self._delete(_POOL, (_POOL.storage_class == name,))
                self._delete(_STORAGE, (_STORAGE.storage_class == name,))
                continue
            if name not in stored_classes:
                self.session.add(_STORAGE(driver_uid=self.uid, storage_class=name))
                self.changed = self.layout_changed = True
            if storage_patch.pools is None:
                self._delete(_POOL, (_POOL.storage_class == name,))
            elif not isinstance(storage_patch.pools, UnsetType):
                self._apply_pools(name, storage_patch.pools)

    def _apply_pools(self, storage_class: str, pools: Sequence[PoolPatch]) -> None:
        rows = self._find_rows(storage_class, [pool.name for pool in pools])
        for pool_patch in pools:
            row = rows.get(pool_patch.name)
            if pool_patch.deletes:
                if row is not None:
                    self.session.delete(row)
                    self.changed = self.layout_changed = True
                continue
            old = Pool(name=pool_patch.name) if row is None else _pool(row)
            new = patches.apply(old, pool_patch)
            new.validate(storage_class)
            if row is not None and new == old:
                continue
            if row is None:
                row = _POOL(driver_uid=self.uid, storage_class=storage_class, name=pool_patch.name)
                self.session.add(row)
                self.layout_changed = True
            self._write(row, old, new)

    def write(self, pools: Sequence[tuple[str, Pool]], removed: Collection[tuple[str, str]]) -> None:
        """Write whole pools, each given with its storage class, and remove others."""
        classes = self.session.scalars(sa.select(_STORAGE.storage_class).where(_STORAGE.driver_uid == self.uid))
        stored_classes = set(classes)
        by_class: dict[str, list[Pool]] = {}
        for storage_class, pool in pools:
            by_class.setdefault(storage_class, []).append(pool)
        for storage_class, class_pools in by_class.items():
            if storage_class not in stored_classes:
                self.session.add(_STORAGE(driver_uid=self.uid, storage_class=storage_class))
                self.changed = self.layout_changed = True
            rows = self._find_rows(storage_class, [pool.name for pool in class_pools])
            for pool in class_pools:
                pool.validate(storage_class)
                row = rows.get(pool.name)
                old = Pool(name=pool.name) if row is None else _pool(row)
                if row is None:
                    row = _POOL(driver_uid=self.uid, storage_class=storage_class, name=pool.name)
                    self.session.add(row)
                    self.layout_changed = True
                elif old == pool:
                    continue
                self._write(row, old, pool)
        for storage_class, name in removed:
            self._delete(_POOL, (_POOL.storage_class == storage_class, _POOL.name == name))

    def _write(self, row: tables.CsiPool, old: Pool, new: Pool) -> None:
        self.changed = True
        row.object_name, row.object_version = new.object_name, new.object_version
        row.version = self.version
        row.capacity, row.maximum_volume_size, row.expires_at = new.capacity, new.maximum_volume_size, new.expires_at
        if (old.node_topology, old.node_list, old.backing_id) != (new.node_topology, new.node_list, new.backing_id):
            self.layout_changed = True
            row.node_topology = None if new.node_topology is None else msgspec.to_builtins(new.node_topology)
            row.node_list = None if new.node_list is None else list(new.node_list)
            row.backing_id = new.backing_id

    def _find_rows(self, storage_class: str, names: Sequence[str]) -> dict[str, tables.CsiPool]:
        rows: dict[str, tables.CsiPool] = {}
        query = sa.select(_POOL).where(_POOL.driver_uid == self.uid, _POOL.storage_class == storage_class)
        for start in range(0, len(names), _BATCH_SIZE):
            part: Collection[str] = names[start : start + _BATCH_SIZE]
            rows |= {row.name: row for row in self.session.scalars(query.where(_POOL.name.in_(part)))}
        return rows

    def _delete(self, table: Any, conditions: Iterable[Any]) -> None:
        statement = sa.delete(table).where(table.driver_uid == self.uid, *conditions)
        if self.session.execute(statement.execution_options(synchronize_session=False)).rowcount:  # type: ignore[attr-defined]
            self.changed = self.layout_changed = True


def _insert(session: orm.Session, name: str) -> tables.CsiDriver:
    row = tables.CsiDriver(uid=str(uuid.uuid4()), name=name, version=0, layout=0)
    session.add(row)
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise database.StaleRead(f"driver {name} has just been made") from None
    return row


def _merged_tracking(change: DriverPatch, old: bool | None) -> bool | None:
    if isinstance(change.spec, UnsetType):
        return old
    value = None if change.spec is None else change.spec.capacity_tracking
    return old if isinstance(value, UnsetType) else value


def _driver(row: tables.CsiDriver, storage: tuple[Storage, ...]) -> Driver:
    return Driver(
        name=row.name,
        uid=row.uid,
        version=row.version,
        tracking=row.capacity_tracking,
        storage=storage,
        created_at=row.created_at,
    )


def _pool(row: Any) -> Pool:
    topology, listed = row.node_topology, row.node_list
    expires: datetime.datetime | None = row.expires_at
    return Pool(
        name=row.name,
        node_topology=None if topology is None else type_conversion.convert(topology, NodeSelector),
        node_list=None if listed is None else tuple(listed),
        capacity=row.capacity,
        maximum_volume_size=row.maximum_volume_size,
        expires_at=expires,
        backing_id=row.backing_id,
        object_name=row.object_name,
        object_version=row.object_version,
    )


def _not_found(name: str) -> errors.NotFound:
    return errors.NotFound(f"There is no driver {name!r}; a change that has a spec makes one.")
