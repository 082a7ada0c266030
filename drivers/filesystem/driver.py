# SPDX-License-Identifier: Apache-2.0
"""The ``filesystem`` driver: each pool is a folder, each volume a file in it that is named by the volume's id.

A thin volume is a sparse file, a thick one has its blocks allocated. The whole truth is in the file system: whatever
regular file lies in a pool's folder is a volume of that pool, whoever made it.
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
from tonnage.drivers.filesystem.folder_pool import SAFE_NAME, Pool, folder_at
from tonnage.drivers.options import Section
from tonnage.drivers.snapshot_cache import OneLook

LOG = logging.getLogger(__name__)


class FilesystemDriver(Driver):
    """Volumes as files, in one folder per pool.

    Works on local file systems that can make a file before it has a name (ext4, xfs, btrfs, tmpfs); thick volumes need
    ``fallocate`` as well. Operations on one pool keep each other out by a lock on its folder, across processes too.
    Volumes are taken over from folders on the same machine.
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
        self._pools = {pool.name: pool for pool in pool_setup.pools(backend, conf)}
        self._one_look: OneLook[Sequence[volume_files.File]] = OneLook()
        #: What was last said of a pool that cannot be measured or changed; said again only when it changes.
        self._told: dict[str, str] = {}

    def check(self) -> None:
        """Make the folders that are missing, see that volumes can be made in all of them, and mark them as ours.

        Nothing is marked by a configuration that is refused.
        """
        pool_setup.prepare(self._pools.values())

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool. One whose folder cannot be read is left out, unless that goes for all."""
        figures: list[Mapping[str, Any]] = []
        failure: errors.TonnageError | None = None
        for pool in self._pools.values():
            try:
                with pool.opened(f"pool {self.backend}#{pool.name} cannot be measured") as folder:
                    figures.append(pool.figures(folder, self._seen(pool, folder)))
                    self._tell(pool, pool.trouble(folder))
            except errors.TonnageError as error:
                self._tell(pool, str(error))
                failure = error
        if failure is not None and not figures:
            raise failure
        return figures

    def create(self, volume: Volume) -> None:
        """Make the file and give it its name once it is complete and on disk."""
        pool, doing = self._target(volume, "create")
        self._refuse_other_kinds(pool, volume, doing)
        size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
        with pool.opened(doing, clean=True) as folder, volume_files.unnamed(folder) as file:
            if not thick:  # costs no space, so there is no need to keep others waiting for the disk
                volume_files.grow(file, size, allocate=False)
            with volume_files.locked(folder):
                if not _is_there(folder, volume, doing):
                    self.admit(pool.figures(folder, with_copies=True), volume, volume.size_gb)
                    if thick:
                        volume_files.grow(file, size, allocate=True)
                    volume_files.give_name(folder, file, volume.id)
        self._sync(pool, doing)

    def clone(self, volume: Volume, source: Source) -> None:
        """Copy the source's file; where the file system can, a thin one shares its blocks until they are written."""
        pool, doing = self._target(volume, f"clone of volume {source.id}")
        self._refuse_other_kinds(pool, volume, doing)
        if source.backend != self.backend:
            raise errors.DriverError(f"{doing}: that is on another backend, {source.backend}", clean=True)
        with pool.opened(doing, clean=True) as folder:
            if not _is_there(folder, volume, doing):
                with self._opened_source(source, doing, clean=True) as (_, content):
                    clones.make(self, pool, folder, volume, content, doing)
        self._sync(pool, doing)

    def migrate(self, volume: Volume, source: Source) -> None:
        """Copy the source's file, which is on this machine. What is there already is compared with it."""
        pool, doing = self._target(volume, f"migration from {source.backend}#{source.pool}")
        self._refuse_other_kinds(pool, volume, doing)
        with pool.opened(doing, clean=True) as folder:
            there = _is_there(folder, volume, doing)
        with (
            pool.opened(doing, clean=not there) as folder,
            self._opened_source(source, doing, clean=not there) as (origin, content),
        ):
            if volume_files.identity(origin) == volume_files.identity(folder):
                # Nothing was made: what is there is the volume itself.
                raise errors.DriverError(f"{doing}: {pool.path} is the folder that it is in already", clean=True)
            if not there:
                clones.make(self, pool, folder, volume, content, doing)
            else:
                with volume_files.existing(folder, volume.id, write=False) as present:
                    if not sparse_copy.same(content, present):
                        raise errors.DriverError(f"{doing}: the file of that name has another content than its source")
        self._sync(pool, doing)

    def manage(self, volume: Volume, reference: str) -> float:
        """Rename the file ``reference``, after it was grown to whole GiB and, for a thick volume, got all its space."""
        pool, doing = self._target(volume, f"manage of {reference!r}")
        if not reference or reference in (".", "..") or "/" in reference or "\0" in reference:
            raise errors.DriverError(f"{doing}: that is no name of a file in {pool.path}", clean=True)
        self._refuse_other_kinds(pool, volume, doing)
        with pool.opened(doing, clean=True) as folder, volume_files.locked(folder):
            name = volume.id if volume_files.size(folder, reference) is None else reference
            if name != volume.id and volume_files.size(folder, volume.id) is not None:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            if volume_files.size(folder, name) is None:
                raise errors.DriverError(f"{doing}: there is no such file in {pool.path}", clean=True)
            with volume_files.existing(folder, name) as file:
                size_gb = self._adopt(pool, folder, volume, file, doing)
            if name != volume.id:
                volume_files.rename(folder, name, volume.id)
        self._sync(pool, doing)
        return size_gb

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Grow the file; a thick one gets its new blocks before its new size."""
        pool, doing = self._target(volume, f"extend to {new_size_gb} GiB")
        with pool.opened(doing) as folder, volume_files.locked(folder):
            present = volume_files.size(folder, volume.id)
            if present is None:
                raise errors.NotFound(f"{doing}: there is no such volume in {pool.path}")
            size = max(new_size_gb * GIB, present)
            growth_gb = -((present - size) // GIB)
            if growth_gb:
                self.admit(pool.figures(folder, with_copies=True), volume, growth_gb)
            with volume_files.existing(folder, volume.id) as file:
                volume_files.grow(file, size, allocate=volume.provisioning is Provisioning.THICK)

    def delete(self, volume: Volume) -> None:
        """Delete the file."""
        pool, doing = self._target(volume, "delete")
        with pool.opened(doing) as folder:
            volume_files.remove(folder, volume.id)
        self._sync(pool, doing)

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every regular file in the pools' folders; a file has a name only when it is finished."""
        volumes: list[StoredVolume] = []
        for pool in self._pools.values():
            with pool.opened(f"pool {self.backend}#{pool.name} cannot be listed") as folder:
                volumes.extend(
                    StoredVolume(id=_printable(file.name), pool=pool.name, size_gb=file.size / GIB)
                    for file in self._seen(pool, folder)
                )
        return volumes

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Have all come from one look at each folder."""
        return self._one_look.taken()

    def _seen(self, pool: Pool, folder: int) -> Sequence[volume_files.File]:
        return self._one_look.of(pool.name, lambda: list(volume_files.files(folder)))

    def _tell(self, pool: Pool, said: str) -> None:
        """Say in the log what is wrong with a pool, once until it changes."""
        told = self._told.get(pool.name, "")
        if said and said != told:
            LOG.error("%s", said)
        elif told and not said:
            LOG.info("Pool %s works again, that is over: %s", pool.full_name, told)
        self._told[pool.name] = said

    def _opened_source(
        self, source: Source, doing: str, clean: bool
    ) -> contextlib.AbstractContextManager[tuple[int, int]]:
        """Open the folder and the file of a volume that is to be copied, of this backend or of another here."""
        if source.backend != self.backend:
            path = folder_at(source.location)
        else:
            path = self._pools[source.pool].path if source.pool in self._pools else None
        return clones.opened(source, path, doing, clean)

    def _adopt(self, pool: Pool, folder: int, volume: Volume, file: int, doing: str) -> float:
        """Make a file of somebody else's like one of ours, and return its size in GiB; its name stays."""
        if volume_files.names(file) > 1:
            raise errors.DriverError(f"{doing}: the file has other names too (hard links); remove them", clean=True)
        present = os.fstat(file).st_size
        if present == 0:
            raise errors.DriverError(f"{doing}: the file is empty", clean=True)
        size = -(-present // GIB) * GIB
        thick = volume.provisioning is Provisioning.THICK
        missing = max(size - volume_files.used(file), 0) if thick else size - present
        if missing:
            self.admit(pool.figures(folder, with_copies=True), volume, missing / GIB)
        if missing and thick:
            volume_files.allocate(file)
        volume_files.grow(file, size, allocate=thick)
        return size / GIB

    def _refuse_other_kinds(self, pool: Pool, volume: Volume, doing: str) -> None:
        if volume.provisioning not in pool.kinds:
            raise errors.DriverError(
                f"{doing}: the pool makes no {volume.provisioning} volumes ([{pool.section}] filesystem_provisioning)",
                clean=True,
            )

    def _target(self, volume: Volume, verb: str) -> tuple[Pool, str]:
        """Return the volume's pool, and words for what is being done to it."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if not SAFE_NAME.fullmatch(volume.id):
            raise errors.DriverError(f"{doing}: {volume.id!r} is no name for a file", clean=True)
        pool = self._pools.get(volume.pool)
        if pool is None:
            raise errors.DriverError(f"{doing}: the backend's pools are {', '.join(self._pools)}", clean=True)
        return pool, doing

    def _sync(self, pool: Pool, doing: str) -> None:
        """Put the folder's names on disk. What is there by now is there, so even a full disk is no lack of room."""
        with pool.opened(doing) as folder:
            try:
                os.fsync(folder)
            except OSError as error:
                raise errors.DriverError(f"{doing}: {error.strerror} in {pool.path}") from error


def _is_there(folder: int, volume: Volume, doing: str) -> bool:
    """Tell whether the volume's file is there, in the right size."""
    present = volume_files.size(folder, volume.id)
    if present not in (None, volume.size_gb * GIB):
        raise errors.DriverError(f"{doing}: a file of {present} bytes is there, not of {volume.size_gb * GIB}")
    return present is not None


def _printable(name: str) -> str:
    """Return a file name as text; bytes that are none are shown escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")
