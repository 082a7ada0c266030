# SPDX-License-Identifier: Apache-2.0
"""Pools as OpenStack Placement's resource providers, and what they have of ``DISK_GB`` there.

A provider is called as its pool is, ``host@backend#pool``. What it has are the figures of the pool's last report:
total, reserved and the over-subscription ratio.
"""

import hashlib
import logging
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from tonnage.capacity.reports import validation
from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.catalog.placement_allocations import PoolFigures
from tonnage.ledger.db.database import Database
from tonnage.placement.client import Inventory, Placement, Refused

LOG = logging.getLogger(__name__)

#: What the ids of providers are made from, so that all schedulers make the same.
_NAMESPACE = uuid.UUID("5a0f3a6e-1f0e-5b52-8a5d-3f4c1f2f9d60")

#: The largest number, and the longest name, that Placement keeps.
MOST = 2**31 - 1
_LONGEST = 200

#: How often a provider is written that others change at the same time.
_TRIES = 5

#: After so many pools somebody may have had enough.
_TOGETHER = 100


class Providers:
    """The providers of all pools. Belongs to the thread that writes to Placement."""

    def __init__(self, database: Database, placement: Placement) -> None:
        self._database = database
        self._placement = placement
        self._ids: dict[str, str] = {}
        self._written: dict[str, Inventory] = {}
        self._gone: dict[str, str] = {}

    def forget(self) -> None:
        """Look everything up in Placement again."""
        self._ids.clear()
        self._written.clear()

    def of(self, pool_ids: Iterable[int], more: Mapping[int, int]) -> dict[int, str]:
        """Return the providers of pools that are in the ledger, made and written as needed.

        ``more`` is what is about to be told beyond what has been, in GiB by pool: each has to have that much.
        """
        with self._database.reading() as session:
            pools = placement_allocations.pools(session, sorted(set(pool_ids)))
        return self._put(pools, more)

    def sweep(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Bring the providers of all pools up to date, and remove those of pools that have gone since the last time.

        Others that are there may be those of another deployment. It ends before that once ``stopped`` says so.
        """
        self._gone.update({name: self._ids[name] for name in self._written if name in self._ids})
        self.forget()
        with self._database.reading() as session:
            pools = placement_allocations.pools(session)
        for start in range(0, len(pools), _TOGETHER):
            if stopped():
                return
            self._put_what_is_taken(pools[start : start + _TOGETHER])
        for pool in pools:
            self._gone.pop(name_of(pool.name), None)
        for name, provider in list(self._gone.items()):
            try:
                self._placement.delete_provider(provider)
                LOG.info("Resource provider %s is removed from Placement, as its pool has gone", name)
            except Refused as error:
                if error.status == 409:
                    # Something is allocated there still: Placement has not been told yet that it is gone.
                    LOG.debug("%s", error.message)
                    continue
            del self._gone[name]

    def _put_what_is_taken(self, pools: Sequence[PoolFigures]) -> None:
        """Write the providers of pools. One that Placement refuses keeps no others from theirs."""
        try:
            self._put(pools, {})
            return
        except Refused:
            pass
        for pool in pools:
            try:
                self._put([pool], {})
            except Refused as error:
                LOG.warning(
                    "Resource provider %s cannot be written to Placement: %s", name_of(pool.name), error.message
                )

    def _put(self, pools: Sequence[PoolFigures], more: Mapping[int, int]) -> dict[int, str]:
        if not self._ids:
            self._ids = self._placement.providers()
        found: dict[int, str] = {}
        for pool, inventory in zip(pools, inventories(pools, more), strict=True):
            name = name_of(pool.name)
            if name not in self._ids:
                self._make(name)
            found[pool.id] = self._ids[name]
            if self._written.get(name) != inventory:
                self._write(found[pool.id], inventory)
                self._written[name] = inventory
        return found

    def _make(self, name: str) -> None:
        try:
            self._placement.create_provider(name, _id_of(name))
        except Refused as error:
            if error.status != 409:
                raise
            # Somebody else has just made it, under an id of his own perhaps.
            self._ids = self._placement.providers()
            if name not in self._ids:
                raise
            return
        LOG.info("Resource provider %s is made in Placement", name)
        self._ids[name] = _id_of(name)

    def _write(self, provider: str, inventory: Inventory) -> None:
        for last in (*[False] * (_TRIES - 1), True):
            generation, there = self._placement.inventory(provider)
            if there == inventory:
                return
            try:
                self._placement.set_inventory(provider, generation, inventory)
                return
            except Refused as error:
                if error.status != 409 or last:
                    raise


def inventories(pools: Sequence[PoolFigures], more: Mapping[int, int]) -> list[Inventory]:
    """Return what pools have. Unknown and infinite capacity is all that Placement can count.

    Where more is allocated than the figures admit, they are raised to that: the pool has shrunk, is thick beside thin,
    or is judged without its reserve. It is there, and Placement would refuse to count it.
    """
    # Pools of different backends may have the same name there.
    reported = validation.validate([{**pool.stats, "pool_name": str(pool.id)} for pool in pools])
    stats = {each.name: each for each in reported.pools}
    found: list[Inventory] = []
    for pool in pools:
        figures = stats.get(str(pool.id))
        needed = max(pool.allocated_gb, pool.told_gb + more.get(pool.id, 0))
        if figures is None:
            found.append(_inventory(math.inf, 0.0, 1.0, needed))
        else:
            # The ratio binds thin volumes alone; it is what the report led to, where that said auto or nothing.
            ratio = pool.ratio if figures.thin else 1.0
            found.append(_inventory(figures.total, figures.reserved_percentage, ratio, needed))
    return found


def _inventory(total: float, reserved_percentage: float, ratio: float, needed: int) -> Inventory:
    whole = max(1, min(MOST, math.floor(total))) if math.isfinite(total) else MOST
    # As everywhere, of the exact total; of what is counted something has to be left for what is there.
    reserved = math.floor(total * reserved_percentage / 100) if math.isfinite(total) else 0
    reserved = min(reserved, whole - 1 if needed else whole)
    given = math.floor(ratio * 100) / 100
    if (whole - reserved) * given < needed:
        given = math.ceil(needed / (whole - reserved) * 100) / 100
    return Inventory(whole, reserved, given)


def name_of(pool: str) -> str:
    """Return the name of a pool's provider: the pool's own, cut where that is longer than Placement takes."""
    if len(pool) <= _LONGEST:
        return pool
    digest = hashlib.sha256(pool.encode()).hexdigest()[:16]
    return f"{pool[: _LONGEST - 17]}~{digest}"


def _id_of(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))
