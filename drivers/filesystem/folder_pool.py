# SPDX-License-Identifier: Apache-2.0
"""A pool of the ``filesystem`` driver: a folder, its configuration and its figures."""

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import base
from tonnage.drivers.filesystem import ownership, volume_files

#: Name of the symbolic link in a folder that names its owner.
OWNER_MARK = ".tonnage-pool"

#: Name of the symbolic link in a folder that names the ledger with the volumes.
LEDGER_MARK = ".tonnage-ledger"

#: Names of volumes and pools. No name that matches leads out of a folder.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")

#: The beginning of the location of every pool of this driver; host and folder follow.
_LOCATION = "filesystem"


@dataclass(frozen=True, slots=True)
class CopyInProgress:
    """The sizes, in bytes, of a volume that is being copied into a pool and has no name yet.

    ``size`` is its apparent size, ``allocated`` the space that its file has, ``to_write`` the space it will use beyond
    that.
    """

    size: int
    allocated: int
    to_write: int


@dataclass(slots=True)
class Pool:
    """A folder and its configuration. ``identity`` and ``storage_id`` are set by the check at start.

    ``full_name`` is ``host@backend#pool``; the owner mark in the folder holds it. ``required_mark`` is what the ledger
    mark in the folder holds, None until :meth:`mark_ledger`. ``limit_bytes`` is the configured size limit. ``copies``
    are the volumes that are being copied in, by id; the folder's lock guards it.
    """

    name: str
    full_name: str
    section: str
    path: str
    limit_bytes: int | None
    provisioning_kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]
    identity: tuple[int, int] | None = None
    storage_id: str = ""
    required_mark: str | None = None
    copies: dict[str, CopyInProgress] = field(default_factory=dict)

    @contextlib.contextmanager
    def open_folder(self, context: str, clean: bool = False) -> Iterator[int]:
        """Open the folder; yields its descriptor. An OSError within the context becomes a driver error.

        ``context`` is the beginning of its message, ``clean`` the flag of the error.
        """
        try:
            with volume_files.open_folder(self.path) as folder:
                if self.identity is not None and volume_files.identity(folder) != self.identity:
                    raise errors.DriverError(
                        f"{context}: folder {self.path} is another one than at start (unmounted, mounted over or "
                        "replaced?); mend it or restart the agent",
                        clean=clean,
                    )
                if self.required_mark is not None and ownership.owner(LEDGER_MARK, folder) != self.required_mark:
                    raise errors.DriverError(
                        f"{context}: folder {self.path} has lost its mark {LEDGER_MARK}, {self.required_mark} "
                        "(emptied?), so its volumes may be elsewhere; bring them back with the mark, or restart the "
                        "agent",
                        clean=clean,
                    )
                if self.identity is not None and (owner := self.claim(folder)) != self.full_name:
                    raise errors.DriverError(
                        f"{context}: folder {self.path} belongs to pool {owner} now; "
                        f"stop one of the two, and remove {OWNER_MARK} there if it is this one's",
                        clean=clean,
                    )
                yield folder
        except OSError as error:
            message = f"{context}: {error.strerror or error} in {self.path}"
            if error.errno in volume_files.OUT_OF_SPACE:
                raise errors.CapacityExceeded(message) from error
            raise errors.DriverError(message, clean=clean) from error

    def owner(self, folder: int) -> str | None:
        """Return the full name of the pool that owns the open folder, None without an owner. Raises OSError."""
        return ownership.owner(OWNER_MARK, folder)

    def claim(self, folder: int) -> str:
        """Make this pool the owner of the open folder if it has none; return the full name of its owner.

        Raises OSError.
        """
        return ownership.claim(self.full_name, OWNER_MARK, folder)

    def ledger_mark(self) -> str | None:
        """Return the ledger mark of the folder, None without one. Raises DriverError."""
        with self.open_folder(f"the ledger of pool {self.full_name} cannot be read") as folder:
            return ownership.owner(LEDGER_MARK, folder)

    def mark_ledger(self, mark: str) -> None:
        """Mark the folder unless it has a ledger mark, and require its mark from now on. Raises DriverError."""
        with self.open_folder(f"pool {self.full_name} cannot be marked with its ledger") as folder:
            present = ownership.owner(LEDGER_MARK, folder)
            if present is None:
                present = ownership.claim(mark, LEDGER_MARK, folder)
                os.fsync(folder)
        self.required_mark = present

    def problem(self, folder: int) -> str:
        """Return the problem that prevents every change in the open folder, or an empty text."""
        if not volume_files.read_only(folder):
            return ""
        return f"pool {self.full_name}: the file system of {self.path} is read-only; nothing is free until it is not"

    def figures(
        self, folder: int, files: Iterable[volume_files.File] | None = None, with_copies: bool = False
    ) -> dict[str, Any]:
        """Return the pool's report. ``files`` are the files in the open folder, which are read if they are None.

        Figures are rounded to hundredths so that they never promise too much: provisioned up, total and free down. On a
        read-only file system nothing is free. ``with_copies`` counts the copies in progress as if they were complete; a
        report leaves them out, since their claims count them.
        """
        used = provisioned = to_write = 0
        for file in volume_files.files(folder) if files is None else files:
            used += file.used
            provisioned += file.size
        # A copy that fails is removed meanwhile, without the lock.
        for copy in list(self.copies.values()) if with_copies else ():
            provisioned += copy.size
            used += copy.allocated + copy.to_write
            to_write += copy.to_write
        system = os.fstatvfs(folder)
        available = system.f_bavail * system.f_frsize
        # Space that is reserved for root is not available for volumes in an empty file system either.
        total = (system.f_blocks - system.f_bfree) * system.f_frsize + available
        free = max(available - to_write, 0)
        if self.limit_bytes is not None:
            total, free = min(total, self.limit_bytes), min(free, max(self.limit_bytes - used, 0))
        if volume_files.read_only(folder):
            free = 0
        return {
            **self.capabilities,
            "pool_name": self.name,
            "total_capacity_gb": base.gib_rounded_down(total),
            "free_capacity_gb": base.gib_rounded_down(min(free, total)),
            "provisioned_capacity_gb": base.gib_rounded_up(provisioned),
            "storage_id": self.storage_id,
            "storage_free_capacity_gb": base.gib_rounded_down(available),
        }


def location(path: str) -> str:
    """Return the ``location_info`` of a pool in this folder."""
    return f"{_LOCATION}:{socket.gethostname()}:{path}"


def folder_of_location(location_info: str) -> str | None:
    """Return the folder of a :func:`location`, None if it is on another machine or of another driver."""
    driver, _, rest = location_info.partition(":")
    host, _, path = rest.partition(":")
    return path if (driver, host) == (_LOCATION, socket.gethostname()) and os.path.isabs(path) else None
