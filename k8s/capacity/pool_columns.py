# SPDX-License-Identifier: Apache-2.0
"""The pools of a driver as columns, for decisions over many nodes."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tonnage.capacity.topology import node_packing
from tonnage.capacity.topology.node_packing import Ints
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity.driver_storage import Driver, Pool

#: Storage class, or what stands for one, and name of a pool.
PoolKey: TypeAlias = tuple[str, str]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
_NEVER = np.iinfo(np.int64).max
#: A capacity that is not known.
_UNKNOWN = -1


def moment(time: datetime.datetime) -> int:
    """Return a time, UTC, as a number that columns of times are compared with."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What is claimed in a pool, in bytes, and the pool's backing and capacity then, as far as they are known."""

    pool: PoolKey
    size: int
    backing_id: str | None = None
    capacity: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A driver's pools. Row *i* of each column belongs to ``keys[i]``, and ``rows`` has the number of each.

    ``entries`` has the rows of each storage.

    ``layout`` is another one when anything but capacities, sizes and times has changed. ``label_keys`` are the labels
    that pools of a storage go by. ``group`` numbers what the pools draw on, of which there are ``groups``; ``backing``
    has what each pool says of that, and ``numbers`` the number of each of these. Sizes are bytes, at most
    :data:`~tonnage.capacity.topology.node_packing.MOST`; -1 is a capacity that is not known.
    """

    name: str
    uid: str
    version: int
    layout: int
    tracking: bool
    keys: tuple[PoolKey, ...]
    rows: Mapping[PoolKey, int]
    entries: Mapping[str, Ints]
    label_keys: Mapping[str, tuple[str, ...]]
    reached: tuple[NodeSelector | tuple[str, ...] | None, ...]
    group: Ints
    groups: int
    backing: tuple[str | None, ...]
    numbers: Mapping[str, int]
    capacity: Ints
    limit: Ints
    expires: Ints

    def changed(self, version: int, pools: Iterable[tuple[str, Pool]], tracking: bool) -> "Figures":
        """Return the figures with other capacities, sizes and times of some pools, each with its storage class."""
        capacity, limit, expires = self.capacity.copy(), self.limit.copy(), self.expires.copy()
        for storage_class, pool in pools:
            row = self.rows[storage_class, pool.name]
            capacity[row], limit[row], expires[row] = _numbers(pool)
        return replace(self, version=version, tracking=tracking, capacity=capacity, limit=limit, expires=expires)

    def supply(self, now: int, claims: Iterable[Claimed]) -> node_packing.Supply:
        """Return what there is at a :func:`moment`, less what is claimed. What has expired is not there."""
        live = (self.expires > now) & (self.capacity >= 0)
        measure = np.zeros(self.groups, dtype=np.int64)
        np.maximum.at(measure, self.group[live], self.capacity[live])
        room = measure.copy()
        taken: dict[int, int] = {}
        for claim in claims:
            found = self._place(claim)
            if found is not None:
                group, capacity = found
                share = node_packing.share(claim.size, int(measure[group]), capacity)
                taken[group] = taken.get(group, 0) + share
        for group, size in taken.items():
            room[group] = max(int(room[group]) - size, -node_packing.MOST)
        return node_packing.Supply(
            limit=np.where(live, self.limit, node_packing.NOTHING),
            capacity=self.capacity,
            group=self.group,
            measure=measure,
            room=room,
        )

    def _place(self, claim: Claimed) -> tuple[int, int] | None:
        """Return what a claim draws on, and the capacity of its pool; None if nothing of that is there any more.

        Of a pool that is gone both are as they were when it was claimed.
        """
        row = self.rows.get(claim.pool)
        if row is not None:
            return int(self.group[row]), int(self.capacity[row])
        group = None if claim.backing_id is None else self.numbers.get(claim.backing_id)
        return None if group is None else (group, _UNKNOWN if claim.capacity is None else claim.capacity)


def of_driver(driver: Driver, layout: int = 0) -> Figures:
    """Return the figures of a driver."""
    pools = [(each.storage_class, pool) for each in driver.storage for pool in each.pools]
    keys = tuple((storage_class, pool.name) for storage_class, pool in pools)
    at, entries, labels = 0, {}, {}
    for each in driver.storage:
        entries[each.storage_class] = np.arange(at, at + len(each.pools))
        at += len(each.pools)
        labels[each.storage_class] = tuple(sorted({key for pool in each.pools for key in _label_keys(pool)}))
    backing = tuple(pool.backing_id for _, pool in pools)
    group, groups, named = _groups(backing)
    numbers = np.array([_numbers(pool) for _, pool in pools], dtype=np.int64).reshape(len(pools), 3)
    return Figures(
        name=driver.name,
        uid=driver.uid,
        version=driver.version,
        layout=layout,
        tracking=bool(driver.tracking),
        keys=keys,
        rows={key: row for row, key in enumerate(keys)},
        entries=entries,
        label_keys=labels,
        reached=tuple(pool.node_topology or pool.node_list for _, pool in pools),
        group=group,
        groups=groups,
        backing=backing,
        numbers=named,
        capacity=numbers[:, 0].copy(),
        limit=numbers[:, 1].copy(),
        expires=numbers[:, 2].copy(),
    )


def _numbers(pool: Pool) -> tuple[int, int, int]:
    """Return capacity, limit and expiry of a pool. A larger limit than its capacity is none."""
    expires = _NEVER if pool.expires_at is None else moment(pool.expires_at)
    if pool.capacity is None:
        return _UNKNOWN, node_packing.NOTHING, expires
    capacity = min(pool.capacity, node_packing.MOST)
    limit = capacity if pool.maximum_volume_size is None else min(capacity, pool.maximum_volume_size)
    return capacity, limit, expires


def _label_keys(pool: Pool) -> Iterable[str]:
    terms = () if pool.node_topology is None else pool.node_topology.node_selector_terms
    return {one.key for term in terms for one in term.match_expressions}


def _groups(backing: Sequence[str | None]) -> tuple[Ints, int, dict[str, int]]:
    """Number what pools draw on, those without a name for it on their own, and return the numbers of names too."""
    numbers: dict[str, int] = {}
    group = np.empty(len(backing), dtype=np.int64)
    count = 0
    for row, name in enumerate(backing):
        known = None if name is None else numbers.get(name)
        if known is None:
            known, count = count, count + 1
            if name is not None:
                numbers[name] = known
        group[row] = known
    return group, count, numbers
