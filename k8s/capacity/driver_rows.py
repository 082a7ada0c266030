# SPDX-License-Identifier: Apache-2.0
"""Drivers in the ledger's database.

A driver's row is locked first by whoever changes its storage or claims some of it, so any number of writers take turns:
none overwrites what another one wrote, and none waits for one that waits for it.
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
from tonnage.k8s.capacity import patches
from tonnage.k8s.capacity.driver_storage import Driver, Pool, Storage
from tonnage.k8s.capacity.patches import DriverPatch, PoolPatch, StoragePatch
from tonnage.ledger import models
from tonnage.ledger.db import database

_STORAGE, _POOL = models.CsiStorage, models.CsiPool

#: How many names stand in one statement.
_AT_ONCE = 500


class VersionConflict(errors.Conflict):
    """The driver is of another version than the one that was named."""


def find(session: orm.Session, name: str) -> Driver:
    """Return a driver with its storage. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    row = session.scalar(sa.select(models.CsiDriver).where(models.CsiDriver.name == name))
    if row is None:
        raise _missing(name)
    return _driver(row, read_storage(session, row.uid))


def every(session: orm.Session) -> list[Driver]:
    """Return all drivers by name, without their storage."""
    rows = session.scalars(sa.select(models.CsiDriver).order_by(models.CsiDriver.name))
    return [_driver(row, ()) for row in rows]


def patch(session: orm.Session, name: str, change: DriverPatch) -> Driver:
    """Change a driver, and return it without its storage. One that is not there is made if the change has a ``spec``.

    So a writer that has not heard of a driver's removal does not bring it back. Raises
    :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
    :class:`VersionConflict`.
    """
    storage = change.storage()
    version = None if change.metadata is None else change.metadata.resource_version
    row = locked(session, name)
    if row is None:
        if not isinstance(change.spec, patches.SpecPatch) or version is not None:
            raise _missing(name)
        row = _added(session, name)
    elif version is not None and version != (current := _driver(row, ()).resource_version):
        raise VersionConflict(f"driver {name!r} is of version {current}, no longer of {version[:64]}: read it again")
    tracking = _tracking(change, row.capacity_tracking)
    work = _Changes(session, row.uid, row.version + 1)
    work.apply(storage)
    if work.changed or tracking != row.capacity_tracking:
        row.version += 1
        row.layout += work.relaid
        row.capacity_tracking = tracking
    session.flush()
    return _driver(row, ())


def delete(session: orm.Session, name: str) -> None:
    """Remove a driver and its figures. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    row = locked(session, name)
    if row is None:
        raise _missing(name)
    for table in (models.CsiClaim, _POOL, _STORAGE):
        session.execute(sa.delete(table).where(table.driver_uid == row.uid))
    session.delete(row)
    session.flush()


def locked(session: orm.Session, name: str) -> models.CsiDriver | None:
    """Return a driver's row, held until the transaction ends; None if there is none."""
    chosen = sa.select(models.CsiDriver).where(models.CsiDriver.name == name).with_for_update()
    found: models.CsiDriver | None = session.scalar(chosen)
    return found


def read_storage(session: orm.Session, uid: str) -> tuple[Storage, ...]:
    """Return the storage of a driver, by storage class and name."""
    found: dict[str, list[Pool]] = {
        each: []
        for each in session.scalars(
            sa.select(_STORAGE.storage_class).where(_STORAGE.driver_uid == uid).order_by(_STORAGE.storage_class)
        )
    }
    for storage_class, pool in read_pools(session, uid):
        found[storage_class].append(pool)
    return tuple(Storage(name, tuple(pools)) for name, pools in found.items())


def read_pools(session: orm.Session, uid: str, since: int | None = None) -> list[tuple[str, Pool]]:
    """Return the pools of a driver with their storage classes, of a ``since`` those that were written after it."""
    table = models.table(_POOL)
    chosen = sa.select(table).where(table.c.driver_uid == uid).order_by(table.c.storage_class, table.c.name)
    if since is not None:
        chosen = chosen.where(table.c.version > since)
    return [(row.storage_class, _pool(row)) for row in session.connection().execute(chosen)]


