# SPDX-License-Identifier: Apache-2.0
"""The storage of ``million.py``: pools whose figures follow from their number, and the driver that reports them.

The ledger is filled with the same figures, so the first report of a backend changes nothing.
"""

import os
import pathlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import CLONE_SUPPORT
from tonnage.drivers.base import Driver, StoredVolume, Volume

#: GiB of each volume that is there from the beginning: one in each pool.
VOLUME_GB = 10

#: The extra specs of the volume types of the bench: ``gold`` fits every second pool, ``silver`` every third.
TYPES: Mapping[str, Mapping[str, str]] = {
    "gold": {
        "volume_backend_name": "ssd",
        "storage_protocol": "<in> iSCSI",
        "capabilities:compression_support": "<is> True",
    },
    "silver": {"capabilities:tier": "silver"},
}

#: GiB of a large volume, which fits only the first pool of the first backend: more than any other pool takes.
LARGE_GB = 500_000

#: Seconds for which an instruction of the bench is not read again.
_REMEMBERED = 0.2


def section(backend: int) -> str:
    """Return the name of a backend, and of its section of the configuration."""
    return f"b{backend}"


def short_name(backend: int, number: int) -> str:
    """Return the name of a pool within its backend."""
    return f"pool{number}"


def volume_id(backend: int, number: int) -> str:
    """Return the id of the volume that is in a pool from the beginning."""
    return f"00000000-0000-4000-8000-{backend:06x}{number:06x}"


