# SPDX-License-Identifier: Apache-2.0
"""The pools of a driver as columns, for decisions about many nodes."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import node_packing
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, ClaimSums, PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool
from tonnage.extensions.kubernetes.capacity.node_packing import Ints, PackingPools

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
_NEVER = np.iinfo(np.int64).max
#: Products below it are exact in columns.
_SUM_LIMIT = 2**62
#: An unknown capacity.
_UNKNOWN = -1
#: No multiple: each claim is rounded up.
_NONE = -1


def to_microseconds(time: datetime.datetime) -> int:
    """Return a time, UTC, in microseconds since 1970, as the columns of times have it."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _LivePools:
    """The pools with usable figures, from ``began`` until ``ended``, when the next of them expires, in microseconds.

    ``multiple`` has for each pool the bytes of its group that a byte of a claim takes, if that is a whole number,
    otherwise -1; ``largest`` is the largest of them.
    """

    began: int
    ended: int
    max_volume_size: Ints
    group_capacity: Ints
    multiple: Ints
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolColumns:
    """The pools of a driver. Row *i* of each column belongs to ``keys[i]``; ``row_of`` maps each key to its row.

    ``storage_rows`` maps each storage to the rows of its pools, ``label_keys`` to the labels that its pools use.
    ``layout`` changes with anything but capacities, sizes and times.

    ``group`` has for each pool the number of its group, the pools that draw on the same disks; there are
    ``group_count`` groups. ``backing_ids`` has the backing id of each pool, and ``group_of_backing`` maps backing ids
    to groups. Sizes are bytes, at most :data:`~tonnage.extensions.kubernetes.capacity.node_packing.MAX_CAPACITY`; -1 is
    an unknown capacity. ``expires_at`` is in microseconds since 1970.
    """

    name: str
    uid: str
    version: int
    layout: int
    tracking: bool
    keys: tuple[PoolKey, ...]
    row_of: Mapping[PoolKey, int]
    storage_rows: Mapping[str, Ints]
    label_keys: Mapping[str, tuple[str, ...]]
    accessibility: tuple[NodeSelector | tuple[str, ...] | None, ...]
    group: Ints
    group_count: int
    backing_ids: tuple[str | None, ...]
    group_of_backing: Mapping[str, int]
    capacity: Ints
    max_volume_size: Ints
    expires_at: Ints
    #: The live pools at the time of the last decision; a copy has none.
    _live_pools: list[_LivePools] = field(default_factory=list, init=False, repr=False, compare=False)

    def updated(self, version: int, pools: Iterable[tuple[str, Pool]], tracking: bool) -> "PoolColumns":
        """Return a copy with new capacities, sizes and times of some pools, each given with its storage class."""
        capacity, max_volume_size, expires_at = (
            self.capacity.copy(),
            self.max_volume_size.copy(),
            self.expires_at.copy(),
        )
        for storage_class, pool in pools:
            row = self.row_of[storage_class, pool.name]
            capacity[row], max_volume_size[row], expires_at[row] = _figures(pool)
        return replace(
            self,
            version=version,
            tracking=tracking,
            capacity=capacity,
            max_volume_size=max_volume_size,
            expires_at=expires_at,
        )

    def packing_pools(self, now: int, claims: ClaimSums) -> PackingPools:
        """Return the pools for packing at a time, with claims subtracted. Expired pools take no volumes.

        ``now`` is in microseconds, see :func:`to_microseconds`.
        """
        live = self._live(now)
        pools = PackingPools(
            max_volume_size=live.max_volume_size,
            capacity=self.capacity,
            group=self.group,
            group_capacity=live.group_capacity,
            group_free=live.group_capacity,
        )
        sums = claims.by_row(self.row_of) if claims.total * live.largest < _SUM_LIMIT else None
        if sums is None:
            return self.subtract(pools, claims.on())
        group_free = live.group_capacity.copy()
        np.subtract.at(group_free, self.group, sums * np.maximum(live.multiple, 0))
        rounded = [self.keys[row] for row in np.nonzero(live.multiple == _NONE)[0].tolist()]
        rest = claims.on([*rounded, *claims.on_removed_pools()])
        return self.subtract(replace(pools, group_free=group_free), rest)

    def subtract(self, pools: PackingPools, claims: Iterable[tuple[ActiveClaim, int]]) -> PackingPools:
        """Return the pools of this driver for packing with more claims subtracted, each given with its number."""
        taken: dict[int, int] = {}
        for claim, number in claims:
            location = self._locate(claim)
            if location is not None:
                group, capacity = location
                size = node_packing.group_bytes(claim.size, int(pools.group_capacity[group]), capacity)
                taken[group] = taken.get(group, 0) + number * size
        group_free = pools.group_free.copy()
        for group, size in taken.items():
            group_free[group] = max(int(group_free[group]) - size, -node_packing.MAX_CAPACITY)
        return replace(pools, group_free=group_free)

    def _live(self, now: int) -> _LivePools:
        """Return the pools with usable figures at a time."""
        for live_pools in self._live_pools:
            if live_pools.began <= now < live_pools.ended:
                return live_pools
        live = (self.expires_at > now) & (self.capacity >= 0)
        group_capacity = np.zeros(self.group_count, dtype=np.int64)
        np.maximum.at(group_capacity, self.group[live], self.capacity[live])
        of_group = group_capacity[self.group]
        times, remainder = np.divmod(of_group, np.maximum(self.capacity, 1))
        multiple = np.where((self.capacity > 0) & (remainder == 0), times, _NONE)
        multiple[of_group == self.capacity] = 1
        live_pools = _LivePools(
            began=now,
            ended=int(self.expires_at[live].min(initial=_NEVER)),
            max_volume_size=np.where(live, self.max_volume_size, node_packing.NO_VOLUMES),
            group_capacity=group_capacity,
            multiple=multiple,
            largest=int(multiple.max(initial=1)),
        )
        # In one step, because other threads read it.
        self._live_pools[:] = [live_pools]
        return live_pools

    def _locate(self, claim: ActiveClaim) -> tuple[int, int] | None:
        """Return the group of a claim and the capacity of its pool; None if the group no longer exists.

        If the pool was removed, both are as recorded with the claim.
        """
        row = self.row_of.get(claim.pool)
        if row is not None:
            return int(self.group[row]), int(self.capacity[row])
        group = None if claim.backing_id is None else self.group_of_backing.get(claim.backing_id)
        return None if group is None else (group, _UNKNOWN if claim.capacity is None else claim.capacity)


