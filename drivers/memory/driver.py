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
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.drivers.filesystem import ownership
from tonnage.drivers.memory.state import Kept, State, Volumes
from tonnage.drivers.options import POOL_OPTS, Section, capabilities, kinds, provisioning_opt
from tonnage.drivers.snapshot_cache import OneLook

#: What the location of every pool of this driver begins with.
_LOCATION = "memory:"

#: Whose a state file is that several backends may use.
_SHARERS = "backends with a memory_storage_id"

_POOL_OPTIONS: Sequence[cfg.Opt] = (
    cfg.FloatOpt("memory_pool_size_gb", default=100.0, min=0, help="Total capacity of each pool, in GiB."),
    provisioning_opt("memory_provisioning", default="both"),
    cfg.StrOpt(
        "memory_storage_id",
        help="Name of the storage that the pool draws on. Pools of one storage have their own volumes and report the "
        "figures of the whole, so their sizes have to be the same. Those of other backends, also in other processes, "
        "share it too if they use the same memory_state_file. Unset, the pool is a storage of its own.",
    ),
)


@dataclass(frozen=True, slots=True)
class _Pool:
    """``key`` is what its volumes are kept under: pools that share a storage have to be told apart there."""

    key: str
    size_gb: float
    storage_id: str | None
    kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]


