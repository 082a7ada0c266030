# SPDX-License-Identifier: Apache-2.0
"""Which volume of a plugin is which of Tonnage.

A plugin chooses the ids of volumes by itself and tells them when it has made one. A record is written before it is
asked, so that after a crash nothing that was made is lost: the plugin is asked again, by the same name.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tonnage.drivers.csi.storage_class_config import EPHEMERAL

_TABLE = """
CREATE TABLE IF NOT EXISTS volumes (
    pool TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    plugin_id TEXT,
    PRIMARY KEY (pool, id)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A volume that the plugin was asked for by ``name``, in bytes; ``plugin_id`` is None until it has answered."""

    pool: str
    id: str
    name: str
    size: int
    plugin_id: str | None

    @property
    def inline(self) -> bool:
        """Whether it is an inline ephemeral volume."""
        return self.pool.partition("/")[0] == EPHEMERAL


class Records:
    """Records in a file. Thread-safe. All methods raise sqlite3.Error if the file cannot be used."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def check(self) -> None:
        """Make the file if there is none, and see that it can be written."""
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TABLE)

    def all(self) -> list[Record]:
        """Return all records."""
        with self._opened() as database:
            return [_record(row) for row in database.execute("SELECT pool, id, name, size, plugin_id FROM volumes")]

    def find(self, pool: str, id: str) -> Record | None:
        """Return the record of a volume."""
        with self._opened() as database:
            rows = database.execute(
                "SELECT pool, id, name, size, plugin_id FROM volumes WHERE pool = ? AND id = ?", (pool, id)
            )
            return next(map(_record, rows), None)

    def keep(self, record: Record, instead_of: Record | None = None) -> None:
        """Write a record, in place of the one that there is of this volume, or of another."""
        with self._opened() as database:
            if instead_of is not None:
                _drop(database, instead_of)
            database.execute(
                "INSERT OR REPLACE INTO volumes (pool, id, name, size, plugin_id) VALUES (?, ?, ?, ?, ?)",
                (record.pool, record.id, record.name, record.size, record.plugin_id),
            )

    def drop(self, record: Record) -> None:
        """Remove a record."""
        with self._opened() as database:
            _drop(database, record)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # Opened each time: that takes less than a commit, and leaves nothing open in threads that come and go.
        with self._lock, contextlib.closing(sqlite3.connect(self._file, timeout=5.0)) as database, database:
            yield database


def _drop(database: sqlite3.Connection, record: Record) -> None:
    database.execute("DELETE FROM volumes WHERE pool = ? AND id = ?", (record.pool, record.id))


def _record(row: tuple[str, str, str, int, str | None]) -> Record:
    pool, id, name, size, plugin_id = row
    return Record(pool=pool, id=id, name=name, size=size, plugin_id=plugin_id)
