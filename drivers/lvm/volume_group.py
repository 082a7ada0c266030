# SPDX-License-Identifier: Apache-2.0
"""What LVM says of a volume group: what is in it, and how much room there is. Sizes are bytes."""

import enum
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tonnage.drivers.lvm import lvm_commands

#: LVM prints percentages with two decimals, so what is printed may be so much more.
_HALF_OF_LAST_DIGIT = 0.005

#: LVM makes nothing more in a thin pool of whose metadata no more is free than so many bytes, or so many percent where
#: these are less (its thin_pool_metadata_min_threshold).
_LEAST_METADATA = 4 << 20
_LEAST_METADATA_PERCENT = 25.0


class Kind(enum.Enum):
    """What a logical volume is to the driver."""

    THICK = "a thick volume"
    THIN = "a thin volume"
    THIN_POOL = "a thin pool"
    SNAPSHOT = "a snapshot"
    OTHER = "neither a volume nor a thin pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalVolume:
    """A logical volume. ``pool`` is the thin pool that a thin one is in, ``origin`` what a snapshot was made of.

    ``half_done`` tells that a change of it was interrupted, ``data`` and ``metadata`` how full a thin pool is, in
    percent, None where the kernel does not show it; ``metadata_size`` is bytes.
    """

    name: str
    size: int
    kind: Kind
    pool: str = ""
    origin: str = ""
    tags: frozenset[str] = frozenset()
    active: bool = True
    half_done: bool = False
    in_use: bool = False
    zeroes: bool = False
    health: str = ""
    data: float | None = None
    metadata: float | None = None
    metadata_size: int = 0

    @property
    def unfinished(self) -> bool:
        """Whether something is still to be copied into it, or was when the agent was killed."""
        return lvm_commands.UNFINISHED in self.tags

    @property
    def crowded(self) -> bool:
        """Whether so little of a thin pool's metadata is free that LVM makes nothing more in it."""
        if self.metadata is None or not self.metadata_size:
            return False
        least = min(_LEAST_METADATA_PERCENT, 100 * _LEAST_METADATA / self.metadata_size)
        return self.metadata + _HALF_OF_LAST_DIGIT >= 100 - least

    @property
    def used(self) -> int:
        """What of a thin pool is in use, at most. All of it where the pool cannot tell, or takes nothing more."""
        if self.data is None or self.crowded or self.health in ("failed", "metadata_read_only"):
            return self.size
        # LVM prints 0 and 100 for nothing else than empty and full.
        percent = self.data if self.data in (0.0, 100.0) else self.data + _HALF_OF_LAST_DIGIT
        return min(int(self.size * percent / 100) + 1, self.size) if percent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A volume group with its logical volumes by their names; ``trouble`` says why nothing can be made in it."""

    name: str
    size: int
    free: int
    extent: int
    tags: frozenset[str]
    trouble: str
    volumes: Mapping[str, LogicalVolume]

    def inside(self, pool: str) -> list[LogicalVolume]:
        """Return the volumes in a thin pool or, without one, those outside of any. Snapshots are none."""
        return [volume for volume in self._of(pool) if not volume.unfinished]

    def unfinished(self, pool: str) -> list[LogicalVolume]:
        """Return what is to become volumes there."""
        return [volume for volume in self._of(pool) if volume.unfinished]

    def provisioned(self, pool: str) -> int:
        """Return the sum of the sizes of the volumes that are :meth:`inside`."""
        return sum(volume.size for volume in self.inside(pool))

    def _of(self, pool: str) -> Iterator[LogicalVolume]:
        for volume in self.volumes.values():
            if volume.kind is Kind.THIN and volume.pool == pool if pool else volume.kind is Kind.THICK:
                yield volume

    def bound_to(self, name: str) -> list[str]:
        """Return the names of what LVM would remove with a volume: copies made of it, but thin ones in its own pool."""
        pool = self.volumes[name].pool
        return [
            volume.name
            for volume in self.volumes.values()
            if volume.origin == name and not (pool and volume.pool == pool)
        ]


def rows(answer: str, section: str) -> list[Mapping[str, str]]:
    """Return the rows of a report in JSON. Raises ValueError if it is none."""
    try:
        (report,) = json.loads(answer)["report"]
        found: list[Mapping[str, str]] = report[section]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it printed no report: {answer.strip()[:200]!r}") from error
    return found


def group(of_group: Mapping[str, str], of_volumes: Sequence[Mapping[str, str]]) -> Group:
    """Return the group that rows describe. Raises ValueError if they make no sense."""
    try:
        return Group(
            name=of_group["vg_name"],
            size=int(of_group["vg_size"]),
            free=int(of_group["vg_free"]),
            extent=int(of_group["vg_extent_size"]),
            tags=_tags(of_group["vg_tags"]),
            trouble=_trouble(of_group["vg_attr"]),
            volumes={row["lv_name"]: _volume(row) for row in of_volumes},
        )
    except KeyError as error:
        raise ValueError(f"it printed no field {error}") from error


def _volume(row: Mapping[str, str]) -> LogicalVolume:
    tags = _tags(row["lv_tags"])
    return LogicalVolume(
        name=row["lv_name"],
        size=int(row["lv_size"]),
        kind=_kind(row["lv_layout"].split(","), row["lv_role"].split(","), tags),
        pool=row["pool_lv"],
        origin=row["origin"],
        tags=tags,
        # Where LVM works without device-mapper it knows of neither of these.
        active=row["lv_active"] != "",
        half_done=row["lv_suspended"] == "suspended" or row["lv_inactive_table"] == "inactive table present",
        in_use=row["lv_device_open"] == "open",
        zeroes=row["lv_attr"][7:8] == "z",
        health=row["lv_health_status"],
        data=_percent(row["data_percent"]),
        metadata=_percent(row["metadata_percent"]),
        metadata_size=int(row["lv_metadata_size"] or 0),
    )


def _kind(layout: Sequence[str], roles: Sequence[str], tags: Collection[str]) -> Kind:
    if "pool" in layout:
        return Kind.THIN_POOL if "thin" in layout else Kind.OTHER
    if "public" not in roles:
        return Kind.OTHER
    if "snapshot" in roles and lvm_commands.VOLUME not in tags:
        return Kind.SNAPSHOT
    return Kind.THIN if "thin" in layout else Kind.THICK


def _tags(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _percent(text: str) -> float | None:
    return float(text) if text else None


def _trouble(attributes: str) -> str:
    """Return what the letters of ``vg_attr`` say against changing the group."""
    if attributes[3:4] == "p":
        return "a physical volume of it is missing"
    return "" if attributes[:1] == "w" else "it is read-only"
