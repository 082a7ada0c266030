# SPDX-License-Identifier: Apache-2.0
"""A watch on the rows of Cinder's volumes: which are placed twice, and which wait for ever."""

import contextlib
import threading
import time
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy import exc

_ROWS = "SELECT id, status, host, scheduled_at FROM volumes WHERE deleted = 0"

#: Cinder's own record of the services that have work on a volume in hand; null before one has received it.
_TAKEN = "SELECT COUNT(*) FROM workers WHERE resource_id = %s AND service_id IS NOT NULL"

#: Statuses of requests that pass the scheduler.
_IN_HAND = ("creating", "extending")


class Row(NamedTuple):
    """The row of a volume."""

    id: str
    status: str
    host: str | None
    scheduled_at: Any


class RowWatch:
    """Reads the rows all the time, in a thread. A context manager."""

    def __init__(self, database: str) -> None:
        self._engine = sa.create_engine(database, poolclass=sa.pool.NullPool)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._placed: dict[str, Row] = {}
        self._since: dict[tuple[str, str, str | None], float] = {}
        #: The rows of volumes that were available, and were then placed again.
        self.placed_again: dict[str, tuple[Row, Row]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._engine.dispose()

    def rows(self) -> list[Row]:
        """Return the rows of all volumes."""
        with self._engine.connect() as connection:
            return [Row(*row) for row in connection.exec_driver_sql(_ROWS)]

    def was_received(self, volume_id: str) -> bool:
        """Return whether a scheduler or cinder-volume has received the request to create a volume."""
        with self._engine.connect() as connection:
            return bool(connection.exec_driver_sql(_TAKEN, (volume_id,)).scalar_one())

    def age(self, row: Row) -> float:
        """Return the seconds for which the request of a volume has been without effect."""
        now = time.monotonic()
        return now - self._since.get((row.id, row.status, row.host), now)

    def waiting(self, seconds: float) -> list[Row]:
        """Return the volumes with a request that has been without effect for so many seconds."""
        now = time.monotonic()
        return [
            Row(volume_id, status, host, None)
            for (volume_id, status, host), since in list(self._since.items())
            if now - since > seconds
        ]

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            with contextlib.suppress(exc.SQLAlchemyError):
                self._compare(self.rows())

    def _compare(self, rows: list[Row]) -> None:
        now = time.monotonic()
        keys = {(row.id, row.status, row.host) for row in rows if row.status in _IN_HAND}
        self._since = {key: self._since.get(key, now) for key in keys}
        for row in rows:
            before = self._placed.get(row.id)
            if before is None:
                if row.status == "available":
                    self._placed[row.id] = row
            elif (before.host, before.scheduled_at) != (row.host, row.scheduled_at) or row.status == "creating":
                self.placed_again.setdefault(row.id, (before, row))
