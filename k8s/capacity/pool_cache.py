# SPDX-License-Identifier: Apache-2.0
"""An in-memory cache of drivers' pools, updated from the rows that have changed."""

import threading
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.k8s.capacity import driver_rows, pool_columns
from tonnage.k8s.capacity.driver_storage import Driver
from tonnage.k8s.capacity.pool_columns import PoolColumns
from tonnage.ledger import models

_DRIVER = models.CsiDriver


class PoolCache:
    """A cache of drivers' pools as columns. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, PoolColumns] = {}
        self._lock = threading.Lock()

    def read(self, session: orm.Session, names: Iterable[str]) -> dict[str, PoolColumns]:
        """Return the pools of those of the named drivers that exist.

        They are consistent if the session is a snapshot or has locked the rows of the drivers.
        """
        wanted = sorted(set(names))
        columns = (_DRIVER.name, _DRIVER.uid, _DRIVER.version, _DRIVER.layout, _DRIVER.capacity_tracking)
        rows = session.execute(sa.select(*columns).where(_DRIVER.name.in_(wanted))).all() if wanted else []
        found = {row.name: self._current(session, row) for row in rows}
        with self._lock:
            for name, each in found.items():
                known = self._known.get(name)
                if known is None or known.uid != each.uid or known.version < each.version:
                    self._known[name] = each
        return found

    def _current(self, session: orm.Session, row: Any) -> PoolColumns:
        with self._lock:
            known = self._known.get(row.name)
        # A session that began earlier reads an older version of the driver than the cached one.
        if known is None or (known.uid, known.layout) != (row.uid, row.layout) or known.version > row.version:
            storage = driver_rows.read_storage(session, row.uid)
            driver = Driver(
                name=row.name, uid=row.uid, version=row.version, tracking=row.capacity_tracking, storage=storage
            )
            return pool_columns.from_driver(driver, row.layout)
        if known.version == row.version:
            return known
        return known.updated(
            row.version, driver_rows.read_pools(session, row.uid, since=known.version), bool(row.capacity_tracking)
        )
