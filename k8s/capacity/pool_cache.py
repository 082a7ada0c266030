# SPDX-License-Identifier: Apache-2.0
"""The figures of drivers, kept in memory and brought up to date by what has changed."""

import threading
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.k8s.capacity import driver_rows, pool_columns
from tonnage.k8s.capacity.driver_storage import Driver
from tonnage.k8s.capacity.pool_columns import Figures
from tonnage.ledger import models

_DRIVER = models.CsiDriver


class Catalogue:
    """Remembers the figures of drivers. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, Figures] = {}
        self._lock = threading.Lock()

    def read(self, session: orm.Session, names: Iterable[str]) -> dict[str, Figures]:
        """Return the figures of the drivers of these names that there are.

        What they are at one moment, if the session sees one moment, or holds the rows of the drivers.
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

    def _current(self, session: orm.Session, row: Any) -> Figures:
        with self._lock:
            known = self._known.get(row.name)
        # A session that began earlier sees the driver as it was: what is known then is from its future.
        if known is None or (known.uid, known.layout) != (row.uid, row.layout) or known.version > row.version:
            storage = driver_rows.read_storage(session, row.uid)
            driver = Driver(
                name=row.name, uid=row.uid, version=row.version, tracking=row.capacity_tracking, storage=storage
            )
            return pool_columns.of_driver(driver, row.layout)
        if known.version == row.version:
            return known
        return known.changed(
            row.version, driver_rows.read_pools(session, row.uid, since=known.version), bool(row.capacity_tracking)
        )
