# SPDX-License-Identifier: Apache-2.0
"""The ``memory`` driver: pools without storage, for simulations and tests."""

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

from oslo_config import cfg

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Source
from tonnage.drivers.base import StoredVolume
from tonnage.drivers.base import Volume
from tonnage.drivers.options import POOL_OPTS
from tonnage.drivers.options import Section
from tonnage.drivers.options import capabilities
from tonnage.drivers.options import kinds
from tonnage.drivers.options import provisioning_opt

#: What the location of every pool of this driver begins with.
_LOCATION = "memory:"

_POOL_OPTIONS: Sequence[cfg.Opt] = (
    cfg.FloatOpt("memory_pool_size_gb", default=100.0, min=0, help="Total capacity of each pool, in GiB."),
    provisioning_opt("memory_provisioning", default="both"),
)


@dataclass(frozen=True, slots=True)
class _Pool:
    size_gb: float
    kinds: frozenset[Provisioning]
    capabilities: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A volume as it is kept, in memory and in the state file."""

    size_gb: int
    provisioning: Provisioning


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
            "change. Two backends must not share one.",
        ),
        *_POOL_OPTIONS,
    )

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        self._pools = {name: self._pool(name) for name in _pool_names(conf)}
        self._file = Path(conf.memory_state_file).absolute() if conf.memory_state_file else None
        self._random = random.Random(conf.memory_seed)  # noqa: S311 -- failures for simulations
        self._lock = threading.Lock()
        self._volumes: dict[str, dict[str, _Kept]] = {name: {} for name in self._pools}

    def check(self) -> None:
        """Read the state file, if there is one, and see that it can be written."""
        if self._file is None:
            return
        name = f"[{self.conf.section_name}] memory_state_file = {self._file}"
        try:
            with contextlib.suppress(FileNotFoundError):
                for pool, volumes in json.loads(self._file.read_text(encoding="utf-8")).items():
                    self._volumes[pool] = {
                        id: _Kept(kept["size_gb"], Provisioning(kept["provisioning"])) for id, kept in volumes.items()
                    }
            self._save(self._volumes)
        except OSError as error:
            raise errors.ConfigurationError(f"{name}: {error.strerror}; name a file that can be written") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.ConfigurationError(
                f"{name}: not a state file of this driver ({error}); name another or remove it"
            ) from error

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool."""
        with self._lock:
            return [self._figures(name) for name in self._pools]

    def create(self, volume: Volume) -> None:
        """Enter the volume."""
        doing = self._begin(volume, "create")
        with self._lock:
            self._enter(volume, doing)

    def clone(self, volume: Volume, source: Source) -> None:
        """Enter the volume, if its source is there. There is no content."""
        doing = self._begin(volume, f"clone of {source.id}")
        with self._lock:
            original = self._volumes.get(source.pool, {}).get(source.id) if source.backend == self.backend else None
            if original is None:
                raise errors.DriverError(f"{doing}: that is not on this backend", clean=True)
            self._enter(volume, doing, source_gb=original.size_gb)

    def migrate(self, volume: Volume, source: Source) -> None:
        """Enter the volume, whose source has to be in another pool of this driver, wherever that runs."""
        doing = self._begin(volume, f"migration from {source.backend}#{source.pool}")
        if not source.location.startswith(_LOCATION):
            raise errors.DriverError(f"{doing}: {source.location!r} is no place in memory", clean=True)
        with self._lock:
            self._enter(volume, doing, source_gb=source.size_gb)

    def manage(self, volume: Volume, reference: str) -> float:
        """Enter under the volume's id what is there as ``reference``."""
        doing = self._begin(volume, f"manage of {reference!r}")
        with self._lock:
            volumes = self._volumes[volume.pool]
            found, present = volumes.get(reference), volumes.get(volume.id)
            if present is not None and (found is None or reference == volume.id):
                return float(present.size_gb)
            if present is not None:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            if found is None:
                raise errors.DriverError(f"{doing}: there is nothing of that name", clean=True)
            if volume.provisioning is Provisioning.THICK and found.provisioning is Provisioning.THIN:
                self.admit(self._figures(volume.pool), volume, found.size_gb)
                found = replace(found, provisioning=volume.provisioning)
            self._keep(volume.pool, {volume.id: found, reference: None})
            return float(found.size_gb)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Change the volume's size."""
        doing = self._begin(volume, f"extend to {new_size_gb} GiB")
        with self._lock:
            present = self._volumes[volume.pool].get(volume.id)
            if present is None:
                raise errors.NotFound(f"{doing}: there is no such volume")
            if new_size_gb > present.size_gb:
                self.admit(self._figures(volume.pool), volume, new_size_gb - present.size_gb)
                self._keep(volume.pool, {volume.id: replace(present, size_gb=new_size_gb)})

    def delete(self, volume: Volume) -> None:
        """Forget the volume."""
        self._begin(volume, "delete")
        with self._lock:
            self._keep(volume.pool, {volume.id: None})

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return all volumes."""
        with self._lock:
            return [
                StoredVolume(id=id, pool=pool, size_gb=float(kept.size_gb))
                for pool in self._pools
                for id, kept in self._volumes[pool].items()
            ]

    def _pool(self, name: str) -> _Pool:
        section = self.conf.pool(name, (*POOL_OPTS, *_POOL_OPTIONS))
        made = kinds(section.memory_provisioning)
        return _Pool(
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
            },
        )

    def _begin(self, volume: Volume, verb: str) -> str:
        """Take the time that is wanted, and fail if it is this operation's turn. Return words for what is done."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if volume.pool not in self._pools:
            raise errors.DriverError(f"{doing}: there is no such pool", clean=True)
        if self.conf.memory_latency:
            time.sleep(self.conf.memory_latency)
        with self._lock:
            fails = self._random.random() < self.conf.memory_failure_share
        if fails:
            raise errors.DriverError(f"{doing} as memory_failure_share wants", clean=True)
        return doing

    def _enter(self, volume: Volume, doing: str, source_gb: int = 0) -> None:
        """Enter a volume, whose source is so large, unless it is there."""
        if volume.provisioning not in self._pools[volume.pool].kinds:
            raise errors.DriverError(f"{doing}: the pool makes no {volume.provisioning} volumes", clean=True)
        present = self._volumes[volume.pool].get(volume.id)
        if present is None:
            if source_gb > volume.size_gb:
                raise errors.DriverError(f"{doing}: {source_gb} GiB do not fit in {volume.size_gb} GiB", clean=True)
            self.admit(self._figures(volume.pool), volume, volume.size_gb)
            self._keep(volume.pool, {volume.id: _Kept(volume.size_gb, volume.provisioning)})
        elif present.size_gb != volume.size_gb:
            raise errors.DriverError(f"{doing}: there is one of {present.size_gb} GiB already")

    def _figures(self, name: str) -> dict[str, Any]:
        pool, volumes = self._pools[name], self._volumes[name].values()
        used = sum(kept.size_gb for kept in volumes if kept.provisioning is Provisioning.THICK)
        return {
            **pool.capabilities,
            "pool_name": name,
            "total_capacity_gb": pool.size_gb,
            "free_capacity_gb": round(max(pool.size_gb - used, 0.0), 2),
            "provisioned_capacity_gb": sum(kept.size_gb for kept in volumes),
        }

    def _keep(self, pool: str, changes: Mapping[str, _Kept | None]) -> None:
        """Enter or replace volumes, or remove them; in the file first, so that what was seen is never lost."""
        entered = {**self._volumes[pool], **changes}
        changed = {id: kept for id, kept in entered.items() if kept is not None}
        self._save({**self._volumes, pool: changed})
        self._volumes[pool] = changed

    def _save(self, volumes: Mapping[str, Mapping[str, _Kept]]) -> None:
        if self._file is None:
            return
        new = self._file.with_name(f".{self._file.name}.new")
        plain = {pool: {id: asdict(kept) for id, kept in inside.items()} for pool, inside in volumes.items()}
        new.write_text(json.dumps(plain), encoding="utf-8")
        os.replace(new, self._file)


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
