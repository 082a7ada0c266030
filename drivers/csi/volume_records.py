# SPDX-License-Identifier: Apache-2.0
"""The records of the volumes that Tonnage has requested from a plugin, in an SQLite file.

A plugin chooses the ids of volumes by itself and returns them when it has created a volume. A record is written before
the request, so that a crash loses no volume: the request is then repeated, with the same name.
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
class VolumeRecord:
    """A volume that was requested by ``name``, with its size in bytes.

    ``plugin_id`` is None until the plugin returns it.
    """

    pool: str
    id: str
    name: str
    size: int
    plugin_id: str | None

    @property
    def inline(self) -> bool:
        """Whether the volume is an inline ephemeral volume."""
        return self.pool.partition("/")[0] == EPHEMERAL


class VolumeRecords:
    """Records in a file. Thread-safe. All methods raise sqlite3.Error if the file cannot be used."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def check(self) -> None:
        """Create the file if it does not exist, and verify that it can be written."""
        with self._transaction() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TABLE)

    def all(self) -> list[VolumeRecord]:
        """Return all records."""
        with self._transaction() as database:
            return [_to_record(row) for row in database.execute("SELECT pool, id, name, size, plugin_id FROM volumes")]

    def find(self, pool: str, id: str) -> VolumeRecord | None:
        """Return the record of a volume, None if there is none."""
        with self._transaction() as database:
            rows = database.execute(
                "SELECT pool, id, name, size, plugin_id FROM volumes WHERE pool = ? AND id = ?", (pool, id)
            )
            return next(map(_to_record, rows), None)

    def find_by_plugin_id(self, plugin_id: str) -> VolumeRecord | None:
        """Return the record of the plugin's volume with this id, None if there is none."""
        with self._transaction() as database:
            rows = database.execute(
                "SELECT pool, id, name, size, plugin_id FROM volumes WHERE plugin_id = ?", (plugin_id,)
            )
            return next(map(_to_record, rows), None)

    def save(self, record: VolumeRecord, replaced: VolumeRecord | None = None) -> None:
        """Write a record, in place of the volume's present record and of ``replaced``, the record of another id."""
        with self._transaction() as database:
            if replaced is not None:
                _delete_row(database, replaced)
            database.execute(
                "INSERT OR REPLACE INTO volumes (pool, id, name, size, plugin_id) VALUES (?, ?, ?, ?, ?)",
                (record.pool, record.id, record.name, record.size, record.plugin_id),
            )

    def remove(self, record: VolumeRecord) -> None:
        """Remove a record."""
        with self._transaction() as database:
            _delete_row(database, record)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # Each call opens the file: that takes less time than a commit, and leaves no connection open in threads that
        # end.
        with self._lock, contextlib.closing(sqlite3.connect(self._file, timeout=5.0)) as database, database:
            yield database


def _delete_row(database: sqlite3.Connection, record: VolumeRecord) -> None:
    database.execute("DELETE FROM volumes WHERE pool = ? AND id = ?", (record.pool, record.id))


def _to_record(row: tuple[str, str, str, int, str | None]) -> VolumeRecord:
    pool, id, name, size, plugin_id = row
    return VolumeRecord(pool=pool, id=id, name=name, size=size, plugin_id=plugin_id)