def figures(backend: int, number: int, changes: int = 0, created_gb: int = 0, large: int = 1) -> dict[str, Any]:
    """Return the report of a pool.

    ``changes`` is how often its free capacity has changed, ``created_gb`` the size of the volumes beside the first one,
    ``large`` the number of large volumes for which the first pool of the first backend has room.
    """
    position = backend * 7919 + number
    used = 1_000 + position % 3_001 + 0.25 * (changes % 400)
    total, ratio, reserved, tier = 10_000 + 10 * (position % 997), 10.0, 5, ("gold", "silver", "bronze")[position % 3]
    if backend == number == 0:
        total, ratio, reserved, tier, used = LARGE_GB * large + VOLUME_GB, 1.0, 0, "none", 0
    return {
        CLONE_SUPPORT: False,
        "pool_name": short_name(backend, number),
        "total_capacity_gb": total,
        "free_capacity_gb": total - used,
        "provisioned_capacity_gb": VOLUME_GB + created_gb,
        "reserved_percentage": reserved,
        "max_over_subscription_ratio": ratio,
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
        "volume_backend_name": "ssd" if backend % 2 else "hdd",
        "vendor_name": "Vendor",
        "driver_version": "1.2.3",
        "storage_protocol": "iSCSI",
        "compression_support": True,
        "QoS_support": False,
        "multiattach": True,
        "tier": tier,
        "location_info": f"Driver:array{backend}:volumes",
    }


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instructions of the bench to all drivers: pools of a backend that change with each report, a backend all of
    whose pools change at once, and the number of that change."""

    changed_pools: int = 0
    whole_backend: str = ""
    whole_number: int = 0

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Instructions":
        """Return the instructions that are in the folder."""
        try:
            changed, backend, number = (folder / "instructions").read_text().split(",")
        except FileNotFoundError:
            return cls()
        return cls(int(changed), backend, int(number))

    def write(self, folder: pathlib.Path) -> None:
        """Give these instructions to all drivers that use the folder."""
        new = folder / "instructions.new"
        new.write_text(f"{self.changed_pools},{self.whole_backend},{self.whole_number}")
        new.replace(folder / "instructions")


class _Instructed:
    """The instructions, read at most a few times a second for all backends of a process."""

    def __init__(self) -> None:
        self._until = 0.0
        self._current = Instructions()

    def get(self, folder: pathlib.Path) -> Instructions:
        """Return the current instructions."""
        now = time.monotonic()
        if now >= self._until:
            self._until = now + _REMEMBERED
            self._current = Instructions.read(folder)
        return self._current


_INSTRUCTED = _Instructed()


class MillionDriver(Driver):
    """Pools with a volume each, and the volumes that Tonnage creates."""

    supports_thin = True
    supports_thick = True
    supports_extend = True

    options = (
        cfg.IntOpt("million_number", default=0, min=0, help="Number of the backend."),
        cfg.IntOpt("million_pools", default=1000, min=1, help="Number of pools."),
        cfg.IntOpt("million_large", default=1, min=1, help="Number of large volumes that fit the first pool."),
        cfg.StrOpt("million_folder", default=".", help="Folder of the instructions."),
    )

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._folder = pathlib.Path(conf.million_folder)
        self._number = conf.million_number
        self._lock = threading.Lock()
        self._changes: Counter[int] = Counter()
        self._created: dict[str, tuple[int, int]] = {}
        self._created_gb: Counter[int] = Counter()
        self._deleted: set[str] = set()
        self._next = 0
        self._whole_number = 0
        self._reports = [self._figures(number) for number in range(conf.million_pools)]

    def check(self) -> None:
        """Do nothing: there is no storage."""

    def has_news(self) -> bool:
        instructions = _INSTRUCTED.get(self._folder)
        return self._is_whole(instructions) and instructions.whole_number > self._whole_number

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Change the instructed pools, and return the figures of all pools."""
        instructions, pools = _INSTRUCTED.get(self._folder), len(self._reports)
        with self._lock:
            if self._is_whole(instructions) and instructions.whole_number > self._whole_number:
                self._whole_number = instructions.whole_number
                self._change(range(pools))
                (self._folder / "reported.new").write_text(f"{time.time()} {self._whole_number}")
                os.replace(self._folder / "reported.new", self._folder / "reported")
            else:
                first, self._next = self._next, (self._next + instructions.changed_pools) % pools
                self._change({(first + step) % pools for step in range(instructions.changed_pools)})
            return list(self._reports)

    def create(self, volume: Volume) -> None:
        number = int(volume.pool.removeprefix("pool"))
        with self._lock:
            if volume.id not in self._created:
                self._created[volume.id] = (number, volume.size_gb)
                self._add(number, volume.size_gb)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        with self._lock:
            if volume.id not in self._created:
                raise errors.NotFound(f"volume {volume.id}: there is no such volume")
            number, size_gb = self._created[volume.id]
            if new_size_gb > size_gb:
                self._created[volume.id] = (number, new_size_gb)
                self._add(number, new_size_gb - size_gb)

    def delete(self, volume: Volume) -> None:
        with self._lock:
            if volume.id in self._created:
                number, size_gb = self._created.pop(volume.id)
                self._add(number, -size_gb)

    def list_volumes(self) -> Sequence[StoredVolume]:
        return list(self._listed())

    def _listed(self) -> Iterator[StoredVolume]:
        for number in range(len(self._reports)):
            yield StoredVolume(
                id=volume_id(self._number, number), pool=short_name(self._number, number), size_gb=VOLUME_GB
            )
        with self._lock:
            created = dict(self._created)
        for id, (number, size_gb) in created.items():
            yield StoredVolume(id=id, pool=short_name(self._number, number), size_gb=size_gb)

    def _is_whole(self, instructions: Instructions) -> bool:
        return instructions.whole_backend == self.backend

    def _change(self, numbers: "range | set[int]") -> None:
        for number in numbers:
            self._changes[number] += 1
            self._reports[number] = self._figures(number)

    def _add(self, number: int, size_gb: int) -> None:
        self._created_gb[number] += size_gb
        self._reports[number] = self._figures(number)

    def _figures(self, number: int) -> dict[str, Any]:
        return figures(self._number, number, self._changes[number], self._created_gb[number], self.conf.million_large)