@dataclass(slots=True)
class _Changes:
    """Changes of one driver's storage. ``relaid`` tells whether anything but capacities, sizes and times is another."""

    session: orm.Session
    uid: str
    version: int
    changed: bool = False
    relaid: bool = False

    def apply(self, storage: Sequence[StoragePatch] | None) -> None:
        """Carry them out; None takes all storage away."""
        if storage is None:
            self._delete(_POOL, ())
            self._delete(_STORAGE, ())
            return
        known = set(
            self.session.scalars(sa.select(_STORAGE.storage_class).where(_STORAGE.driver_uid == self.uid))
            if storage
            else ()
        )
        for each in storage:
            name = each.storage_class_name
            if each.deletes:
                self._delete(_POOL, (_POOL.storage_class == name,))
                self._delete(_STORAGE, (_STORAGE.storage_class == name,))
                continue
            if name not in known:
                self.session.add(_STORAGE(driver_uid=self.uid, storage_class=name))
                self.changed = self.relaid = True
            if each.pools is None:
                self._delete(_POOL, (_POOL.storage_class == name,))
            elif not isinstance(each.pools, UnsetType):
                self._pools(name, each.pools)

    def _pools(self, storage_class: str, pools: Sequence[PoolPatch]) -> None:
        rows = self._rows(storage_class, [pool.name for pool in pools])
        for each in pools:
            row = rows.get(each.name)
            if each.deletes:
                if row is not None:
                    self.session.delete(row)
                    self.changed = self.relaid = True
                continue
            old = Pool(name=each.name) if row is None else _pool(row)
            new = patches.merged(old, each)
            new.check(storage_class)
            if row is not None and new == old:
                continue
            if row is None:
                row = _POOL(driver_uid=self.uid, storage_class=storage_class, name=each.name)
                self.session.add(row)
                self.relaid = True
            self._write(row, old, new)

    def _write(self, row: models.CsiPool, old: Pool, new: Pool) -> None:
        self.changed = True
        row.version = self.version
        row.capacity, row.maximum_volume_size, row.expires_at = new.capacity, new.maximum_volume_size, new.expires_at
        if (old.node_topology, old.node_list, old.backing_id) != (new.node_topology, new.node_list, new.backing_id):
            self.relaid = True
            row.node_topology = None if new.node_topology is None else msgspec.to_builtins(new.node_topology)
            row.node_list = None if new.node_list is None else list(new.node_list)
            row.backing_id = new.backing_id

    def _rows(self, storage_class: str, names: Sequence[str]) -> dict[str, models.CsiPool]:
        found: dict[str, models.CsiPool] = {}
        chosen = sa.select(_POOL).where(_POOL.driver_uid == self.uid, _POOL.storage_class == storage_class)
        for start in range(0, len(names), _AT_ONCE):
            part: Collection[str] = names[start : start + _AT_ONCE]
            found |= {row.name: row for row in self.session.scalars(chosen.where(_POOL.name.in_(part)))}
        return found

    def _delete(self, table: Any, conditions: Iterable[Any]) -> None:
        statement = sa.delete(table).where(table.driver_uid == self.uid, *conditions)
        if self.session.execute(statement.execution_options(synchronize_session=False)).rowcount:  # type: ignore[attr-defined]
            self.changed = self.relaid = True


def _added(session: orm.Session, name: str) -> models.CsiDriver:
    row = models.CsiDriver(uid=str(uuid.uuid4()), name=name, version=0, layout=0)
    session.add(row)
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise database.Overtaken(f"driver {name} has just been made") from None
    return row


def _tracking(change: DriverPatch, old: bool | None) -> bool | None:
    if isinstance(change.spec, UnsetType):
        return old
    value = None if change.spec is None else change.spec.capacity_tracking
    return old if isinstance(value, UnsetType) else value


def _driver(row: models.CsiDriver, storage: tuple[Storage, ...]) -> Driver:
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
    )


def _missing(name: str) -> errors.NotFound:
    return errors.NotFound(f"There is no driver {name!r}; a change that has a spec makes one.")
