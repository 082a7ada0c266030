# SPDX-License-Identifier: Apache-2.0
"""The ``filesystem`` driver: each pool is a folder, each volume a file in it that is named by the volume's id.

A thin volume is a sparse file, a thick one has its blocks allocated. The whole truth is in the file system: whatever
regular file lies in a pool's folder is a volume of that pool, whoever made it.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import _copies
from tonnage.drivers import _files
from tonnage.drivers import _storage
from tonnage.drivers._folder_pool import MARK
from tonnage.drivers._folder_pool import Copying
from tonnage.drivers._folder_pool import Pool
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Source
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

#: What the location of every pool of this driver begins with; this machine and the folder follow.
_LOCATION = "filesystem"

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

    options = (
        cfg.ListOpt(
            "filesystem_pools",
            default=[],
            help="Names of the pools. Unset, the backend is one pool named like it. What is different for a pool "
            "stands in a section [backend:pool], for example [ssd:gold] for the pool gold of the backend ssd: "
            "filesystem_path, filesystem_size_limit_gb, filesystem_provisioning, reserved_percentage, "
            "max_over_subscription_ratio, extra_capabilities, filter_function, goodness_function, "
            "min_free_capacity_percentage, min_free_capacity_extend_percentage. All else comes from the backend's "
            "section.",
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
        #: What was last said of a pool that cannot be measured or changed; said again only when it changes.
        self._told: dict[str, str] = {}

    def check(self) -> None:
        """Make the folders that are missing, see that volumes can be made in all of them, and mark them as ours.

        Nothing is marked by a configuration that is refused.
        """
        seen: dict[tuple[int, int], Pool] = {}
        for pool in self._pools.values():
            try:
                os.makedirs(pool.path, mode=0o700, exist_ok=True)
                with _files.opened(pool.path) as folder:
                    _refuse_other(pool, pool.owner(folder))
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
        for pool in self._pools.values():
            self._claim(pool)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool. One whose folder cannot be read is left out, unless that goes for all."""
        figures: list[Mapping[str, Any]] = []
        failure: errors.TonnageError | None = None
        for pool in self._pools.values():
            try:
                with pool.opened(f"pool {self.backend}#{pool.name} cannot be measured") as folder:
                    figures.append(pool.figures(folder))
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
        with pool.opened(doing, clean=True) as folder, _files.unnamed(folder) as file:
            if not thick:  # costs no space, so there is no need to keep others waiting for the disk
                _files.grow(file, size, allocate=False)
            with _files.locked(folder):
                if not _is_there(folder, volume, doing):
                    self.admit(pool.figures(folder, with_copies=True), volume, volume.size_gb)
                    if thick:
                        _files.grow(file, size, allocate=True)
                    _files.give_name(folder, file, volume.id)
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
                    self._copy(pool, folder, volume, content, doing)
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
            if _files.identity(origin) == _files.identity(folder):
                # Nothing was made: what is there is the volume itself.
                raise errors.DriverError(f"{doing}: {pool.path} is the folder that it is in already", clean=True)
            if not there:
                self._copy(pool, folder, volume, content, doing)
            else:
                with _files.existing(folder, volume.id, write=False) as present:
                    if not _copies.same(content, present):
                        raise errors.DriverError(f"{doing}: the file of that name has another content than its source")
        self._sync(pool, doing)

    def manage(self, volume: Volume, reference: str) -> float:
        """Rename the file ``reference``, after it was grown to whole GiB and, for a thick volume, got all its space."""
        pool, doing = self._target(volume, f"manage of {reference!r}")
        if not reference or reference in (".", "..") or "/" in reference or "\0" in reference:
            raise errors.DriverError(f"{doing}: that is no name of a file in {pool.path}", clean=True)
        self._refuse_other_kinds(pool, volume, doing)
        with pool.opened(doing, clean=True) as folder, _files.locked(folder):
            name = volume.id if _files.size(folder, reference) is None else reference
            if name != volume.id and _files.size(folder, volume.id) is not None:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            if _files.size(folder, name) is None:
                raise errors.DriverError(f"{doing}: there is no such file in {pool.path}", clean=True)
            with _files.existing(folder, name) as file:
                size_gb = self._adopt(pool, folder, volume, file, doing)
            if name != volume.id:
                _files.rename(folder, name, volume.id)
        self._sync(pool, doing)
        return size_gb

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
                self.admit(pool.figures(folder, with_copies=True), volume, growth_gb)
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

    def _tell(self, pool: Pool, said: str) -> None:
        """Say in the log what is wrong with a pool, once until it changes."""
        told = self._told.get(pool.name, "")
        if said and said != told:
            LOG.error("%s", said)
        elif told and not said:
            LOG.info("Pool %s works again, that is over: %s", pool.full_name, told)
        self._told[pool.name] = said

    def _named_pool(self, name: str) -> Pool:
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

    def _configured(self, name: str, section: Section, path: str | None) -> Pool:
        if not path:
            raise errors.ConfigurationError(
                f"[{section.section_name}] filesystem_path is not set; it names the folder for the volumes"
            )
        made = kinds(section.filesystem_provisioning)
        return Pool(
            name=name,
            full_name=f"{self.backend}#{name}",
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
                "location_info": f"{_LOCATION}:{socket.gethostname()}:{os.path.abspath(path)}",
                "thin_provisioning_support": Provisioning.THIN in made,
                "thick_provisioning_support": Provisioning.THICK in made,
            },
        )

    def _check(self, pool: Pool, folder: int) -> None:
        """See that the folder can be used and tidy it up."""
        if trouble := pool.trouble(folder):  # what is there can still be told
            self._tell(pool, trouble)
            return
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

    def _claim(self, pool: Pool) -> None:
        """Mark the folder. Another pool, which began at the same time, may have been faster."""
        try:
            with _files.opened(pool.path) as folder:
                _refuse_other(pool, pool.claimed(folder))
                os.fsync(folder)
        except OSError as error:
            way_out = (
                "make room for one more file there" if error.errno in _files.NO_ROOM else "let this user write to it"
            )
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: {pool.path} cannot be marked as that of pool {pool.full_name}: "
                f"{error.strerror or error}; {way_out}"
            ) from error

    @contextlib.contextmanager
    def _opened_source(self, source: Source, doing: str, clean: bool) -> Iterator[tuple[int, int]]:
        """Open the folder and the file of a volume that is to be copied."""
        path = self._path_of(source)
        if path is None:
            raise errors.DriverError(
                f"{doing}: {source.location or 'a pool without location_info'!r} is no folder on this machine, "
                f"{socket.gethostname()}; volumes can be taken over from folders here",
                clean=clean,
            )
        if not _SAFE_NAME.fullmatch(source.id):
            raise errors.DriverError(f"{doing}: {source.id!r} is no name for a file", clean=clean)
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(_files.opened(path))
                file = stack.enter_context(_files.existing(folder, source.id, write=False))
            except OSError as error:
                raise errors.DriverError(
                    f"{doing}: volume {source.id} cannot be read: {error.strerror or error} in {path}", clean=clean
                ) from error
            yield folder, file

    def _path_of(self, source: Source) -> str | None:
        """Return the folder that a volume is in, None if that is not on this machine."""
        if source.backend == self.backend:
            pool = self._pools.get(source.pool)
            return None if pool is None else pool.path
        driver, _, place = source.location.partition(":")
        host, _, path = place.partition(":")
        return path if (driver, host) == (_LOCATION, socket.gethostname()) and os.path.isabs(path) else None

    def _copy(self, pool: Pool, folder: int, volume: Volume, content: int, doing: str) -> None:
        """Make the file with the content of another; others need not wait meanwhile, what it will take is kept."""
        size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
        if os.fstat(content).st_size > size:
            raise errors.DriverError(
                f"{doing}: its source has {os.fstat(content).st_size} bytes, more than {volume.size_gb} GiB", clean=True
            )
        with _files.unnamed(folder) as file:
            try:
                with _files.locked(folder):
                    figures = pool.figures(folder, with_copies=True)
                    self.admit(figures, volume, volume.size_gb)
                    data = 0 if thick else _copies.data_size(content)
                    self.admit_data(figures, volume, data / GIB)
                    _files.grow(file, size, allocate=thick)
                    pool.copying[volume.id] = Copying(size=size, taken=size if thick else 0, wanted=data)
                if not _copies.copy(content, file, share=not thick):
                    raise errors.DriverError(f"{doing}: its source was written to meanwhile", clean=True)
                os.fsync(file)
                with _files.locked(folder):
                    del pool.copying[volume.id]
                    _files.give_name(folder, file, volume.id)
            finally:
                pool.copying.pop(volume.id, None)

    def _adopt(self, pool: Pool, folder: int, volume: Volume, file: int, doing: str) -> float:
        """Make a file of somebody else's like one of ours, and return its size in GiB; its name stays."""
        if _files.names(file) > 1:
            raise errors.DriverError(f"{doing}: the file has other names too (hard links); remove them", clean=True)
        present = os.fstat(file).st_size
        if present == 0:
            raise errors.DriverError(f"{doing}: the file is empty", clean=True)
        size = -(-present // GIB) * GIB
        thick = volume.provisioning is Provisioning.THICK
        missing = max(size - _files.used(file), 0) if thick else size - present
        if missing:
            self.admit(pool.figures(folder, with_copies=True), volume, missing / GIB)
        if missing and thick:
            _files.allocate(file)
        _files.grow(file, size, allocate=thick)
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
        if not _SAFE_NAME.fullmatch(volume.id):
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
    present = _files.size(folder, volume.id)
    if present not in (None, volume.size_gb * GIB):
        raise errors.DriverError(f"{doing}: a file of {present} bytes is there, not of {volume.size_gb * GIB}")
    return present is not None


def _refuse_other(pool: Pool, owner: str | None) -> None:
    """Raise ConfigurationError if a pool's folder is another's.

    The two would take each other's volumes for copies and orphans, and delete the only one that there is.
    """
    if owner not in (None, pool.full_name):
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: {pool.path} belongs to pool {owner}, and "
            f"{pool.full_name} needs a folder of its own; if that pool is gone for good or was renamed, remove "
            f"{os.path.join(pool.path, MARK)}"
        )


def _printable(name: str) -> str:
    """Return a file name as text; bytes that are none are shown escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")
