# SPDX-License-Identifier: Apache-2.0
"""The records of the volumes that Tonnage has requested from a plugin, in an SQLite file.

A plugin chooses the ids of volumes by itself and returns them when it has created a volume. A record is written before
the request, so that a crash loses no volume: the request is then repeated, with the same name. A record without the
plugin's id is a request whose outcome is not known.
"""

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.storage_class_config import EPHEMERAL
from tonnage.drivers.filesystem import ownership

_TABLE = """
CREATE TABLE IF NOT EXISTS volumes (
    pool TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    plugin_id TEXT,
    earlier_ids TEXT NOT NULL,
    has_conflict INTEGER NOT NULL,
    PRIMARY KEY (pool, id)
)
"""

#: The operations that have called the plugin to extend volumes, while the outcome is not known.
_EXTENDS_TABLE = """
CREATE TABLE IF NOT EXISTS begun_extends (
    pool TEXT NOT NULL,
    id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (pool, id)
)
"""

_SELECT = "SELECT pool, id, name, size, plugin_id, earlier_ids, has_conflict FROM volumes"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    """A volume that was requested by ``name``, with its size in bytes.

    ``plugin_id`` is None until the plugin returns it. ``earlier_ids`` are volumes without a record that the plugin
    listed before the request, so none of them was made by it. ``has_conflict`` is true if the plugin has a volume of
    that name with other properties than requested, and its id is not known.
    """

    pool: str
    id: str
    name: str
    size: int
    plugin_id: str | None
    earlier_ids: frozenset[str] = frozenset()
    has_conflict: bool = False

    @property
    def inline(self) -> bool:
        """Return whether the volume is an inline ephemeral volume."""
        return self.pool.partition("/")[0] == EPHEMERAL

    @property
    def pending(self) -> bool:
        """Return whether it is not known if the plugin has made the volume."""
        return self.plugin_id is None and not self.has_conflict


class VolumeRecords:
    """Records in a file. Thread-safe. All methods raise sqlite3.Error if the file cannot be used.

    ``required_mark`` is the ledger mark of the file, without which it cannot be used; None before it is marked.
    """

    def __init__(self, file: Path) -> None:
        self.required_mark: str | None = None
        self._file = file
        self._lock = threading.Lock()
        #: The records of volumes that were saved since, by the plugin's ids, for each context that watches.
        self._watches: list[dict[str, VolumeRecord]] = []

    def check(self) -> None:
        """Create the file if it does not exist, and verify that it can be written."""
        with self._transaction() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TABLE)
            database.execute(_EXTENDS_TABLE)

    def all(self) -> list[VolumeRecord]:
        """Return all records."""
        with self._transaction() as database:
            return [_to_record(row) for row in database.execute(_SELECT)]

    @contextlib.contextmanager
    def watch(self) -> Iterator[dict[str, VolumeRecord]]:
        """Collect the records of volumes that have a record at any moment of the context, by the plugin's ids."""
        watched: dict[str, VolumeRecord] = {}
        with self._lock:
            self._watches.append(watched)
        try:
            for record in self.all():
                if record.plugin_id is not None:
                    watched.setdefault(record.plugin_id, record)
            yield watched
        finally:
            with self._lock:
                self._watches = [watch for watch in self._watches if watch is not watched]

    def find(self, pool: str, id: str) -> VolumeRecord | None:
        """Return the record of a volume, None if there is none."""
        with self._transaction() as database:
            rows = database.execute(f"{_SELECT} WHERE pool = ? AND id = ?", (pool, id))
            return next(map(_to_record, rows), None)

    def find_by_plugin_id(self, plugin_id: str) -> VolumeRecord | None:
        """Return the record of the plugin's volume with this id, None if there is none."""
        with self._transaction() as database:
            rows = database.execute(f"{_SELECT} WHERE plugin_id = ?", (plugin_id,))
            return next(map(_to_record, rows), None)

    def save(self, record: VolumeRecord, replaced: VolumeRecord | None = None) -> None:
        """Write a record, in place of the volume's present record and of ``replaced``, the record of another id."""
        with self._transaction() as database:
            if replaced is not None:
                _delete_row(database, replaced)
            _delete_extend(database, record)
            database.execute(
                "INSERT OR REPLACE INTO volumes (pool, id, name, size, plugin_id, earlier_ids, has_conflict) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(record.pool, record.id, record.name, record.size, record.plugin_id),
                    *(json.dumps(sorted(record.earlier_ids)), record.has_conflict),
                ),
            )
            if record.plugin_id is not None:
                for watch in self._watches:
                    watch[record.plugin_id] = record

    @contextlib.contextmanager
    def extending(self, record: VolumeRecord, operation_id: str) -> Iterator[None]:
        """Record that an operation calls the plugin to extend a volume, until the outcome is known."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO begun_extends (pool, id, operation_id) VALUES (?, ?, ?)",
                (record.pool, record.id, operation_id),
            )
        try:
            yield
        except errors.OutcomeUnknown:
            raise
        except errors.TonnageError:
            with self._transaction() as database:
                _delete_extend(database, record)
            raise

    def has_begun_extend(self, record: VolumeRecord, operation_id: str) -> bool:
        """Return whether this very operation may have called the plugin to extend a volume.

        An operation without an id is never the same as an earlier one.
        """
        with self._transaction() as database:
            rows = database.execute(
                "SELECT operation_id FROM begun_extends WHERE pool = ? AND id = ?", (record.pool, record.id)
            )
            return operation_id != "" and (operation_id,) in rows.fetchall()

    def remove(self, record: VolumeRecord) -> None:
        """Remove a record."""
        with self._transaction() as database:
            _delete_row(database, record)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._require_mark()
        # Each call opens the file: that takes less time than a commit, and leaves no connection open in threads that
        # end.
        with self._lock, contextlib.closing(sqlite3.connect(self._file, timeout=5.0)) as database, database:
            yield database

    def _require_mark(self) -> None:
        try:
            lost = None if self.required_mark is None else ownership.lost_mark(self._file, self.required_mark)
        except OSError as error:
            raise sqlite3.OperationalError(f"its mark cannot be read: {error}") from error
        if lost:
            raise sqlite3.OperationalError(lost)


def _delete_row(database: sqlite3.Connection, record: VolumeRecord) -> None:
    database.execute("DELETE FROM volumes WHERE pool = ? AND id = ?", (record.pool, record.id))
    _delete_extend(database, record)


def _delete_extend(database: sqlite3.Connection, record: VolumeRecord) -> None:
    database.execute("DELETE FROM begun_extends WHERE pool = ? AND id = ?", (record.pool, record.id))


def _to_record(row: tuple[str, str, str, int, str | None, str, int]) -> VolumeRecord:
    pool, id, name, size, plugin_id, earlier_ids, has_conflict = row
    return VolumeRecord(
        pool=pool,
        id=id,
        name=name,
        size=size,
        plugin_id=plugin_id,
        earlier_ids=frozenset(json.loads(earlier_ids)),
        has_conflict=bool(has_conflict),
    )
