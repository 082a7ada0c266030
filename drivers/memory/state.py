# SPDX-License-Identifier: Apache-2.0
"""What the ``memory`` driver keeps: volumes, by the pools that they are in, in memory and if wanted in a file.

A file that several backends share is read anew under a lock for each operation, so that all of them see one storage.
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


@dataclass(frozen=True, slots=True)
class Kept:
    """A volume as it is kept."""

    size_gb: int
    provisioning: Provisioning


Volumes: TypeAlias = Mapping[str, Kept]


class State:
    """Volumes by pool. Look at them and change them only while :meth:`opened`."""

    def __init__(self, file: Path | None, shared: bool) -> None:
        self._file = file
        self._shared = shared
        self._lock = threading.Lock()
        self._volumes: dict[str, Volumes] = {}

    def check(self) -> None:
        """Read the file, if there is one, and see that it can be written.

        Raises OSError if that fails, and ValueError, KeyError, TypeError or AttributeError for another kind of file.
        """
        with self._lock, self._excluded():
            self._read()
            self._write(self._volumes)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Mapping[str, Volumes]]:
        """Keep all others out, and return the volumes by pool as they are at this moment.

        Raises :class:`~tonnage.capacity.errors.DriverError` if the file cannot be used.
        """
        with contextlib.ExitStack() as held:
            held.enter_context(self._lock)
            try:
                held.enter_context(self._excluded())
                if self._shared:
                    self._read()
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise self._failed(error) from error
            yield self._volumes

    def keep(self, pool: str, changes: Mapping[str, Kept | None]) -> None:
        """Enter or replace volumes, or remove them; in the file first, so that what was seen is never lost."""
        entered = {**self._volumes.get(pool, {}), **changes}
        changed = {**self._volumes, pool: {id: kept for id, kept in entered.items() if kept is not None}}
        try:
            self._write(changed)
        except OSError as error:
            raise self._failed(error) from error
        self._volumes = changed

    def _failed(self, error: Exception) -> errors.DriverError:
        return errors.DriverError(f"memory_state_file {self._file} cannot be used: {error}", clean=True)

    @contextlib.contextmanager
    def _excluded(self) -> Iterator[None]:
        if self._file is None or not self._shared:
            yield
            return
        # The file itself is replaced with each change. The kernel unlocks if this process dies.
        with self._file.with_name(f"{self._file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._volumes = {
                pool: {id: Kept(kept["size_gb"], Provisioning(kept["provisioning"])) for id, kept in volumes.items()}
                for pool, volumes in json.loads(self._file.read_text(encoding="utf-8")).items()
            }

    def _write(self, volumes: Mapping[str, Volumes]) -> None:
        if self._file is None:
            return
        new = self._file.with_name(f".{self._file.name}.new")
        plain = {pool: {id: asdict(kept) for id, kept in inside.items()} for pool, inside in volumes.items()}
        new.write_text(json.dumps(plain), encoding="utf-8")
        os.replace(new, self._file)
