# SPDX-License-Identifier: Apache-2.0
"""The state of the ``memory`` driver: volumes by pool, in memory and optionally in a file.

A file that several backends share is read anew under a lock for each operation, so that all of them use one storage.
"""

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.filesystem import ownership


@dataclass(frozen=True, slots=True)
class VolumeEntry:
    """A volume in the state."""

    size_gb: int
    provisioning: Provisioning


VolumeEntries: TypeAlias = Mapping[str, VolumeEntry]


class State:
    """Volumes by pool. Read and change them only within :meth:`locked`.

    ``required_mark`` is the ledger mark of the file, without which it cannot be used; None before it is marked.
    """

    def __init__(self, file: Path | None, shared: bool) -> None:
        self.required_mark: str | None = None
        self._file = file
        self._shared = shared
        self._lock = threading.Lock()
        self._volumes: dict[str, VolumeEntries] = {}

    def check(self) -> None:
        """Read the file, if it exists, and verify that it can be written.

        Raises OSError if that fails, and ValueError, KeyError, TypeError or AttributeError for a file of another
        format.
        """
        with self._lock, self._file_lock():
            self._read()
            self._write(self._volumes)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Mapping[str, VolumeEntries]]:
        """Exclude all other users; yields the current volumes by pool.

        Raises :class:`~tonnage.capacity.errors.DriverError` if the file cannot be used.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            try:
                stack.enter_context(self._file_lock())
                self._require_mark()
                if self._shared:
                    self._read()
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise self._unusable_error(error) from error
            yield self._volumes

    def update(self, pool: str, changes: Mapping[str, VolumeEntry | None]) -> None:
        """Add, replace or remove (None) volumes of a pool.

        The file is written first, so that no visible change is ever lost.
        """
        merged = {**self._volumes.get(pool, {}), **changes}
        changed = {**self._volumes, pool: {id: entry for id, entry in merged.items() if entry is not None}}
        try:
            self._write(changed)
        except OSError as error:
            raise self._unusable_error(error) from error
        self._volumes = changed

    def _require_mark(self) -> None:
        if self._file is None or self.required_mark is None:
            return
        if (lost := ownership.lost_mark(self._file, self.required_mark)) is not None:
            raise ValueError(lost)

    def _unusable_error(self, error: Exception) -> errors.DriverError:
        return errors.DriverError(f"memory_state_file {self._file} cannot be used: {error}", clean=True)

    @contextlib.contextmanager
    def _file_lock(self) -> Iterator[None]:
        if self._file is None or not self._shared:
            yield
            return
        # Each change replaces the file itself, so the lock is a file of its own. The kernel unlocks it if this process
        # dies.
        with self._file.with_name(f"{self._file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._volumes = {
                pool: {
                    id: VolumeEntry(entry["size_gb"], Provisioning(entry["provisioning"]))
                    for id, entry in volumes.items()
                }
                for pool, volumes in json.loads(self._file.read_text(encoding="utf-8")).items()
            }

    def _write(self, volumes: Mapping[str, VolumeEntries]) -> None:
        if self._file is None:
            return
        new = self._file.with_name(f".{self._file.name}.new")
        plain = {pool: {id: asdict(entry) for id, entry in entries.items()} for pool, entries in volumes.items()}
        new.write_text(json.dumps(plain), encoding="utf-8")
        os.replace(new, self._file)