class MemoryDriver(Driver):
    """Volumes that are entries in a dictionary; a thick one takes up its size, a thin one nothing.

    Its volumes are gone with the process unless ``memory_state_file`` is set. Delays and failures can be had on demand,
    the latter from a seeded generator.
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
            help="Names of the pools, or their number: 3 stands for pool1, pool2, pool3. What is different for a pool "
            "stands in a section [backend:pool].",
        ),
        cfg.FloatOpt("memory_latency", default=0.0, min=0, help="Seconds that each operation on a volume takes."),
        cfg.FloatOpt(
            "memory_failure_share",
            default=0.0,
            min=0,
            max=1,
            help="Share of the operations on volumes that fail, having changed nothing.",
        ),
        cfg.IntOpt("memory_seed", help="Seed for what fails. Unset, each run is different."),
        cfg.StrOpt(
            "memory_state_file",
            help="File to keep the volumes in, so that they survive the process. It is replaced as a whole after each "
            "change. Backends may share one only if all their pools have a memory_storage_id.",
        ),
        *_POOL_OPTIONS,
    )

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        self._pools = {name: self._pool(name) for name in _pool_names(conf)}
        self._random = random.Random(conf.memory_seed)  # noqa: S311 -- failures for simulations
        self._failing = threading.Lock()
        self._file = Path(conf.memory_state_file).absolute() if conf.memory_state_file else None
        self._state = State(self._file, shared=self._shares())
        self._one_look: OneLook[Mapping[str, Volumes]] = OneLook()

    def check(self) -> None:
        """Read the state file, if there is one, and see that it can be written and is nobody else's."""
        name = f"[{self.conf.section_name}] memory_state_file = {self._file}"
        try:
            if self._file is not None:
                self._claim(self._file, name)
            self._state.check()
        except OSError as error:
            raise errors.ConfigurationError(f"{name}: {error.strerror}; name a file that can be written") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.ConfigurationError(
                f"{name}: not a state file of this driver ({error}); name another or remove it"
            ) from error

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool."""
        volumes = self._seen()
        return [self._figures(volumes, name) for name in self._pools]

    def create(self, volume: Volume) -> None:
        """Enter the volume."""
        doing = self._begin(volume, "create")
        with self._state.opened() as volumes:
            self._enter(volumes, volume, doing)

    def clone(self, volume: Volume, source: Source) -> None:
        """Enter the volume, if its source is there. There is no content."""
        doing = self._begin(volume, f"clone of {source.id}")
        with self._state.opened() as volumes:
            pool = self._pools.get(source.pool) if source.backend == self.backend else None
            original = None if pool is None else volumes.get(pool.key, {}).get(source.id)
            if original is None:
                raise errors.DriverError(f"{doing}: that is not on this backend", clean=True)
            self._enter(volumes, volume, doing, source_gb=original.size_gb)

    def migrate(self, volume: Volume, source: Source) -> None:
        """Enter the volume, whose source has to be in another pool of this driver, wherever that runs."""
        doing = self._begin(volume, f"migration from {source.backend}#{source.pool}")
        if not source.location.startswith(_LOCATION):
            raise errors.DriverError(f"{doing}: {source.location!r} is no place in memory", clean=True)
        with self._state.opened() as volumes:
            self._enter(volumes, volume, doing, source_gb=source.size_gb)

    def manage(self, volume: Volume, reference: str) -> float:
        """Enter under the volume's id what is there as ``reference``."""
        doing = self._begin(volume, f"manage of {reference!r}")
        with self._state.opened() as volumes:
            inside = volumes.get(self._pools[volume.pool].key, {})
            found, present = inside.get(reference), inside.get(volume.id)
            if present is not None and (found is None or reference == volume.id):
                return float(present.size_gb)
            if present is not None:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            if found is None:
                raise errors.DriverError(f"{doing}: there is nothing of that name", clean=True)
            if volume.provisioning is Provisioning.THICK and found.provisioning is Provisioning.THIN:
                self.admit(self._figures(volumes, volume.pool), volume, found.size_gb)
                found = replace(found, provisioning=volume.provisioning)
            self._state.keep(self._pools[volume.pool].key, {volume.id: found, reference: None})
            return float(found.size_gb)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Change the volume's size."""
        doing = self._begin(volume, f"extend to {new_size_gb} GiB")
        with self._state.opened() as volumes:
            present = volumes.get(self._pools[volume.pool].key, {}).get(volume.id)
            if present is None:
                raise errors.NotFound(f"{doing}: there is no such volume")
            if new_size_gb > present.size_gb:
                self.admit(self._figures(volumes, volume.pool), volume, new_size_gb - present.size_gb)
                self._state.keep(self._pools[volume.pool].key, {volume.id: replace(present, size_gb=new_size_gb)})

    def delete(self, volume: Volume) -> None:
        """Forget the volume."""
        self._begin(volume, "delete")
        with self._state.opened():
            self._state.keep(self._pools[volume.pool].key, {volume.id: None})

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return all volumes."""
        volumes = self._seen()
        return [
            StoredVolume(id=id, pool=name, size_gb=float(kept.size_gb))
            for name, pool in self._pools.items()
            for id, kept in volumes.get(pool.key, {}).items()
        ]

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Have all be of one moment."""
        return self._one_look.taken()

    def _seen(self) -> Mapping[str, Volumes]:
        """Return what there is; nothing ever changes in it, it is replaced."""
        return self._one_look.of("volumes", self._volumes_now)

    def _volumes_now(self) -> Mapping[str, Volumes]:
        with self._state.opened() as volumes:
            return volumes

    def _claim(self, file: Path, name: str) -> None:
        """Mark the state file as this backend's, or as one of those who share it, which read it anew each time.

        Others write what they remember over what was made meanwhile, so a file has one kind of user. Raises OSError.
        """
        mark = file.with_name(f"{file.name}.owner")
        ours = _SHARERS if self._shares() else self.backend
        if (owner := ownership.claim(ours, mark)) != ours:
            raise errors.ConfigurationError(
                f"{name}: it is that of {owner}, not of {ours}; name another, or set memory_storage_id for the pools "
                f"of both; if nobody else uses it any more, remove {mark}"
            )

    def _pool(self, name: str) -> _Pool:
        section = self.conf.pool(name, (*POOL_OPTS, *_POOL_OPTIONS))
        made = kinds(section.memory_provisioning)
        storage_id = section.memory_storage_id or None
        return _Pool(
            # No name of a backend or a pool has a '#'.
            key=name if storage_id is None else f"{self.backend}#{name}#{storage_id}",
            storage_id=storage_id,
            size_gb=round(section.memory_pool_size_gb, 2),
            kinds=made,
            capabilities={
                **capabilities(section, self.backend),
                "vendor_name": "Tonnage",
                "driver_version": tonnage.__version__,
                "storage_protocol": "memory",
                "QoS_support": False,
                "multiattach": False,
                "location_info": f"{_LOCATION}{self.backend.partition('@')[0]}",
                "thin_provisioning_support": Provisioning.THIN in made,
                "thick_provisioning_support": Provisioning.THICK in made,
                **({} if storage_id is None else {"storage_id": storage_id}),
            },
        )

    def _shares(self) -> bool:
        """Tell whether the state file may be that of others too, and see that the pools of a storage agree on it."""
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

    def _begin(self, volume: Volume, verb: str) -> str:
        """Take the time that is wanted, and fail if it is this operation's turn. Return words for what is done."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if volume.pool not in self._pools:
            raise errors.DriverError(f"{doing}: there is no such pool", clean=True)
        if self.conf.memory_latency:
            time.sleep(self.conf.memory_latency)
        with self._failing:
            fails = self._random.random() < self.conf.memory_failure_share
        if fails:
            raise errors.DriverError(f"{doing} as memory_failure_share wants", clean=True)
        return doing

    def _enter(self, volumes: Mapping[str, Volumes], volume: Volume, doing: str, source_gb: int = 0) -> None:
        """Enter a volume, whose source is so large, unless it is there."""
        pool = self._pools[volume.pool]
        if volume.provisioning not in pool.kinds:
            raise errors.DriverError(f"{doing}: the pool makes no {volume.provisioning} volumes", clean=True)
        present = volumes.get(pool.key, {}).get(volume.id)
        if present is None:
            if source_gb > volume.size_gb:
                raise errors.DriverError(f"{doing}: {source_gb} GiB do not fit in {volume.size_gb} GiB", clean=True)
            self.admit(self._figures(volumes, volume.pool), volume, volume.size_gb)
            self._state.keep(pool.key, {volume.id: Kept(volume.size_gb, volume.provisioning)})
        elif present.size_gb != volume.size_gb:
            raise errors.DriverError(f"{doing}: there is one of {present.size_gb} GiB already")

    def _figures(self, volumes: Mapping[str, Volumes], name: str) -> dict[str, Any]:
        pool = self._pools[name]
        if pool.storage_id is None:
            keys = [pool.key]
        else:
            keys = [key for key in volumes if key.split("#", 2)[2:] == [pool.storage_id]]
        held = [kept for key in keys for kept in volumes.get(key, {}).values()]
        used = sum(kept.size_gb for kept in held if kept.provisioning is Provisioning.THICK)
        return {
            **pool.capabilities,
            "pool_name": name,
            "total_capacity_gb": pool.size_gb,
            "free_capacity_gb": round(max(pool.size_gb - used, 0.0), 2),
            "provisioned_capacity_gb": sum(kept.size_gb for kept in held),
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