def from_driver(driver: Driver, layout: int = 0) -> PoolColumns:
    """Return the columns of a driver's pools."""
    pools = [(storage.storage_class, pool) for storage in driver.storage for pool in storage.pools]
    keys = tuple((storage_class, pool.name) for storage_class, pool in pools)
    at, storage_rows, labels = 0, {}, {}
    for class_storage in driver.storage:
        storage_rows[class_storage.storage_class] = np.arange(at, at + len(class_storage.pools))
        at += len(class_storage.pools)
        labels[class_storage.storage_class] = tuple(
            sorted({key for pool in class_storage.pools for key in _label_keys(pool)})
        )
    backing_ids = tuple(pool.backing_id for _, pool in pools)
    group, group_count, group_of_backing = _assign_groups(backing_ids)
    numbers = np.array([_figures(pool) for _, pool in pools], dtype=np.int64).reshape(len(pools), 3)
    return PoolColumns(
        name=driver.name,
        uid=driver.uid,
        version=driver.version,
        layout=layout,
        tracking=bool(driver.tracking),
        keys=keys,
        row_of={key: row for row, key in enumerate(keys)},
        storage_rows=storage_rows,
        label_keys=labels,
        accessibility=tuple(pool.node_topology or pool.node_list for _, pool in pools),
        group=group,
        group_count=group_count,
        backing_ids=backing_ids,
        group_of_backing=group_of_backing,
        capacity=numbers[:, 0].copy(),
        max_volume_size=numbers[:, 1].copy(),
        expires_at=numbers[:, 2].copy(),
    )


def _figures(pool: Pool) -> tuple[int, int, int]:
    """Return capacity, largest volume and expiry of a pool. The largest volume is at most the capacity."""
    expires_at = _NEVER if pool.expires_at is None else to_microseconds(pool.expires_at)
    if pool.capacity is None:
        return _UNKNOWN, node_packing.NO_VOLUMES, expires_at
    capacity = min(pool.capacity, node_packing.MAX_CAPACITY)
    max_volume_size = capacity if pool.maximum_volume_size is None else min(capacity, pool.maximum_volume_size)
    return capacity, max_volume_size, expires_at


def _label_keys(pool: Pool) -> Iterable[str]:
    terms = () if pool.node_topology is None else pool.node_topology.node_selector_terms
    return {expression.key for term in terms for expression in term.match_expressions}


def _assign_groups(backing_ids: Sequence[str | None]) -> tuple[Ints, int, dict[str, int]]:
    """Return the group of each pool, the number of groups, and the group of each backing id.

    A pool without a backing id is a group of its own.
    """
    numbers: dict[str, int] = {}
    group = np.empty(len(backing_ids), dtype=np.int64)
    count = 0
    for row, name in enumerate(backing_ids):
        group_number = None if name is None else numbers.get(name)
        if group_number is None:
            group_number, count = count, count + 1
            if name is not None:
                numbers[name] = group_number
        group[row] = group_number
    return group, count, numbers
