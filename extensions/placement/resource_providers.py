# SPDX-License-Identifier: Apache-2.0
"""OpenStack Placement's resource providers for pools, with an inventory of ``DISK_GB``.

A provider has the name of its pool, ``host@backend#pool``. Its inventory has the total capacity, the reserved capacity
and the over-subscription ratio of the pool's last report.
"""

import hashlib
import logging
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from tonnage.capacity.reports import validation
from tonnage.extensions.placement import placement_allocations
from tonnage.extensions.placement.client import Inventory, PlacementClient, PlacementRefused
from tonnage.extensions.placement.placement_allocations import PoolFigures
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Namespace of the ids of providers, so that all schedulers generate the same ids.
_NAMESPACE = uuid.UUID("5a0f3a6e-1f0e-5b52-8a5d-3f4c1f2f9d60")

#: The largest integer, and the maximum length of a name, in Placement.
MAX_INTEGER = 2**31 - 1
_MAX_NAME_LENGTH = 200

#: Attempts to write a provider that other processes change at the same time.
_ATTEMPTS = 5

#: Pools between two checks for a request to stop.
_BATCH = 100


class ResourceProviders:
    """The providers of all pools. Used only by the thread that writes to Placement."""

    def __init__(self, database: Database, placement: PlacementClient) -> None:
        self._database = database
        self._placement = placement
        self._ids: dict[str, str] = {}
        self._written: dict[str, Inventory] = {}
        self._gone: dict[str, str] = {}

    def clear_cache(self) -> None:
        """Forget all ids and inventories, so that they are read from Placement again."""
        self._ids.clear()
        self._written.clear()

    def ensure(self, pool_ids: Iterable[int], growth_gb: Mapping[int, int]) -> dict[int, str]:
        """Return the provider ids of pools in the ledger. Create and update the providers if necessary.

        ``growth_gb`` maps each pool id to the GiB that are about to be allocated in addition. The inventory has to be
        large enough for them.
        """
        with self._database.reading() as session:
            pools = placement_allocations.pools(session, sorted(set(pool_ids)))
        return self._put(pools, growth_gb)

    def reconcile(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Update the providers of all pools, and delete the providers of pools removed since the last call.

        Other providers are left alone, because they may belong to another deployment. The method returns early when
        ``stopped`` returns True.
        """
        self._gone.update({name: self._ids[name] for name in self._written if name in self._ids})
        self.clear_cache()
        with self._database.reading() as session:
            pools = placement_allocations.pools(session)
        for start in range(0, len(pools), _BATCH):
            if stopped():
                return
            self._put_skipping_refused(pools[start : start + _BATCH])
        for pool in pools:
            self._gone.pop(provider_name(pool.name), None)
        for name, provider in list(self._gone.items()):
            try:
                self._placement.delete_provider(provider)
                LOG.info("Resource provider %s is removed from Placement, as its pool has gone", name)
            except PlacementRefused as error:
                if error.status == 409:
                    # It has allocations whose deletion has not been written yet.
                    LOG.debug("%s", error.message)
                    continue
            del self._gone[name]

    def _put_skipping_refused(self, pools: Sequence[PoolFigures]) -> None:
        """Write the providers of pools. Skip those that Placement refuses."""
        try:
            self._put(pools, {})
            return
        except PlacementRefused:
            pass
        for pool in pools:
            try:
                self._put([pool], {})
            except PlacementRefused as error:
                LOG.warning(
                    "Resource provider %s cannot be written to Placement: %s", provider_name(pool.name), error.message
                )

    def _put(self, pools: Sequence[PoolFigures], growth_gb: Mapping[int, int]) -> dict[int, str]:
        if not self._ids:
            self._ids = self._placement.providers()
        provider_ids: dict[int, str] = {}
        for pool, inventory in zip(pools, inventories(pools, growth_gb), strict=True):
            name = provider_name(pool.name)
            if name not in self._ids:
                self._create(name)
            provider_ids[pool.id] = self._ids[name]
            if self._written.get(name) != inventory:
                self._write(provider_ids[pool.id], inventory)
                self._written[name] = inventory
        return provider_ids

    def _create(self, name: str) -> None:
        try:
            self._placement.create_provider(name, _provider_id(name))
        except PlacementRefused as error:
            if error.status != 409:
                raise
            # Another process has just created it, perhaps with another id.
            self._ids = self._placement.providers()
            if name not in self._ids:
                raise
            return
        LOG.info("Resource provider %s is created in Placement", name)
        self._ids[name] = _provider_id(name)

    def _write(self, provider: str, inventory: Inventory) -> None:
        for last in (*[False] * (_ATTEMPTS - 1), True):
            generation, current = self._placement.inventory(provider)
            if current == inventory:
                return
            try:
                self._placement.set_inventory(provider, generation, inventory)
                return
            except PlacementRefused as error:
                if error.status != 409 or last:
                    raise


def inventories(pools: Sequence[PoolFigures], growth_gb: Mapping[int, int]) -> list[Inventory]:
    """Return the inventories of pools. An unknown or infinite capacity becomes the maximum of Placement.

    If the allocations exceed the reported capacity, the inventory is raised to fit them, because Placement would refuse
    existing allocations. This happens if a pool has shrunk, has thick and thin volumes, or is used without its reserve.
    """
    # Pools of different backends may have the same name, so the ids serve as names here.
    reported = validation.validate([{**pool.stats, "pool_name": str(pool.id)} for pool in pools])
    stats = {pool_stats.name: pool_stats for pool_stats in reported.pools}
    result: list[Inventory] = []
    for pool in pools:
        figures = stats.get(str(pool.id))
        needed = max(pool.allocated_gb, pool.sent_gb + growth_gb.get(pool.id, 0))
        if figures is None:
            result.append(_inventory(math.inf, 0.0, 1.0, needed))
        else:
            # The ratio applies to thin volumes only. It is already resolved if the report has auto or no ratio.
            ratio = pool.ratio if figures.thin else 1.0
            result.append(_inventory(figures.total, figures.reserved_percentage, ratio, needed))
    return result


def _inventory(total: float, reserved_percentage: float, ratio: float, needed: int) -> Inventory:
    whole = max(1, min(MAX_INTEGER, math.floor(total))) if math.isfinite(total) else MAX_INTEGER
    # The reserve is a share of the exact total. It leaves capacity for existing allocations.
    reserved = math.floor(total * reserved_percentage / 100) if math.isfinite(total) else 0
    reserved = min(reserved, whole - 1 if needed else whole)
    allocation_ratio = math.floor(ratio * 100) / 100
    if (whole - reserved) * allocation_ratio < needed:
        allocation_ratio = math.ceil(needed / (whole - reserved) * 100) / 100
    return Inventory(whole, reserved, allocation_ratio)


def provider_name(pool: str) -> str:
    """Return the name of a pool's provider: the pool's name, shortened to Placement's maximum length if necessary."""
    if len(pool) <= _MAX_NAME_LENGTH:
        return pool
    digest = hashlib.sha256(pool.encode()).hexdigest()[:16]
    return f"{pool[: _MAX_NAME_LENGTH - 17]}~{digest}"


def _provider_id(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))
