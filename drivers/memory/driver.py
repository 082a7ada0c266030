# SPDX-License-Identifier: Apache-2.0
"""The ``memory`` driver: pools without storage, for simulations and tests."""

import contextlib
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oslo_config import cfg

import tonnage
from tonnage.capacity import errors, number_bounds
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.drivers.filesystem import ownership
from tonnage.drivers.memory.state import State, VolumeEntries, VolumeEntry
from tonnage.drivers.options import POOL_OPTS, Section, capabilities, kinds, provisioning_opt
from tonnage.drivers.snapshot_cache import SnapshotCache

#: The beginning of the location of every pool of this driver.
_LOCATION_PREFIX = "memory:"

#: The owner of a state file that several backends may share.
_SHARED_OWNER = "backends with a memory_storage_id"

_POOL_OPTIONS: Sequence[cfg.Opt] = (
    cfg.FloatOpt("memory_pool_size_gb", default=100.0, min=0, help="Total capacity of each pool, in GiB."),
    provisioning_opt("memory_provisioning", default="both"),
    cfg.StrOpt(
        "memory_storage_id",
        help="Name of the pool's storage. Pools of one storage have their own volumes and report the figures of the "
        "whole, so their sizes have to be the same. Pools of other backends, also in other processes, share it too if "
        "they use the same memory_state_file. If unset, the pool is a storage of its own.",
    ),
)


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool. ``key`` is the key of its volumes in the state: it differs between pools that share a storage."""

    key: str
    size_gb: float
    storage_id: str | None
    provisioning_kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]


class MemoryDriver(Driver):
    """Volumes that are entries in a dictionary; a thick one uses its size, a thin one nothing.

    The volumes are lost with the process unless ``memory_state_file`` is set. Options add latency and failures, the
    latter from a seeded generator.
    """

    supports_thin = True
    supports_thick = True
    supports_extend = True
    supports_clone = True
    supports_migrate = True
    supports_manage = True

    options = (
        cfg.ListOpt(
            "memory_pools",
            default=["1"],
            help="Names of the pools, or their number: 3 stands for pool1, pool2, pool3. A section "
            "[backend:pool] has the settings of one pool.",
        ),
        cfg.FloatOpt(
            "memory_latency",
            default=0.0,
            min=0,
            max=number_bounds.LONGEST_WAIT,
            help="Seconds that each operation on a volume takes.",
        ),
        cfg.FloatOpt(
            "memory_failure_share",
            default=0.0,
            min=0,
            max=1,
            help="Share of the operations on volumes that fail, without any change.",
        ),
        cfg.IntOpt("memory_seed", help="Seed of the simulated failures. If unset, each run is different."),
        cfg.StrOpt(
            "memory_state_file",
            help="File for the volumes, so that they survive the process. Each change replaces the file as a whole. "
            "Backends may share one only if all their pools have a memory_storage_id.",
        ),
        *_POOL_OPTIONS,
    )

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        self._pools = {name: self._pool(name) for name in _pool_names(conf)}
        self._random = random.Random(conf.memory_seed)  # noqa: S311 -- failures for simulations
        self._random_lock = threading.Lock()
        self._file = Path(conf.memory_state_file).absolute() if conf.memory_state_file else None
        self._state = State(self._file, shared=self._is_shared())
        self._snapshot_cache: SnapshotCache[Mapping[str, VolumeEntries]] = SnapshotCache()

    def check(self) -> None:
        """Read the state file, if it exists, and verify that it can be written and belongs to this backend."""
        name = f"[{self.conf.section_name}] memory_state_file = {self._file}"
        self._state.required_mark = None
        try:
            if self._file is not None:
                ownership.require_file_of_mark(self._file, name)
                self._claim_file(self._file, name)
            self._state.check()
        except OSError as error:
            raise errors.ConfigurationError(f"{name}: {error.strerror}; name a file that can be written") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.ConfigurationError(
                f"{name}: not a state file of this driver ({error}); name another or remove it"
            ) from error

    def ledger_marks(self) -> Mapping[str, str | None]:
        """Return the mark of the state file for all pools; nothing without a file."""
        return {} if self._file is None else dict.fromkeys(self._pools, ownership.ledger_mark(self._file))

    def mark_ledger(self, mark: str) -> None:
        """Mark the state file, if there is one, and use it only with its mark from now on."""
        if self._file is not None:
            self._state.required_mark = ownership.mark_file(self._file, mark)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool."""
        volumes = self._volumes_snapshot()
        return [self._figures(volumes, name) for name in self._pools]

    def create(self, volume: Volume) -> None:
        context = self._begin_operation(volume, "create")
        with self._state.locked() as volumes:
            self._add(volumes, volume, context)

    def clone(self, volume: Volume, source: Source) -> None:
        """Add the volume, if its source exists. There is no content."""
        context = self._begin_operation(volume, f"clone of {source.id}")
        with self._state.locked() as volumes:
            pool = self._pools.get(source.pool) if source.backend == self.backend else None
            original = None if pool is None else volumes.get(pool.key, {}).get(source.id)
            if original is None:
                raise errors.DriverError(f"{context}: that is not on this backend", clean=True)
            self._add(volumes, volume, context, source_gb=original.size_gb)

    def migrate(self, volume: Volume, source: Source) -> None:
        """Add the volume, if its source is in a pool of a memory driver, on any host."""
        context = self._begin_operation(volume, f"migration from {source.backend}#{source.pool}")
        if not source.location.startswith(_LOCATION_PREFIX):
            raise errors.DriverError(f"{context}: {source.location!r} is no place in memory", clean=True)
        with self._state.locked() as volumes:
            self._add(volumes, volume, context, source_gb=source.size_gb)

    def manage(self, volume: Volume, reference: str) -> float:
        """Move the entry ``reference`` to the volume's id."""
        context = self._begin_operation(volume, f"manage of {reference!r}")
        with self._state.locked() as volumes:
            entries = volumes.get(self._pools[volume.pool].key, {})
            referenced, present = entries.get(reference), entries.get(volume.id)
            if present is not None and (referenced is None or reference == volume.id):
                return float(present.size_gb)
            if present is not None:
                raise errors.DriverError(f"{context}: there is a volume {volume.id} already")
            if referenced is None:
                raise errors.DriverError(f"{context}: there is nothing of that name", clean=True)
            if volume.provisioning is Provisioning.THICK and referenced.provisioning is Provisioning.THIN:
                self.admit(self._figures(volumes, volume.pool), volume, referenced.size_gb)
                referenced = replace(referenced, provisioning=volume.provisioning)
            self._state.update(self._pools[volume.pool].key, {volume.id: referenced, reference: None})
            return float(referenced.size_gb)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        context = self._begin_operation(volume, f"extend to {new_size_gb} GiB")
        with self._state.locked() as volumes:
            present = volumes.get(self._pools[volume.pool].key, {}).get(volume.id)
            if present is None:
                raise errors.NotFound(f"{context}: there is no such volume")
            if new_size_gb > present.size_gb:
                self.admit(self._figures(volumes, volume.pool), volume, new_size_gb - present.size_gb)
                self._state.update(self._pools[volume.pool].key, {volume.id: replace(present, size_gb=new_size_gb)})

    def delete(self, volume: Volume) -> None:
        self._begin_operation(volume, "delete")
        with self._state.locked():
            self._state.update(self._pools[volume.pool].key, {volume.id: None})

    def list_volumes(self) -> Sequence[StoredVolume]:
        volumes = self._volumes_snapshot()
        return [
            StoredVolume(id=id, pool=name, size_gb=float(entry.size_gb))
            for name, pool in self._pools.items()
            for id, entry in volumes.get(pool.key, {}).items()
        ]

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Take all figures and lists from one snapshot."""
        return self._snapshot_cache.snapshot()

    def _volumes_snapshot(self) -> Mapping[str, VolumeEntries]:
        """Return the volumes. The mapping never changes; each update replaces it."""
        return self._snapshot_cache.get("volumes", self._volumes_now)

    def _volumes_now(self) -> Mapping[str, VolumeEntries]:
        with self._state.locked() as volumes:
            return volumes

    def _claim_file(self, file: Path, name: str) -> None:
        """Mark the state file as this backend's, or as one that backends share and read anew each time.

        Backends that do not read it anew would overwrite each other's changes, so a file has one kind of users. Raises
        OSError.
        """
        owner_mark = file.with_name(f"{file.name}.owner")
        owner = _SHARED_OWNER if self._is_shared() else self.backend
        if (current_owner := ownership.claim(owner, owner_mark)) != owner:
            raise errors.ConfigurationError(
                f"{name}: it is that of {current_owner}, not of {owner}; name another, or set memory_storage_id for "
                f"the pools of both; if nobody else uses it any more, remove {owner_mark}"
            )

    def _pool(self, name: str) -> _Pool:
        section = self.conf.pool(name, (*POOL_OPTS, *_POOL_OPTIONS))
        provisioning = kinds(section.memory_provisioning)
        storage_id = section.memory_storage_id or None
        return _Pool(
            # Names of backends and pools have no '#'.
            key=name if storage_id is None else f"{self.backend}#{name}#{storage_id}",
            storage_id=storage_id,
            size_gb=round(section.memory_pool_size_gb, 2),
            provisioning_kinds=provisioning,
            capabilities={
                **capabilities(section, self.backend),
                "vendor_name": "Tonnage",
                "driver_version": tonnage.__version__,
                "storage_protocol": "memory",
                "QoS_support": False,
                "multiattach": False,
                "location_info": f"{_LOCATION_PREFIX}{self.backend.partition('@')[0]}",
                "thin_provisioning_support": Provisioning.THIN in provisioning,
                "thick_provisioning_support": Provisioning.THICK in provisioning,
                **({} if storage_id is None else {"storage_id": storage_id}),
            },
        )

    def _is_shared(self) -> bool:
        """Return whether other backends may share the state file.

        Raise ConfigurationError unless all pools of a storage have the same size.
        """
        sizes: dict[str, _Pool] = {}
        for name, pool in self._pools.items():
            other = sizes.setdefault(pool.storage_id or "", pool)
            if pool.storage_id is not None and other.size_gb != pool.size_gb:
                raise errors.ConfigurationError(
                    f"[{self.conf.section_name}:{name}] memory_pool_size_gb = {pool.size_gb:g}: another pool says that "
                    f"storage {pool.storage_id!r} has {other.size_gb:g} GiB; set the same size for both"
                )
        if self._file is not None and len(sizes) > 1 and "" in sizes:
            raise errors.ConfigurationError(
                f"[{self.conf.section_name}] memory_storage_id: with a memory_state_file, set it for all pools or none"
            )
        return "" not in sizes

    def _begin_operation(self, volume: Volume, operation: str) -> str:
        """Wait for the configured latency, and raise DriverError for a simulated failure.

        Return the words that errors of the operation begin with.
        """
        context = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {operation} failed"
        if volume.pool not in self._pools:
            raise errors.DriverError(f"{context}: there is no such pool", clean=True)
        if self.conf.memory_latency:
            time.sleep(self.conf.memory_latency)
        with self._random_lock:
            fails = self._random.random() < self.conf.memory_failure_share
        if fails:
            raise errors.DriverError(f"{context} as memory_failure_share wants", clean=True)
        return context

    def _add(self, volumes: Mapping[str, VolumeEntries], volume: Volume, context: str, source_gb: int = 0) -> None:
        """Add a volume unless it exists. ``source_gb`` is the size of its source, 0 without one."""
        pool = self._pools[volume.pool]
        if volume.provisioning not in pool.provisioning_kinds:
            raise errors.DriverError(f"{context}: the pool makes no {volume.provisioning} volumes", clean=True)
        present = volumes.get(pool.key, {}).get(volume.id)
        if present is None:
            if source_gb > volume.size_gb:
                raise errors.DriverError(f"{context}: {source_gb} GiB do not fit in {volume.size_gb} GiB", clean=True)
            self.admit(self._figures(volumes, volume.pool), volume, volume.size_gb)
            self._state.update(pool.key, {volume.id: VolumeEntry(volume.size_gb, volume.provisioning)})
        elif present.size_gb != volume.size_gb:
            raise errors.DriverError(f"{context}: there is one of {present.size_gb} GiB already")

    def _figures(self, volumes: Mapping[str, VolumeEntries], name: str) -> dict[str, Any]:
        pool = self._pools[name]
        if pool.storage_id is None:
            keys = [pool.key]
        else:
            keys = [key for key in volumes if key.split("#", 2)[2:] == [pool.storage_id]]
        entries = [entry for key in keys for entry in volumes.get(key, {}).values()]
        used = sum(entry.size_gb for entry in entries if entry.provisioning is Provisioning.THICK)
        return {
            **pool.capabilities,
            "pool_name": name,
            "total_capacity_gb": pool.size_gb,
            "free_capacity_gb": round(max(pool.size_gb - used, 0.0), 2),
            "provisioned_capacity_gb": sum(entry.size_gb for entry in entries),
        }


def _pool_names(conf: Section) -> list[str]:
    names: list[str] = conf.memory_pools
    if len(names) == 1 and names[0].isdecimal():
        names = [f"pool{number}" for number in range(1, int(names[0]) + 1)]
    if not names or len(set(names)) != len(names):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] memory_pools = {', '.join(conf.memory_pools)}: "
            "names that differ from each other, or a number of at least 1, are needed"
        )
    return names
