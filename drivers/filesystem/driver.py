# SPDX-License-Identifier: Apache-2.0
"""The ``filesystem`` driver: each pool is a folder, each volume a file in it that is named by the volume's id.

The file of a thin volume is sparse, the file of a thick volume has its blocks allocated. All state is in the file
system: every regular file in a pool's folder is a volume of that pool, including the files of other programs.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.drivers.filesystem import clones, pool_setup, sparse_copy, volume_files
from tonnage.drivers.filesystem.folder_pool import SAFE_NAME, Pool, folder_of_location
from tonnage.drivers.options import Section
from tonnage.drivers.snapshot_cache import SnapshotCache

LOG = logging.getLogger(__name__)


class FilesystemDriver(Driver):
    """Volumes as files, in one folder per pool.

    Works on local file systems that support unnamed files (ext4, xfs, btrfs, tmpfs); thick volumes need ``fallocate``
    as well. A lock on the folder of a pool excludes parallel operations on that pool, across processes too. Volumes can
    be migrated from other folders of the same machine.
    """

    supports_thin = True
    supports_thick = True
    supports_extend = True
    supports_auto_ratio = True
    supports_clone = True
    supports_migrate = True
    supports_manage = True

    options = pool_setup.OPTIONS

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        self._pools = {pool.name: pool for pool in pool_setup.configured_pools(backend, conf)}
        self._snapshot_cache: SnapshotCache[Sequence[volume_files.File]] = SnapshotCache()
        #: The last logged problem of each pool, so that each problem is logged once.
        self._logged_problems: dict[str, str] = {}

    def check(self) -> None:
        """Create the missing folders, verify that volumes can be created in all of them, and mark them as owned.

        A configuration that is refused marks no folder.
        """
        pool_setup.prepare(self._pools.values())

    def ledger_marks(self) -> Mapping[str, str | None]:
        """Return the ledger marks of the folders."""
        return {pool.name: pool.ledger_mark() for pool in self._pools.values()}

    def mark_ledger(self, mark: str) -> None:
        """Mark the folders, and use them only with their marks from now on."""
        for pool in self._pools.values():
            pool.mark_ledger(mark)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool.

        A pool whose folder cannot be read is left out. If no pool can be read, the last error is raised.
        """
        figures: list[Mapping[str, Any]] = []
        failure: errors.TonnageError | None = None
        for pool in self._pools.values():
            try:
                with pool.open_folder(f"pool {self.backend}#{pool.name} cannot be measured") as folder:
                    figures.append(pool.figures(folder, self._files(pool, folder)))
                    self._log_problem(pool, pool.problem(folder))
            except errors.TonnageError as error:
                self._log_problem(pool, str(error))
                failure = error
        if failure is not None and not figures:
            raise failure
        return figures

    def create(self, volume: Volume) -> None:
        """Create the file, and give it its name once it is complete and on disk."""
        pool, context = self._pool_and_context(volume, "create")
        self._require_provisioning(pool, volume, context)
        size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
        with pool.open_folder(context, clean=True) as folder, volume_files.unnamed_file(folder) as file:
            if not thick:  # uses no space, so others need not wait for the disk
                volume_files.grow(file, size, allocate=False)
            with volume_files.locked(folder):
                if not _exists(folder, volume, context):
                    self.admit(pool.figures(folder, with_copies=True), volume, volume.size_gb)
                    if thick:
                        volume_files.grow(file, size, allocate=True)
                    volume_files.give_name(folder, file, volume.id)
        self._sync(pool, context)

    def clone(self, volume: Volume, source: Source) -> None:
        """Copy the source's file.

        Where the file system supports it, a thin clone shares its blocks until they are written.
        """
        pool, context = self._pool_and_context(volume, f"clone of volume {source.id}")
        self._require_provisioning(pool, volume, context)
        if source.backend != self.backend:
            raise errors.DriverError(f"{context}: that is on another backend, {source.backend}", clean=True)
        with pool.open_folder(context, clean=True) as folder:
            if not _exists(folder, volume, context):
                with self._open_source(source, context, clean=True) as (_, content):
                    clones.create(self, pool, folder, volume, content, context)
        self._sync(pool, context)

    def migrate(self, volume: Volume, source: Source) -> None:
        """Copy the source's file, which is on this machine. A file that exists already is compared with the source."""
        pool, context = self._pool_and_context(volume, f"migration from {source.backend}#{source.pool}")
        self._require_provisioning(pool, volume, context)
        with pool.open_folder(context, clean=True) as folder:
            already_there = _exists(folder, volume, context)
        with (
            pool.open_folder(context, clean=not already_there) as folder,
            self._open_source(source, context, clean=not already_there) as (origin, content),
        ):
            if volume_files.identity(origin) == volume_files.identity(folder):
                # Nothing was created: the existing file is the volume itself.
                raise errors.DriverError(f"{context}: {pool.path} is the folder that it is in already", clean=True)
            if not already_there:
                clones.create(self, pool, folder, volume, content, context)
            else:
                with volume_files.open_file(folder, volume.id, write=False) as present:
                    if not sparse_copy.same_content(content, present):
                        raise errors.DriverError(
                            f"{context}: the file of that name has another content than its source"
                        )
        self._sync(pool, context)

    def manage(self, volume: Volume, reference: str) -> float:
        """Rename the file ``reference``, after it is extended to whole GiB and, for a thick volume, fully allocated."""
        pool, context = self._pool_and_context(volume, f"manage of {reference!r}")
        if not reference or reference in (".", "..") or "/" in reference or "\0" in reference:
            raise errors.DriverError(f"{context}: that is no name of a file in {pool.path}", clean=True)
        self._require_provisioning(pool, volume, context)
        with pool.open_folder(context, clean=True) as folder, volume_files.locked(folder):
            name = volume.id if volume_files.size(folder, reference) is None else reference
            if name != volume.id and volume_files.size(folder, volume.id) is not None:
                raise errors.DriverError(f"{context}: there is a volume {volume.id} already")
            if volume_files.size(folder, name) is None:
                raise errors.DriverError(f"{context}: there is no such file in {pool.path}", clean=True)
            with volume_files.open_file(folder, name) as file:
                size_gb = self._make_whole_gib(pool, folder, volume, file, context)
            if name != volume.id:
                volume_files.rename(folder, name, volume.id)
        self._sync(pool, context)
        return size_gb

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Extend the file; a thick one gets its new blocks before its new size."""
        pool, context = self._pool_and_context(volume, f"extend to {new_size_gb} GiB")
        with pool.open_folder(context) as folder, volume_files.locked(folder):
            present = volume_files.size(folder, volume.id)
            if present is None:
                raise errors.NotFound(f"{context}: there is no such volume in {pool.path}")
            size = max(new_size_gb * GIB, present)
            growth_gb = -((present - size) // GIB)
            if growth_gb:
                self.admit(pool.figures(folder, with_copies=True), volume, growth_gb)
            with volume_files.open_file(folder, volume.id) as file:
                volume_files.grow(file, size, allocate=volume.provisioning is Provisioning.THICK)

    def delete(self, volume: Volume) -> None:
        pool, context = self._pool_and_context(volume, "delete")
        with pool.open_folder(context) as folder:
            volume_files.remove(folder, volume.id)
        self._sync(pool, context)

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every regular file in the pools' folders; a file has a name only when it is finished."""
        volumes: list[StoredVolume] = []
        for pool in self._pools.values():
            with pool.open_folder(f"pool {self.backend}#{pool.name} cannot be listed") as folder:
                volumes.extend(
                    StoredVolume(id=_printable(file.name), pool=pool.name, size_gb=file.size / GIB)
                    for file in self._files(pool, folder)
                )
        return volumes

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Take all figures and lists from one scan of each folder."""
        return self._snapshot_cache.snapshot()

    def _files(self, pool: Pool, folder: int) -> Sequence[volume_files.File]:
        return self._snapshot_cache.get(pool.name, lambda: list(volume_files.files(folder)))

    def _log_problem(self, pool: Pool, problem: str) -> None:
        """Log the problem of a pool, or its end, once for each change."""
        logged = self._logged_problems.get(pool.name, "")
        if problem and problem != logged:
            LOG.error("%s", problem)
        elif logged and not problem:
            LOG.info("Pool %s works again; its last problem was: %s", pool.full_name, logged)
        self._logged_problems[pool.name] = problem

    def _open_source(
        self, source: Source, context: str, clean: bool
    ) -> contextlib.AbstractContextManager[tuple[int, int]]:
        """Open the folder and the file of a volume to copy, of this backend or of another one on this machine."""
        if source.backend != self.backend:
            path = folder_of_location(source.location)
        else:
            path = self._pools[source.pool].path if source.pool in self._pools else None
        return clones.open_source(source, path, context, clean)

    def _make_whole_gib(self, pool: Pool, folder: int, volume: Volume, file: int, context: str) -> float:
        """Extend an unmanaged file to whole GiB, allocate it for a thick volume, and return its size in GiB.

        The file keeps its name.
        """
        if volume_files.link_count(file) > 1:
            raise errors.DriverError(f"{context}: the file has other names too (hard links); remove them", clean=True)
        present = os.fstat(file).st_size
        if present == 0:
            raise errors.DriverError(f"{context}: the file is empty", clean=True)
        size = -(-present // GIB) * GIB
        thick = volume.provisioning is Provisioning.THICK
        missing = max(size - volume_files.used_bytes(file), 0) if thick else size - present
        if missing:
            self.admit(pool.figures(folder, with_copies=True), volume, missing / GIB)
        if missing and thick:
            volume_files.allocate(file)
        volume_files.grow(file, size, allocate=thick)
        return size / GIB

    def _require_provisioning(self, pool: Pool, volume: Volume, context: str) -> None:
        if volume.provisioning not in pool.provisioning_kinds:
            raise errors.DriverError(
                f"{context}: the pool makes no {volume.provisioning} volumes "
                f"([{pool.section}] filesystem_provisioning)",
                clean=True,
            )

    def _pool_and_context(self, volume: Volume, operation: str) -> tuple[Pool, str]:
        """Return the volume's pool, and the words that errors of the operation begin with."""
        context = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {operation} failed"
        if not SAFE_NAME.fullmatch(volume.id):
            raise errors.DriverError(f"{context}: {volume.id!r} is no name for a file", clean=True)
        pool = self._pools.get(volume.pool)
        if pool is None:
            raise errors.DriverError(f"{context}: the backend's pools are {', '.join(self._pools)}", clean=True)
        return pool, context

    def _sync(self, pool: Pool, context: str) -> None:
        """Write the folder's entries to disk.

        The file exists by then, so an error for a full disk does not count as a lack of capacity.
        """
        with pool.open_folder(context) as folder:
            try:
                os.fsync(folder)
            except OSError as error:
                raise errors.DriverError(f"{context}: {error.strerror} in {pool.path}") from error


def _exists(folder: int, volume: Volume, context: str) -> bool:
    """Return whether the volume's file exists in the right size."""
    present = volume_files.size(folder, volume.id)
    if present not in (None, volume.size_gb * GIB):
        raise errors.DriverError(f"{context}: a file of {present} bytes is there, not of {volume.size_gb * GIB}")
    return present is not None


def _printable(name: str) -> str:
    """Return a file name as text, with undecodable bytes escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")
