# SPDX-License-Identifier: Apache-2.0
"""The lock that keeps a second process on the machine from running the same backend."""

import fcntl
import os
import pathlib

from tonnage.capacity import errors


class BackendLock:
    """An exclusive lock on a file named after the backend. The kernel drops it when the process ends, in any way."""

    def __init__(self, folder: str, backend: str) -> None:
        self._backend = backend
        self._path = pathlib.Path(folder) / f"{backend}.lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises :class:`~tonnage.capacity.errors.ConfigurationError` if that is not possible."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o640)
        except OSError as error:
            raise errors.ConfigurationError(
                f"backend {self._backend}: lock file {self._path} cannot be opened: {error.strerror}; "
                "[DEFAULT] state_path has to be a folder that the agent may write to"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            raise errors.ConfigurationError(
                f"backend {self._backend} is run by another process{f' ({holder})' if holder else ''}, which holds "
                f"the lock file {self._path}; stop that process first"
            ) from None
        except OSError as error:
            os.close(file)
            raise errors.ConfigurationError(
                f"backend {self._backend}: lock file {self._path} cannot be locked: {error.strerror}; "
                "[DEFAULT] state_path has to be on a file system that knows locks"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give the lock back, if it is held. The file stays: to remove it would let two processes lock two files."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
