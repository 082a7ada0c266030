# SPDX-License-Identifier: Apache-2.0
"""The driver of ``large_report.py``: any number of pools, all with the same figures, and no volumes."""

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers.base import Driver, StoredVolume, Volume

#: Size of a pool in GiB, so small that each volume of the benchmark is placed elsewhere.
_SIZE = 1000


class LargeDriver(Driver):
    """Pools whose free capacity is the size minus the number in the file ``used``.

    Each report writes its time and that number into the file ``reported``. The memory driver has options for each pool,
    which take most of its time with 100,000 pools.
    """

    supports_thin = True
    supports_thick = True

    options = (
        cfg.IntOpt("large_pools", default=1000, min=1, help="Number of pools."),
        cfg.StrOpt("large_folder", default=".", help="Folder of the files."),
    )

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._folder = pathlib.Path(conf.large_folder)

    def check(self) -> None:
        """Do nothing: there is no storage."""

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of all pools."""
        used = self._folder / "used"
        number = int(used.read_text()) if used.exists() else 0
        pools = [
            {
                "pool_name": f"pool{count}",
                "total_capacity_gb": _SIZE,
                "free_capacity_gb": _SIZE - number,
                "provisioned_capacity_gb": 0,
                "max_over_subscription_ratio": 20,
                "reserved_percentage": 0,
                "thin_provisioning_support": True,
                "thick_provisioning_support": False,
            }
            for count in range(1, self.conf.large_pools + 1)
        ]
        new = self._folder / "reported.new"
        new.write_text(f"{time.time()} {number}")
        new.replace(self._folder / "reported")
        return pools

    def create(self, volume: Volume) -> None:
        raise errors.DriverError(f"volume {volume.id}: this storage takes no volumes", clean=True)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        raise errors.NotFound(f"volume {volume.id}: this storage has no volumes")

    def delete(self, volume: Volume) -> None:
        """Do nothing: there is no volume."""

    def list_volumes(self) -> Sequence[StoredVolume]:
        return []
