# SPDX-License-Identifier: Apache-2.0
"""The ``filesystem`` driver: each pool is a folder, each volume a file in it that is named by the volume's id.

A thin volume is a sparse file, a thick one has its blocks allocated. The whole truth is in the file system: whatever
regular file lies in a pool's folder is a volume of that pool, whoever made it.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import _files
from tonnage.drivers import _storage
from tonnage.drivers.base import Driver
from tonnage.drivers.base import StoredVolume
from tonnage.drivers.base import Volume
from tonnage.drivers.options import POOL_OPTS
from tonnage.drivers.options import Section
from tonnage.drivers.options import capabilities
from tonnage.drivers.options import kinds
from tonnage.drivers.options import provisioning_opt

LOG = logging.getLogger(__name__)

#: Names of volumes and pools. Nothing that matches leads out of a folder.
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")

_POOL_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "filesystem_path",
        help="Folder for the volumes. It is made if it does not exist, so a file system that belongs there has to be "
        "mounted first. With filesystem_pools each pool has a folder of its name in it, or the one that its own "
        "section names.",
    ),
    cfg.IntOpt(
        "filesystem_size_limit_gb",
        min=1,
        help="Most that the files in the folder may take up, in GiB; the size of the file system if that is less. Set "
        "for a backend with several pools it limits each of them, not their sum. Unset, only the file system limits.",
    ),
    provisioning_opt("filesystem_provisioning", default="thin"),
)


@dataclass(slots=True)
class _Pool:
    """A folder and what is configured for it. ``folder`` and ``storage_id`` are known once it was checked."""

    name: str
    section: str
    path: str
    limit: int | None
    kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]
    folder: tuple[int, int] | None = None
    storage_id: str = ""

    @contextlib.contextmanager
    def opened(self, doing: str, clean: bool = False) -> Iterator[int]:
        """Open the folder; what fails meanwhile was done on behalf of ``doing``, and is ``clean`` or not."""
        try:
            with _files.opened(self.path) as folder:
                if self.folder is not None and _files.identity(folder) != self.folder:
                    raise errors.DriverError(
                        f"{doing}: folder {self.path} is another one than at start (unmounted, mounted over or "
                        "replaced?); mend it or restart the agent",
                        clean=clean,
                    )
                yield folder
        except OSError as error:
            message = f"{doing}: {error.strerror or error} in {self.path}"
            if error.errno in _files.NO_ROOM:
                raise errors.CapacityExceeded(message) from error
            raise errors.DriverError(message, clean=clean) from error

    def figures(self, folder: int) -> dict[str, Any]:
        """Look at the open folder and return what the pool reports.

        Rounded to hundredths so that never more is promised than is there: provisioned up, total and free down.
        """
        used = provisioned = 0
        for file in _files.files(folder):
            used += file.used
            provisioned += file.size
        system = os.fstatvfs(folder)
        available = system.f_bavail * system.f_frsize
        # What root alone may use would not be there for volumes in an empty file system either.
        total = (system.f_blocks - system.f_bfree) * system.f_frsize + available
        free = available
        if self.limit is not None:
            total, free = min(total, self.limit), min(free, max(self.limit - used, 0))
        return {
            **self.capabilities,
            "pool_name": self.name,
            "total_capacity_gb": _hundredths_below(total),
            "free_capacity_gb": _hundredths_below(min(free, total)),
            "provisioned_capacity_gb": _hundredths_above(provisioned),
            "storage_id": self.storage_id,
            "storage_free_capacity_gb": _hundredths_below(available),
        }


class FilesystemDriver(Driver):
    """Volumes as files, in one folder per pool.

    Works on local file systems that can make a file before it has a name (ext4, xfs, btrfs, tmpfs); thick volumes need
    ``fallocate`` as well. Operations on one pool keep each other out by a lock on its folder, across processes too.
    """

    supports_thin = True
    supports_thick = True
    supports_extend = True
    supports_auto_ratio = True

    options = (
        cfg.ListOpt(
            "filesystem_pools",
            default=[],
            help="Names of the pools. Unset, the backend is one pool named like it. What is different for a pool "
            "stands in a section [backend:pool], for example [ssd:gold] for the pool gold of the backend ssd: "
            "filesystem_path, filesystem_size_limit_gb, filesystem_provisioning, reserved_percentage, "
            "max_over_subscription_ratio, extra_capabilities. All else comes from the backend's section.",
        ),
        *_POOL_OPTIONS,
    )

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        names = conf.filesystem_pools
        if len(set(names)) != len(names):
            raise errors.ConfigurationError(
                f"[{conf.section_name}] filesystem_pools = {', '.join(names)}: each name may stand there once"
            )
        pools = [self._named_pool(name) for name in names] or [
            self._configured(backend.rpartition("@")[2], conf, conf.filesystem_path)
        ]
        self._pools = {pool.name: pool for pool in pools}
        #: What was last said of a pool that cannot be measured; said again only when it changes.
        self._told: dict[str, str] = {}

    def check(self) -> None:
        """Make the folders that are missing and see that volumes can be made in all of them."""
        seen: dict[tuple[int, int], _Pool] = {}
        for pool in self._pools.values():
            try:
                os.makedirs(pool.path, mode=0o700, exist_ok=True)
                with _files.opened(pool.path) as folder:
                    self._check(pool, folder)
                    identity = _files.identity(folder)
                    pool.folder, pool.storage_id = identity, _storage.identify(folder)
            except OSError as error:
                raise errors.ConfigurationError(
                    f"[{pool.section}] filesystem_path: {pool.path} cannot be used: {error.strerror or error}; "
                    "name a folder (no symbolic link) that this user may read and write"
                ) from error
            other = seen.setdefault(identity, pool)
            if other is not pool:
                raise errors.ConfigurationError(
                    f"[{pool.section}] filesystem_path: {pool.path} is the folder of pool {other.name!r} too; "
                    "give each pool one of its own"
                )

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool. One whose folder cannot be read is left out, unless that goes for all."""
        figures: list[Mapping[str, Any]] = []
        failure: errors.TonnageError | None = None
        for pool in self._pools.values():
            try:
                with pool.opened(f"pool {self.backend}#{pool.name} cannot be measured") as folder:
                    figures.append(pool.figures(folder))
            except errors.TonnageError as error:
                if self._told.get(pool.name) != str(error):
                    LOG.error("%s", error)
                self._told[pool.name] = str(error)
                failure = error
            else:
                self._told.pop(pool.name, None)
        if failure is not None and not figures:
            raise failure
        return figures

    def create(self, volume: Volume) -> None:
        """Make the file and give it its name once it is complete and on disk."""
        pool, doing = self._target(volume, "create")
        if volume.provisioning not in pool.kinds:
            raise errors.DriverError(
                f"{doing}: the pool makes no {volume.provisioning} volumes ([{pool.section}] filesystem_provisioning)",
                clean=True,
            )
        size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
        with pool.opened(doing, clean=True) as folder, _files.unnamed(folder) as file:
            if not thick:  # costs no space, so there is no need to keep others waiting for the disk
                _files.grow(file, size, allocate=False)
            with _files.locked(folder):
                present = _files.size(folder, volume.id)
                if present is None:
                    self.admit(pool.figures(folder), volume, volume.size_gb)
                    if thick:
                        _files.grow(file, size, allocate=True)
                    _files.give_name(folder, file, volume.id)
                elif present != size:
                    raise errors.DriverError(f"{doing}: a file of {present} bytes is there, not of {size}")
        self._sync(pool, doing)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Grow the file; a thick one gets its new blocks before its new size."""
        pool, doing = self._target(volume, f"extend to {new_size_gb} GiB")
        with pool.opened(doing) as folder, _files.locked(folder):
            present = _files.size(folder, volume.id)
            if present is None:
                raise errors.NotFound(f"{doing}: there is no such volume in {pool.path}")
            size = max(new_size_gb * GIB, present)
            growth_gb = -((present - size) // GIB)
            if growth_gb:
                self.admit(pool.figures(folder), volume, growth_gb)
            with _files.existing(folder, volume.id) as file:
                _files.grow(file, size, allocate=volume.provisioning is Provisioning.THICK)

    def delete(self, volume: Volume) -> None:
        """Delete the file."""
        pool, doing = self._target(volume, "delete")
        with pool.opened(doing) as folder:
            _files.remove(folder, volume.id)
        self._sync(pool, doing)

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every regular file in the pools' folders; a file has a name only when it is finished."""
        volumes: list[StoredVolume] = []
        for pool in self._pools.values():
            with pool.opened(f"pool {self.backend}#{pool.name} cannot be listed") as folder:
                volumes.extend(
                    StoredVolume(id=_printable(file.name), pool=pool.name, size_gb=file.size / GIB)
                    for file in _files.files(folder)
                )
        return volumes

    def _named_pool(self, name: str) -> _Pool:
        if not _SAFE_NAME.fullmatch(name):
            raise errors.ConfigurationError(
                f"[{self.conf.section_name}] filesystem_pools: {name!r} is no name for a pool; "
                "it takes letters, digits, '_', '-' and '.', the first a letter or digit"
            )
        section = self.conf.pool(name, (*POOL_OPTS, *_POOL_OPTIONS))
        path = section.filesystem_path
        if path and not section.sets("filesystem_path"):
            path = os.path.join(path, name)
        return self._configured(name, section, path)

    def _configured(self, name: str, section: Section, path: str | None) -> _Pool:
        if not path:
            raise errors.ConfigurationError(
                f"[{section.section_name}] filesystem_path is not set; it names the folder for the volumes"
            )
        made = kinds(section.filesystem_provisioning)
        return _Pool(
            name=name,
            section=section.section_name,
            path=os.path.abspath(path),
            limit=None if section.filesystem_size_limit_gb is None else section.filesystem_size_limit_gb * GIB,
            kinds=made,
            capabilities={
                **capabilities(section, self.backend),
                "vendor_name": "Tonnage",
                "driver_version": tonnage.__version__,
                "storage_protocol": "file",
                "QoS_support": False,
                "multiattach": False,
                "thin_provisioning_support": Provisioning.THIN in made,
                "thick_provisioning_support": Provisioning.THICK in made,
            },
        )

    def _check(self, pool: _Pool, folder: int) -> None:
        """See that the folder can be used and tidy it up."""
        try:
            allocates = _files.can_allocate(folder)
        except OSError as error:
            if error.errno in _files.NO_ROOM:  # volumes can still be deleted
                LOG.warning("The file system of %s is full", pool.path)
                return
            if error.errno not in _files.NO_UNNAMED:
                raise
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: the file system of {pool.path} cannot make files without a name "
                "(O_TMPFILE); use a local ext4, xfs, btrfs or tmpfs"
            ) from error
        if Provisioning.THICK in pool.kinds and not allocates:
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_provisioning: the file system of {pool.path} cannot allocate space in "
                "advance; set it to thin, or use ext4, xfs, btrfs or tmpfs"
            )
        with _files.locked(folder):
            for file in _files.files(folder):
                # A volume is whole GiB; what else lies there is not ours to touch.
                if file.used > file.size > 0 == file.size % GIB and _files.trimmed(folder, file):
                    LOG.info("Gave back what an interrupted extend of %s had allocated in %s", file.name, pool.path)

    def _target(self, volume: Volume, verb: str) -> tuple[_Pool, str]:
        """Return the volume's pool, and words for what is being done to it."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if not _SAFE_NAME.fullmatch(volume.id):
            raise errors.DriverError(f"{doing}: {volume.id!r} is no name for a file", clean=True)
        pool = self._pools.get(volume.pool)
        if pool is None:
            raise errors.DriverError(f"{doing}: the backend's pools are {', '.join(self._pools)}", clean=True)
        return pool, doing

    def _sync(self, pool: _Pool, doing: str) -> None:
        """Put the folder's names on disk. What is there by now is there, so even a full disk is no lack of room."""
        with pool.opened(doing) as folder:
            try:
                os.fsync(folder)
            except OSError as error:
                raise errors.DriverError(f"{doing}: {error.strerror} in {pool.path}") from error


def _hundredths_below(size: int) -> float:
    """Return bytes as GiB, rounded down to two decimals."""
    return (size * 100 // GIB) / 100


def _hundredths_above(size: int) -> float:
    """Return bytes as GiB, rounded up to two decimals."""
    return -(-size * 100 // GIB) / 100


def _printable(name: str) -> str:
    """Return a file name as text; bytes that are none are shown escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")
