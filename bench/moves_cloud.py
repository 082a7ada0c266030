# SPDX-License-Identifier: Apache-2.0
"""Random clouds for the benchmark of plans: pools with volumes, in a table and in a ledger in memory."""

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import Pool, backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.retry import RetryFilter
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.models import volume_types
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

#: Rows of one insert.
_ROWS = 1000


@dataclass(frozen=True, slots=True)
class CloudPool:
    """A pool. ``used`` are the GiB of data in it; the reserve is 0."""

    name: str
    total: int
    ratio: float
    thin: bool
    zone: str
    media: str
    used: float
    promised: int

    @property
    def limit(self) -> float:
        """The largest sum of promises; a thick pool promises no more than it has."""
        return self.total * (self.ratio if self.thin else 1.0)


@dataclass(frozen=True, slots=True)
class CloudVolume:
    """A volume. An empty zone or medium allows each."""

    id: str
    pool: str
    size: int
    zone: str
    media: str

    def may_be_in(self, pool: CloudPool) -> bool:
        """Return whether a pool is suitable, apart from its room."""
        return self.zone in ("", pool.zone) and self.media in ("", pool.media)


@dataclass(frozen=True, slots=True)
class Cloud:
    """Pools and their volumes."""

    pools: Sequence[CloudPool]
    volumes: Sequence[CloudVolume]

    def model(self, ledger: database.Database) -> PoolModel:
        """Return the model on which Tonnage plans, with the volumes of :meth:`ledger`."""
        conf = SimpleNamespace(over_provisioning_calculation=Calculation.STANDARD, capacity_weight_multiplier=1.0)
        plugins = [RetryFilter(conf), AvailabilityZoneFilter(conf), CapacityFilter(conf), CapabilitiesFilter(conf)]
        rules = Rules(
            FilterChain(plugins, Calculation.STANDARD), WeigherChain([CapacityWeigher(conf)]), Calculation.STANDARD
        )
        table = PoolTable(
            Pool(
                name=pool.name,
                total=pool.total,
                free=pool.total - pool.used,
                provisioned=pool.promised,
                allocated=pool.promised,
                ratio=pool.ratio,
                thin=pool.thin,
                thick=not pool.thin,
                availability_zone=pool.zone,
                capabilities={"media": pool.media},
            )
            for pool in self.pools
        )
        return PoolModel(table, rules, PlacedVolumes(ledger))

    def ledger(self) -> database.Database:
        """Return a ledger in memory with the volumes."""
        engine = database.create_engine("sqlite://")
        models.Base.metadata.create_all(engine)
        backends = {
            name: number for number, name in enumerate(dict.fromkeys(backend_of(p.name) for p in self.pools), 1)
        }
        numbers = {pool.name: number for number, pool in enumerate(self.pools, 1)}
        kinds = {pool.name: "thin" if pool.thin else "thick" for pool in self.pools}
        media = sorted({volume.media for volume in self.volumes} - {""})
        rows = [
            {
                "id": volume.id,
                "project_id": "bench",
                "size_gb": volume.size,
                "status": "available",
                "pool_id": numbers[volume.pool],
                "provisioning": kinds[volume.pool],
                "requested_zone": volume.zone or None,
                "volume_type_id": volume.media or None,
            }
            for volume in self.volumes
        ]
        backends_of = {number: backends[backend_of(name)] for name, number in numbers.items()}
        with engine.begin() as connection:
            connection.execute(
                sa.insert(models.Backend), [{"id": number, "name": name} for name, number in backends.items()]
            )
            connection.execute(
                sa.insert(models.Pool),
                [
                    {"id": number, "name": name, "backend_id": backends[backend_of(name)]}
                    for name, number in numbers.items()
                ],
            )
            for name in media:
                connection.execute(sa.insert(models.VolumeType).values(id=name, name=name))
                connection.execute(
                    sa.insert(volume_types.ExtraSpec).values(volume_type_id=name, key="media", value=name)
                )
            for start in range(0, len(rows), _ROWS):
                part = rows[start : start + _ROWS]
                connection.execute(sa.insert(models.Volume), part)
                connection.execute(sa.insert(models.Claim), [_claim(row, backends_of[row["pool_id"]]) for row in part])
        return database.Database(engine)


def _claim(volume: Mapping[str, Any], backend_id: int) -> dict[str, Any]:
    """Return the claim of a volume that was created long ago."""
    size_gb, is_thick = volume["size_gb"], volume["provisioning"] == "thick"
    return {
        "id": volume["id"],
        "volume_id": volume["id"],
        "request_id": volume["id"],
        "backend_id": backend_id,
        "pool_id": volume["pool_id"],
        "verb": "create",
        "state": "confirmed",
        "size_gb": size_gb,
        "physical_gb": size_gb if is_thick else 0,
        "target_size_gb": size_gb,
        "provisioning": volume["provisioning"],
        "contained": True,
    }


def draw(seed: int, pools: int, volumes_per_pool: int) -> Cloud:
    """Return a random cloud, the same for the same numbers.

    Half of the pools are thin, with ratios of 1 to 2. Two zones and two media exist. Pools are between half and
    completely full.
    """
    dice = random.Random(seed)
    drawn_pools, drawn_volumes = [], []
    for number in range(pools):
        name, thin = f"host{number}@disk#pool", dice.random() < 0.5
        # About eight volumes fill the smallest pools.
        total = dice.randint(60, 200) * max(1, volumes_per_pool // 8)
        ratio = round(dice.uniform(1, 2), 1) if thin else 1.0
        zone, media = dice.choice(["z1", "z2"]), dice.choice(["ssd", "hdd"])
        written = dice.uniform(0.2, 1 / ratio) if thin else 1.0
        most = dice.uniform(0.5, 1.0) * total * ratio
        promised = 0
        for index in range(dice.randint(1, 2 * volumes_per_pool)):
            size = dice.choice([1, 2, 4, 5, 8, 10, 16, 20, 32, 40])
            if promised + size > most:
                continue
            promised += size
            volume_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}-{number}-{index}"))
            demand = dice.choice(["", "", zone]), dice.choice(["", "", media])
            drawn_volumes.append(CloudVolume(volume_id, name, size, *demand))
        drawn_pools.append(CloudPool(name, total, ratio, thin, zone, media, round(promised * written, 2), promised))
    return Cloud(drawn_pools, drawn_volumes)
