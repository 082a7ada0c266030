# SPDX-License-Identifier: Apache-2.0
"""A driver of Cinder whose volumes are sparse files in the folders of two pools. Runs with Cinder's Python.

``control.json`` in its folder holds orders for the tests: ``look_seconds`` is the time between its look at the files
and its report, ``looks`` the number of the last look that may end, ``create_seconds`` the time of each creation,
``fail`` lets creations fail, and ``stats`` has fields for the report of each pool instead of the true ones.
``connect_seconds`` is the time of each connection to a volume that a host copies, ``extend_seconds`` that of each
extension, ``move_seconds`` that of each move by the driver, and ``accept_seconds`` that of each transfer. ``by_host``
lets a host copy volumes that move, and ``fail_connect``, ``fail_extend`` and ``fail_move`` let these operations fail.
The file ``looks`` beside it gets a line with each look, and ``held`` has the number of the look that waits.
"""

import json
import pathlib
import time
from typing import Any

from cinder import exception, interface
from cinder.image import image_utils
from cinder.volume import configuration, driver, volume_utils
from oslo_config import cfg

_OPTS = [
    cfg.StrOpt("files_folder", help="The folder of the pools."),
    cfg.ListOpt("files_pools", default=["a", "b"], help="The names of the pools."),
    cfg.FloatOpt("files_total_gb", default=100, help="The size of each pool in GiB."),
]
cfg.CONF.register_opts(_OPTS, group=configuration.SHARED_CONF_GROUP)  # noqa: TID251  (Cinder's way)

_GIB = 2**30


