# SPDX-License-Identifier: Apache-2.0
"""The lock that keeps a second process on the machine from running the same backend."""

import fcntl
import hashlib
import os
import pathlib
import socket
import uuid

from tonnage.capacity import errors
from tonnage.rpc.messages import AgentProcess


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

    def holder(self) -> AgentProcess:
        """Return this process, with a new random text. The lock must be held.

        The text for the lock is different for each lock file, machine and boot.
        """
        if self._file is None:
            raise RuntimeError(f"the lock of backend {self._backend} is not held")
        file, machine = os.fstat(self._file), socket.gethostname()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        lock = hashlib.sha256(f"{machine} {boot} {file.st_dev} {file.st_ino}".encode()).hexdigest()[:16]
        return AgentProcess(lock, uuid.uuid4().hex[:12], f"{os.getpid()}@{machine}"[:34])

    def release(self) -> None:
        """Give the lock back, if it is held. The file stays: to remove it would let two processes lock two files."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
