# SPDX-License-Identifier: Apache-2.0
"""A small driver: the backend is one pool, a folder; each volume is a sparse file in it."""

import math
import os
import pathlib
import threading
import uuid

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver
from tonnage.drivers.base import StoredVolume
from tonnage.drivers.options import capabilities

UNFINISHED = ".new"


class FolderDriver(Driver):
    supports_thin = True
    supports_extend = True

    options = (
        cfg.StrOpt("folder_path", help="Folder for the volumes."),
        cfg.IntOpt("folder_size_gb", default=100, min=1, help="Total capacity of the pool, in GiB."),
    )

    def __init__(self, backend, conf):
        super().__init__(backend, conf)
        if not conf.folder_path:
            raise errors.ConfigurationError(f"[{conf.section_name}] folder_path is not set")
        self._folder = pathlib.Path(conf.folder_path)
        self._pool = backend.rpartition("@")[2]
        # The agent makes sure that no other process works on this backend.
        self._lock = threading.Lock()

    def check(self):
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for leftover in self._folder.glob(f"*{UNFINISHED}"):
                leftover.unlink()
        except OSError as error:
            raise errors.ConfigurationError(
                f"[{self.conf.section_name}] folder_path: {self._folder}: {error.strerror}"
            ) from error

    def report(self):
        with self._lock:
            return [self._figures()]

    def create(self, volume):
        path = self._path(volume)
        with self._lock:
            if path.exists():
                if path.stat().st_size != volume.size_gb * GIB:
                    raise errors.DriverError(f"volume {volume.id} is there in another size")
                return
            self.admit(self._figures(), volume, volume.size_gb)
            self._write(path.with_suffix(UNFINISHED), volume.size_gb)
            path.with_suffix(UNFINISHED).rename(path)

    def extend(self, volume, new_size_gb):
        path = self._path(volume)
        with self._lock:
            if not path.exists():
                raise errors.NotFound(f"volume {volume.id} is not in pool {self.backend}#{volume.pool}")
            growth = new_size_gb - path.stat().st_size // GIB
            if growth > 0:
                self.admit(self._figures(), volume, growth)
                self._write(path, new_size_gb)

    def delete(self, volume):
        with self._lock:
            self._path(volume).unlink(missing_ok=True)

    def list_volumes(self):
        with self._lock:
            return [
                StoredVolume(id=path.name, pool=self._pool, size_gb=path.stat().st_size / GIB) for path in self._files()
            ]

    def _files(self):
        return [path for path in self._folder.iterdir() if path.is_file() and path.suffix != UNFINISHED]

    def _figures(self):
        status = [path.stat() for path in self._files()]
        used = sum(each.st_blocks * 512 for each in status)
        total = self.conf.folder_size_gb
        return {
            **capabilities(self.conf, self.backend),
            "pool_name": self._pool,
            "total_capacity_gb": total,
            # Rounded down: never more is promised than is there.
            "free_capacity_gb": max(0.0, math.floor((total - used / GIB) * 100) / 100),
            "provisioned_capacity_gb": round(sum(each.st_size for each in status) / GIB, 2),
            "thin_provisioning_support": True,
            "storage_protocol": "file",
        }

    def _path(self, volume):
        if volume.pool != self._pool:
            raise errors.DriverError(f"backend {self.backend} has no pool {volume.pool}", clean=True)
        try:
            # Anything but a UUID could lead out of the folder.
            return self._folder / str(uuid.UUID(volume.id))
        except ValueError:
            raise errors.DriverError(f"{volume.id!r} is no id of a volume", clean=True) from None

    @staticmethod
    def _write(path, size_gb):
        try:
            with path.open("ab") as file:
                file.truncate(size_gb * GIB)
                os.fsync(file.fileno())
        except OSError as error:
            raise errors.DriverError(f"{path}: {error.strerror}") from error
