# SPDX-License-Identifier: Apache-2.0
"""A driver of Cinder whose volumes are sparse files, for the comparison of latencies. Runs with Cinder's Python."""

import pathlib
from typing import Any

from cinder import interface
from cinder.volume import configuration, driver
from oslo_config import cfg

_OPTS = [cfg.StrOpt("files_folder", help="The folder of the volumes.")]
cfg.CONF.register_opts(_OPTS, group=configuration.SHARED_CONF_GROUP)  # noqa: TID251  (Cinder's way)

_GIB = 2**30


@interface.volumedriver
class FileDriver(driver.VolumeDriver):  # type: ignore[misc]
    """Creates and deletes sparse files in one folder, and counts their sizes for each report."""

    VERSION = "1.0"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.configuration.append_config_values(_OPTS)

    @classmethod
    def get_driver_options(cls) -> list[cfg.Opt]:
        """Return the options of the driver."""
        return _OPTS

    def do_setup(self, _context: Any) -> None:
        """Create the folder."""
        self._folder = pathlib.Path(self.configuration.files_folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def check_for_setup_error(self) -> None:
        """Accept the configuration."""

    def _update_volume_stats(self) -> None:
        provisioned = sum(file.stat().st_size for file in self._folder.iterdir()) / _GIB
        self._stats = {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name"),
            "vendor_name": "Open Source",
            "driver_version": self.VERSION,
            "storage_protocol": "file",
            "total_capacity_gb": 10_000_000,
            "free_capacity_gb": 10_000_000,
            "provisioned_capacity_gb": provisioned,
            "thin_provisioning_support": True,
            "thick_provisioning_support": False,
            "max_over_subscription_ratio": "20.0",
            "reserved_percentage": 0,
        }

    def create_volume(self, volume: Any) -> None:
        """Create a sparse file."""
        with (self._folder / volume["id"]).open("xb") as file:
            file.truncate(volume["size"] * _GIB)

    def delete_volume(self, volume: Any) -> None:
        """Delete the file."""
        (self._folder / volume["id"]).unlink(missing_ok=True)

    def ensure_export(self, _context: Any, _volume: Any) -> None:
        """Do nothing: the volumes are not exported."""

    def create_export(self, _context: Any, _volume: Any, _connector: Any) -> None:
        """Do nothing: the volumes are not exported."""

    def remove_export(self, _context: Any, _volume: Any) -> None:
        """Do nothing: the volumes are not exported."""