@interface.volumedriver
class ControlledFileDriver(driver.VolumeDriver):  # type: ignore[misc]
    """Creates, extends, moves and deletes sparse files, and counts their sizes for each report."""

    VERSION = "1.0"
    SUPPORTS_ACTIVE_ACTIVE = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.configuration.append_config_values(_OPTS)

    @classmethod
    def get_driver_options(cls) -> list[cfg.Opt]:
        """Return the options of the driver."""
        return _OPTS

    def do_setup(self, _context: Any) -> None:
        """Create the folders."""
        self._folder = pathlib.Path(self.configuration.files_folder)
        for pool in self.configuration.files_pools:
            (self._folder / pool).mkdir(parents=True, exist_ok=True)

    def check_for_setup_error(self) -> None:
        """Accept the configuration."""

    def _ordered(self, key: str, default: Any) -> Any:
        try:
            return json.loads((self._folder / "control.json").read_text()).get(key, default)
        except (OSError, ValueError):
            return default

    def _provisioned(self, pool: str) -> float:
        return sum(file.stat().st_size for file in (self._folder / pool).iterdir()) / _GIB

    def _update_volume_stats(self) -> None:
        seen = {pool: self._provisioned(pool) for pool in self.configuration.files_pools}
        (self._folder / "looks").open("a").write("look\n")
        time.sleep(self._ordered("look_seconds", 0))
        number = len((self._folder / "looks").read_text().splitlines())
        while number > self._ordered("looks", number):
            (self._folder / "held").write_text(str(number))
            time.sleep(0.05)
        total = self.configuration.files_total_gb
        self._stats = {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name"),
            "vendor_name": "Open Source",
            "driver_version": self.VERSION,
            "storage_protocol": "file",
            "pools": [
                {
                    "pool_name": pool,
                    "total_capacity_gb": total,
                    "free_capacity_gb": total,
                    "provisioned_capacity_gb": provisioned,
                    "thin_provisioning_support": True,
                    "thick_provisioning_support": False,
                    "max_over_subscription_ratio": self.configuration.max_over_subscription_ratio,
                    "reserved_percentage": self.configuration.reserved_percentage,
                    "QoS_support": False,
                    "multiattach": False,
                    "filter_function": self.get_filter_function(),
                    "goodness_function": self.get_goodness_function(),
                    **self._ordered("stats", {}),
                }
                for pool, provisioned in seen.items()
            ],
        }

    def get_pool(self, volume: Any) -> Any:
        """Return the pool in the volume's host."""
        return volume_utils.extract_host(volume["host"], "pool")

    def _path(self, volume: Any) -> pathlib.Path:
        return self._folder / str(self.get_pool(volume)) / str(volume["name_id"])

    def create_volume(self, volume: Any) -> None:
        """Create a sparse file."""
        time.sleep(self._ordered("create_seconds", 0))
        if self._ordered("fail", False):
            raise exception.VolumeBackendAPIException(data="ordered to fail")
        with self._path(volume).open("wb") as file:
            file.truncate(volume["size"] * _GIB)

    def delete_volume(self, volume: Any) -> None:
        """Delete the file."""
        self._path(volume).unlink(missing_ok=True)

    def extend_volume(self, volume: Any, new_size: int) -> None:
        """Enlarge the file."""
        time.sleep(self._ordered("extend_seconds", 0))
        if self._ordered("fail_extend", False):
            raise exception.VolumeBackendAPIException(data="ordered to fail")
        self._enlarge(volume, new_size)

    def accept_transfer(self, _context: Any, _volume: Any, _new_user: str, _new_project: str) -> None:
        """Take the time of a transfer."""
        time.sleep(self._ordered("accept_seconds", 0))

    def _enlarge(self, volume: Any, new_size: int) -> None:
        with self._path(volume).open("r+b") as file:
            file.truncate(new_size * _GIB)

    def copy_image_to_volume(
        self, context: Any, volume: Any, image_service: Any, image_id: Any, disable_sparse: bool = False
    ) -> None:
        """Write an image to the file, which then has the size of the volume again."""
        path, size = str(self._path(volume)), volume["size"]
        block = self.configuration.volume_dd_blocksize
        image_utils.fetch_to_raw(context, image_service, image_id, path, block, size=size, run_as_root=False)
        self._enlarge(volume, size)

    def manage_existing_get_size(self, volume: Any, existing_ref: Any) -> int:
        """Return the size of a file in GiB."""
        file = self._folder / str(self.get_pool(volume)) / str(existing_ref["source-name"])
        return file.stat().st_size // _GIB

    def manage_existing(self, volume: Any, existing_ref: Any) -> None:
        """Rename a file to that of the volume."""
        file = self._folder / str(self.get_pool(volume)) / str(existing_ref["source-name"])
        file.rename(self._path(volume))

    def migrate_volume(self, _context: Any, volume: Any, host: Any) -> tuple[bool, dict[str, Any] | None]:
        """Rename the file if the other pool belongs to a backend beside this one."""
        backend, _, pool = host["host"].partition("@")[2].partition("#")
        target = self._folder.parent / backend / pool
        if not target.is_dir() or self._ordered("by_host", False):
            return False, None
        time.sleep(self._ordered("move_seconds", 0))
        if self._ordered("fail_move", False):
            raise exception.VolumeBackendAPIException(data="ordered to fail")
        self._path(volume).rename(target / volume["name_id"])
        return True, {}

    def create_snapshot(self, _snapshot: Any) -> None:
        """Do nothing: a snapshot takes no room."""

    def delete_snapshot(self, _snapshot: Any) -> None:
        """Do nothing."""

    def revert_to_snapshot(self, _context: Any, _volume: Any, _snapshot: Any) -> None:
        """Do nothing: a snapshot has no content."""

    def manage_existing_snapshot(self, snapshot: Any, existing_ref: Any) -> None:
        """Do nothing: a snapshot needs no name."""

    def manage_existing_snapshot_get_size(self, snapshot: Any, existing_ref: Any) -> int:
        """Return the size of the volume in GiB."""
        return int(snapshot["volume_size"])

    def unmanage_snapshot(self, _snapshot: Any) -> None:
        """Do nothing."""

    def create_cloned_volume(self, volume: Any, _source: Any) -> None:
        """Create a sparse file of its own."""
        self.create_volume(volume)

    def create_volume_from_snapshot(self, volume: Any, _snapshot: Any) -> None:
        """Create a sparse file of its own."""
        self.create_volume(volume)

    def ensure_export(self, _context: Any, _volume: Any) -> None:
        """Do nothing: the volumes are not exported."""

    def create_export(self, _context: Any, _volume: Any, _connector: Any) -> None:
        """Do nothing: the volumes are not exported."""

    def remove_export(self, _context: Any, _volume: Any) -> None:
        """Do nothing: the volumes are not exported."""

    def initialize_connection(self, volume: Any, _connector: Any) -> dict[str, Any]:
        """Return the path of the file, which is on this machine."""
        time.sleep(self._ordered("connect_seconds", 0))
        if self._ordered("fail_connect", False):
            raise exception.VolumeBackendAPIException(data="ordered to fail")
        return {"driver_volume_type": "local", "data": {"device_path": str(self._path(volume))}}

    def terminate_connection(self, volume: Any, _connector: Any, **_options: Any) -> None:
        """Let the file have the size of the volume: one that writes a backup to it may have left less."""
        self._enlarge(volume, volume["size"])
