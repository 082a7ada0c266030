# SPDX-License-Identifier: Apache-2.0
"""A volume group as LVM reports it: its logical volumes and its free space. Sizes are bytes."""

import enum
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tonnage.drivers.lvm import lvm_commands

#: LVM prints percentages with two decimals, so the real value may be higher by this.
_HALF_OF_LAST_DIGIT = 0.005

#: LVM creates nothing in a thin pool with less free metadata than these bytes, or than this percentage where it is less
#: (its thin_pool_metadata_min_threshold).
_MIN_FREE_METADATA_BYTES = 4 << 20
_MIN_FREE_METADATA_PERCENT = 25.0


class Category(enum.Enum):
    """The category of a logical volume, as the driver sees it."""

    THICK = "a thick volume"
    THIN = "a thin volume"
    THIN_POOL = "a thin pool"
    SNAPSHOT = "a snapshot"
    OTHER = "neither a volume nor a thin pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalVolume:
    """A logical volume. ``pool`` is the thin pool of a thin volume, ``origin`` the origin of a snapshot.

    ``change_interrupted`` is true if a command that changed it was interrupted. ``data_percent`` and
    ``metadata_percent`` are the usage of a thin pool, None where the kernel does not report it; ``metadata_size`` is
    bytes.
    """

    name: str
    size: int
    category: Category
    pool: str = ""
    origin: str = ""
    tags: frozenset[str] = frozenset()
    active: bool = True
    change_interrupted: bool = False
    in_use: bool = False
    zeroes: bool = False
    health: str = ""
    data_percent: float | None = None
    metadata_percent: float | None = None
    metadata_size: int = 0

    @property
    def unfinished(self) -> bool:
        """Return whether the volume is the target of a copy that has not ended, or that a killed agent left."""
        return lvm_commands.UNFINISHED in self.tags

    @property
    def metadata_full(self) -> bool:
        """Return whether a thin pool has so little free metadata that LVM creates no more volumes in it."""
        if self.metadata_percent is None or not self.metadata_size:
            return False
        min_free = min(_MIN_FREE_METADATA_PERCENT, 100 * _MIN_FREE_METADATA_BYTES / self.metadata_size)
        return self.metadata_percent + _HALF_OF_LAST_DIGIT >= 100 - min_free

    @property
    def used(self) -> int:
        """The upper bound of the used bytes of a thin pool.

        It is the whole size where the usage is unknown or the pool takes no more volumes.
        """
        if self.data_percent is None or self.metadata_full or self.health in ("failed", "metadata_read_only"):
            return self.size
        # LVM prints 0 and 100 only for an empty and a full pool.
        percent = self.data_percent if self.data_percent in (0.0, 100.0) else self.data_percent + _HALF_OF_LAST_DIGIT
        return min(int(self.size * percent / 100) + 1, self.size) if percent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeGroup:
    """A volume group with its logical volumes by name.

    ``problem`` is the reason why no volume can be created, empty without one.
    """

    name: str
    size: int
    free: int
    extent: int
    tags: frozenset[str]
    problem: str
    volumes: Mapping[str, LogicalVolume]

    def volumes_in(self, pool: str) -> list[LogicalVolume]:
        """Return the volumes in a thin pool or, for an empty name, outside of all thin pools, without snapshots."""
        return [volume for volume in self._all_in(pool) if not volume.unfinished]

    def unfinished_in(self, pool: str) -> list[LogicalVolume]:
        """Return the unfinished copies in a thin pool or outside of all thin pools."""
        return [volume for volume in self._all_in(pool) if volume.unfinished]

    def provisioned(self, pool: str) -> int:
        """Return the sum of the sizes of :meth:`volumes_in`."""
        return sum(volume.size for volume in self.volumes_in(pool))

    def _all_in(self, pool: str) -> Iterator[LogicalVolume]:
        for volume in self.volumes.values():
            if volume.category is Category.THIN and volume.pool == pool if pool else volume.category is Category.THICK:
                yield volume

    def dependents(self, name: str) -> list[str]:
        """Return the names of the volumes that LVM would remove with a volume.

        These are its snapshots, except thin ones in its own pool.
        """
        pool = self.volumes[name].pool
        return [
            volume.name
            for volume in self.volumes.values()
            if volume.origin == name and not (pool and volume.pool == pool)
        ]


def parse_rows(answer: str, section: str) -> list[Mapping[str, str]]:
    """Return the rows of a JSON report. Raises ValueError if the text is not a report."""
    try:
        (report,) = json.loads(answer)["report"]
        rows: list[Mapping[str, str]] = report[section]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it printed no report: {answer.strip()[:200]!r}") from error
    return rows


def parse_group(group_row: Mapping[str, str], volume_rows: Sequence[Mapping[str, str]]) -> VolumeGroup:
    """Return the group that these rows describe. Raises ValueError if a field is missing."""
    try:
        return VolumeGroup(
            name=group_row["vg_name"],
            size=int(group_row["vg_size"]),
            free=int(group_row["vg_free"]),
            extent=int(group_row["vg_extent_size"]),
            tags=_tags(group_row["vg_tags"]),
            problem=_problem(group_row["vg_attr"]),
            volumes={row["lv_name"]: _volume(row) for row in volume_rows},
        )
    except KeyError as error:
        raise ValueError(f"it printed no field {error}") from error


def _volume(row: Mapping[str, str]) -> LogicalVolume:
    tags = _tags(row["lv_tags"])
    return LogicalVolume(
        name=row["lv_name"],
        size=int(row["lv_size"]),
        category=_category(row["lv_layout"].split(","), row["lv_role"].split(","), tags),
        pool=row["pool_lv"],
        origin=row["origin"],
        tags=tags,
        # Without device-mapper LVM knows neither of these.
        active=row["lv_active"] != "",
        change_interrupted=row["lv_suspended"] == "suspended" or row["lv_inactive_table"] == "inactive table present",
        in_use=row["lv_device_open"] == "open",
        zeroes=row["lv_attr"][7:8] == "z",
        health=row["lv_health_status"],
        data_percent=_percent(row["data_percent"]),
        metadata_percent=_percent(row["metadata_percent"]),
        metadata_size=int(row["lv_metadata_size"] or 0),
    )


def _category(layout: Sequence[str], roles: Sequence[str], tags: Collection[str]) -> Category:
    if "pool" in layout:
        return Category.THIN_POOL if "thin" in layout else Category.OTHER
    if "public" not in roles:
        return Category.OTHER
    if "snapshot" in roles and lvm_commands.VOLUME not in tags:
        return Category.SNAPSHOT
    return Category.THIN if "thin" in layout else Category.THICK


def _tags(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _percent(text: str) -> float | None:
    return float(text) if text else None


def _problem(attributes: str) -> str:
    """Return the problem that the letters of ``vg_attr`` report, or an empty text."""
    if attributes[3:4] == "p":
        return "a physical volume of it is missing"
    return "" if attributes[:1] == "w" else "it is read-only"
