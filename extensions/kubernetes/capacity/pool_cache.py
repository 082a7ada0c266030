# SPDX-License-Identifier: Apache-2.0
"""An in-memory cache of drivers' pools, updated from the rows that have changed."""

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import driver_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.ledger import tables

_DRIVER = tables.CsiDriver.__table__.c
# It is made once, on the table and not on the model: that takes a part of the time.
_DRIVER_NAMED = sa.select(
    _DRIVER.name, _DRIVER.uid, _DRIVER.version, _DRIVER.layout, _DRIVER.capacity_tracking, _DRIVER.claims_version
).where(_DRIVER.name == sa.bindparam("name"))
_LOCK_DRIVER_NAMED = _DRIVER_NAMED.with_for_update()


class DriverState(NamedTuple):
    """The pools of a driver, and the number of the last change of its claims."""

    columns: PoolColumns
    claims_version: int


class PoolCache:
    """A cache of drivers' pools as columns. Thread-safe."""

    def __init__(self) -> None:
        self._cached_columns: dict[str, PoolColumns] = {}
        self._lock = threading.Lock()

    def read(self, session: orm.Session, names: Iterable[str]) -> dict[str, PoolColumns]:
        """Return the pools of the named drivers. Drivers that do not exist are left out.

        They are consistent if the session is a snapshot.
        """
        return {name: state.columns for name, state in self.read_states(session, names).items()}

    def read_states(self, session: orm.Session, names: Iterable[str], *, lock: bool = False) -> dict[str, DriverState]:
        """Return the state of the named drivers. Drivers that do not exist are left out.

        They are consistent if the session is a snapshot. With ``lock`` they are too: the rows of the drivers are locked
        until the transaction ends, in the order of their names, so that there are no deadlocks.
        """
        driver_names = sorted(set(names))
        statement = _LOCK_DRIVER_NAMED if lock else _DRIVER_NAMED
        rows = [row for name in driver_names for row in session.execute(statement, {"name": name})]
        columns_by_driver = {row.name: self._current(session, row) for row in rows}
        with self._lock:
            for name, new_columns in columns_by_driver.items():
                cached_columns = self._cached_columns.get(name)
                if (
                    cached_columns is None
                    or cached_columns.uid != new_columns.uid
                    or cached_columns.version < new_columns.version
                ):
                    self._cached_columns[name] = new_columns
        return {row.name: DriverState(columns_by_driver[row.name], row.claims_version) for row in rows}

    def _current(self, session: orm.Session, row: Any) -> PoolColumns:
        with self._lock:
            cached_columns = self._cached_columns.get(row.name)
        # A session that began earlier reads an older version of the driver than the cached one.
        if (
            cached_columns is None
            or (cached_columns.uid, cached_columns.layout) != (row.uid, row.layout)
            or cached_columns.version > row.version
        ):
            storage = driver_rows.read_storage(session, row.uid)
            driver = Driver(
                name=row.name, uid=row.uid, version=row.version, tracking=row.capacity_tracking, storage=storage
            )
            return pool_columns.from_driver(driver, row.layout)
        if cached_columns.version == row.version:
            return cached_columns
        return cached_columns.updated(
            row.version,
            driver_rows.read_pools(session, row.uid, since=cached_columns.version),
            bool(row.capacity_tracking),
        )
