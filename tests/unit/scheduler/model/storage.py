# SPDX-License-Identifier: Apache-2.0
"""Storages as they really are, and a driver that works on them and fails as it is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import pool_name
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume


@dataclass
class Copy:
    """What is on the storage of a volume. ``written_gb`` is what it takes up, ``content`` what a user wrote to it."""

    size_gb: int
    kind: Provisioning
    written_gb: int
    content: str = ""


@dataclass
class Storage:
    """What pools draw on. ``name`` is None where one pool has it for itself.

    ``others_gb`` is the space that is used by something else than volumes.
    """

    name: str | None
    total_gb: int
    others_gb: int = 0
    pools: list["StoragePool"] = field(default_factory=list)

    @property
    def used_gb(self) -> int:
        return self.others_gb + sum(pool.used_gb for pool in self.pools)

    @property
    def provisioned_gb(self) -> int:
        return sum(pool.provisioned_gb for pool in self.pools)


@dataclass
class StoragePool:
    """A pool. ``carved_gb`` is the limit of its own that it has on a shared storage; None: it has the whole of it."""

    storage: Storage
    ratio: float
    thin: bool
    thick: bool
    carved_gb: int | None = None
    reports_provisioned: bool = True
    reserved_percentage: int = 0
    media: str = "hdd"
    copies: dict[str, Copy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage.pools.append(self)

    @property
    def used_gb(self) -> int:
        return sum(copy.written_gb for copy in self.copies.values())

    @property
    def provisioned_gb(self) -> int:
        return sum(copy.size_gb for copy in self.copies.values())

    def figures(self, name: str) -> dict[str, Any]:
        """Return what a driver reports of it at this moment."""
        carved = self.carved_gb is not None
        whole = self if carved else self.storage
        total = self.carved_gb if self.carved_gb is not None else self.storage.total_gb
        figures = {
            "pool_name": name,
            "total_capacity_gb": total,
            "free_capacity_gb": max(0, total - whole.used_gb),
            "provisioned_capacity_gb": whole.provisioned_gb if self.reports_provisioned else None,
            "max_over_subscription_ratio": self.ratio,
            "reserved_percentage": self.reserved_percentage,
            "thin_provisioning_support": self.thin,
            "thick_provisioning_support": self.thick,
            "media": self.media,
            "storage_id": self.storage.name,
        }
        if carved:
            figures["storage_free_capacity_gb"] = max(0, self.storage.total_gb - self.storage.used_gb)
        return figures


@dataclass
class Fate:
    """How the next operations end. ``leaves``: of an unclean failure the volume is there all the same.

    ``mute``: the storage cannot tell what is there, so what was left is known to nobody.
    """

    fails: bool = False
    clean: bool = False
    leaves: bool = False
    mute: bool = False


def _nothing() -> None: ...


class ModelDriver(Driver):
    """A driver on pools of the model. ``everywhere`` has all pools of the world, where copies come from."""

    supports_thin = supports_thick = supports_extend = True
    supports_clone = supports_migrate = supports_manage = True

    def __init__(self, backend: str, pools: Mapping[str, StoragePool], everywhere: Mapping[str, StoragePool]) -> None:
        super().__init__(backend, None)
        self.pools = pools
        self.everywhere = everywhere
        self.fate = Fate()
        #: Called just before the driver looks, for whatever happens in that moment.
        self.looking: Callable[[], None] = _nothing
        #: Copies that an operation left and could not tell of.
        self.forgotten: set[tuple[str, str]] = set()

    def check(self) -> None: ...

    def report(self) -> Sequence[Mapping[str, Any]]:
        self.looking()
        return [pool.figures(name) for name, pool in self.pools.items()]

    def list_volumes(self) -> Sequence[StoredVolume]:
        self.looking()
        if self.fate.mute:
            raise errors.DriverError("the storage does not answer")
        return [
            StoredVolume(id=volume_id, pool=name, size_gb=copy.size_gb)
            for name, pool in self.pools.items()
            for volume_id, copy in pool.copies.items()
        ]

    def create(self, volume: Volume) -> None:
        written = volume.size_gb if volume.provisioning is Provisioning.THICK else 0
        self._make(volume, Copy(volume.size_gb, volume.provisioning, written))

    def clone(self, volume: Volume, source: Source) -> None:
        self._copy(volume, source)

    def migrate(self, volume: Volume, source: Source) -> None:
        self._copy(volume, source)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        copy = self.pools[volume.pool].copies[volume.id]
        if self.fate.fails and not self.fate.leaves:
            self._fail()
        # Half of the way, where it fails and leaves something.
        reached = (copy.size_gb + new_size_gb) // 2 if self.fate.fails and not self.fate.clean else new_size_gb
        if not (self.fate.fails and self.fate.clean):
            if volume.provisioning is Provisioning.THICK:
                copy.written_gb += max(0, reached - copy.size_gb)
            copy.size_gb = max(copy.size_gb, reached)
        self._fail()

    def delete(self, volume: Volume) -> None:
        if self.fate.fails and not self.fate.leaves:
            self._fail()
        self.pools[volume.pool].copies.pop(volume.id, None)
        self.forgotten.discard((pool_name(self.backend, volume.pool), volume.id))
        self._fail()

    def manage(self, volume: Volume, reference: str) -> float:
        copies = self.pools[volume.pool].copies
        if self.fate.fails:
            self._fail()
        if reference not in copies:
            if volume.id in copies:
                return copies[volume.id].size_gb
            raise errors.DriverError(f"there is no {reference}", clean=True)
        copies[volume.id] = copies.pop(reference)
        return copies[volume.id].size_gb

    def _copy(self, volume: Volume, source: Source) -> None:
        original = self.everywhere[pool_name(source.backend, source.pool)].copies.get(source.id)
        if original is None:
            raise errors.DriverError(f"{source.id} is not in {source.backend}#{source.pool}", clean=True)
        # As if the source were full of data.
        thin = volume.provisioning is Provisioning.THIN
        written = source.size_gb if thin else volume.size_gb
        self._make(volume, Copy(volume.size_gb, volume.provisioning, written, original.content), copied=True)

    def _make(self, volume: Volume, copy: Copy, copied: bool = False) -> None:
        copies = self.pools[volume.pool].copies
        present = copies.get(volume.id)
        if present is not None:
            # What a create left behind is empty, and as sources are taken to be full, that is another content.
            other = present.content != copy.content or present.written_gb < copy.written_gb
            if present.size_gb != volume.size_gb or (copied and other):
                raise errors.DriverError(f"there is another volume {volume.id}")
            return
        if self.fate.fails and (self.fate.clean or not self.fate.leaves):
            self._fail()
        copies[volume.id] = copy
        if self.fate.fails and self.fate.mute:
            self.forgotten.add((pool_name(self.backend, volume.pool), volume.id))
        self._fail()

    def _fail(self) -> None:
        if self.fate.fails:
            raise errors.DriverError("the storage failed", clean=self.fate.clean)
