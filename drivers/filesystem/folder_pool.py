# SPDX-License-Identifier: Apache-2.0
"""A pool of the ``filesystem`` driver: a folder, what is configured for it, and what it has room for."""

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import rounding
from tonnage.drivers.filesystem import ownership, volume_files

#: What tells in a folder whose it is.
MARK = ".tonnage-pool"

#: Names of volumes and pools. Nothing that matches leads out of a folder.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")

#: What the location of every pool of this driver begins with; this machine and the folder follow.
_LOCATION = "filesystem"


@dataclass(frozen=True, slots=True)
class Copying:
    """A volume that is being copied into a pool and has no name yet, in bytes.

    ``size`` is its apparent size, ``taken`` what its file was given, ``wanted`` what it will take up beyond that.
    """

    size: int
    taken: int
    wanted: int


@dataclass(slots=True)
class Pool:
    """A folder and what is configured for it. ``folder`` and ``storage_id`` are known once it was checked.

    ``full_name`` is ``host@backend#pool``, and what the folder is marked with.
    ``copying`` are the volumes that are being copied in, by their ids; guarded by the folder's lock.
    """

    name: str
    full_name: str
    section: str
    path: str
    limit: int | None
    kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]
    folder: tuple[int, int] | None = None
    storage_id: str = ""
    copying: dict[str, Copying] = field(default_factory=dict)

    @contextlib.contextmanager
    def opened(self, doing: str, clean: bool = False) -> Iterator[int]:
        """Open the folder; what fails meanwhile was done on behalf of ``doing``, and is ``clean`` or not."""
        try:
            with volume_files.opened(self.path) as folder:
                if self.folder is not None and volume_files.identity(folder) != self.folder:
                    raise errors.DriverError(
                        f"{doing}: folder {self.path} is another one than at start (unmounted, mounted over or "
                        "replaced?); mend it or restart the agent",
                        clean=clean,
                    )
                if self.folder is not None and (owner := self.claimed(folder)) != self.full_name:
                    raise errors.DriverError(
                        f"{doing}: folder {self.path} belongs to pool {owner} now; "
                        f"stop one of the two, and remove {MARK} there if it is this one's",
                        clean=clean,
                    )
                yield folder
        except OSError as error:
            message = f"{doing}: {error.strerror or error} in {self.path}"
            if error.errno in volume_files.NO_ROOM:
                raise errors.CapacityExceeded(message) from error
            raise errors.DriverError(message, clean=clean) from error

    def owner(self, folder: int) -> str | None:
        """Return the full name of the pool whose the open folder is, None if it is nobody's. Raises OSError."""
        return ownership.owner(MARK, folder)

    def claimed(self, folder: int) -> str:
        """Make the open folder this pool's if it is nobody's, and return the full name of its pool. Raises OSError."""
        return ownership.claim(self.full_name, MARK, folder)

    def trouble(self, folder: int) -> str:
        """Return what keeps everything from being made, grown or deleted in the open folder, nothing if that works."""
        if not volume_files.read_only(folder):
            return ""
        return f"pool {self.full_name}: the file system of {self.path} is read-only; nothing is free until it is not"

    def figures(
        self, folder: int, files: Iterable[volume_files.File] | None = None, with_copies: bool = False
    ) -> dict[str, Any]:
        """Look at the open folder, in which these files were seen or are now, and return what the pool reports.

        Rounded to hundredths so that never more is promised than is there: provisioned up, total and free down; where
        nothing can be written, nothing is free. With ``with_copies`` what is being copied in counts as if it were
        there; for reports it is not, its claim counts it.
        """
        used = provisioned = wanted = 0
        for file in volume_files.files(folder) if files is None else files:
            used += file.used
            provisioned += file.size
        # One that fails is taken off meanwhile.
        for copying in list(self.copying.values()) if with_copies else ():
            provisioned += copying.size
            used += copying.taken + copying.wanted
            wanted += copying.wanted
        system = os.fstatvfs(folder)
        available = system.f_bavail * system.f_frsize
        # What root alone may use would not be there for volumes in an empty file system either.
        total = (system.f_blocks - system.f_bfree) * system.f_frsize + available
        free = max(available - wanted, 0)
        if self.limit is not None:
            total, free = min(total, self.limit), min(free, max(self.limit - used, 0))
        if volume_files.read_only(folder):
            free = 0
        return {
            **self.capabilities,
            "pool_name": self.name,
            "total_capacity_gb": rounding.hundredths_below(total),
            "free_capacity_gb": rounding.hundredths_below(min(free, total)),
            "provisioned_capacity_gb": rounding.hundredths_above(provisioned),
            "storage_id": self.storage_id,
            "storage_free_capacity_gb": rounding.hundredths_below(available),
        }


def location(path: str) -> str:
    """Return what a pool in a folder reports as its location."""
    return f"{_LOCATION}:{socket.gethostname()}:{path}"


def folder_at(place: str) -> str | None:
    """Return the folder that a :func:`location` names, None if it is not on this machine or none of this driver's."""
    driver, _, rest = place.partition(":")
    host, _, path = rest.partition(":")
    return path if (driver, host) == (_LOCATION, socket.gethostname()) and os.path.isabs(path) else None
