# SPDX-License-Identifier: Apache-2.0
import math
import os
import pathlib
import threading

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, StoredVolume
from tonnage.drivers.options import capabilities


class FolderDriver(Driver):
    """A backend is one pool: a folder of its own below ``folder_path``. A volume is a sparse file in it."""

    supports_thin = True
    supports_extend = True

    options = (
        cfg.StrOpt("folder_path", default="/srv/tonnage", help="Folder for the folders of all backends."),
        cfg.IntOpt("folder_size_gb", default=100, min=1, help="Total capacity of the pool, in GiB."),
    )

    def __init__(self, backend, conf):
        super().__init__(backend, conf)
        # The folder has the backend's name, so that no two backends see the same volumes.
        self._folder = pathlib.Path(conf.folder_path, backend)
        self._pool = backend.rpartition("@")[2]
        self._lock = threading.RLock()

    def check(self):
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.ConfigurationError(f"[{self.conf.section_name}] folder_path: {error}") from error

    def report(self):
        with self._lock:
            files = self._files().values()
        total = self.conf.folder_size_gb
        used = sum(status.st_blocks * 512 for status in files) / GIB
        return [
            {
                **capabilities(self.conf, self.backend),
                "pool_name": self._pool,
                "total_capacity_gb": total,
                # Rounded down, so that the pool never promises more than it has.
                "free_capacity_gb": max(0.0, math.floor((total - used) * 100) / 100),
                "provisioned_capacity_gb": round(sum(status.st_size for status in files) / GIB, 2),
                "thin_provisioning_support": True,
            }
        ]

    def create(self, volume):
        with self._lock:
            present = self._size(volume)
            if present not in (0, volume.size_gb):
                raise errors.DriverError(f"volume {volume.id} is there already, with {present} GiB")
            self._grow(volume, present, volume.size_gb)

    def extend(self, volume, new_size_gb):
        with self._lock:
            present = self._size(volume)
            if present == 0:
                raise errors.NotFound(f"volume {volume.id} is not in {self._folder}")
            self._grow(volume, present, new_size_gb)

    def delete(self, volume):
        with self._lock:
            self._path(volume).unlink(missing_ok=True)

    def list_volumes(self):
        with self._lock:
            return [
                StoredVolume(id=name, pool=self._pool, size_gb=status.st_size / GIB)
                for name, status in self._files().items()
            ]

    def _grow(self, volume, present, size_gb):
        if size_gb > present:
            self.admit(self.report()[0], volume, size_gb - present)
            try:
                with self._path(volume).open("ab") as file:
                    # In one step. A crash before it leaves an empty file, which does not count as a volume.
                    file.truncate(size_gb * GIB)
                    os.fsync(file.fileno())
            except OSError as error:
                raise errors.DriverError(f"volume {volume.id}: {error}") from error

    def _path(self, volume):
        if volume.pool != self._pool:
            raise errors.DriverError(f"backend {self.backend} has no pool {volume.pool}", clean=True)
        return self._folder / volume.id

    def _size(self, volume):
        path = self._path(volume)
        return path.stat().st_size // GIB if path.exists() else 0

    def _files(self):
        statuses = {path.name: path.stat() for path in self._folder.iterdir()}
        return {name: status for name, status in statuses.items() if status.st_size}
