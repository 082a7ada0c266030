# SPDX-License-Identifier: Apache-2.0
"""Packing of several volumes into the pools of each node, for all nodes at once.

A node has access to pools. Each volume goes into one of the pools that its storage class has on that node. A volume is
no larger than the largest volume of its pool, and all volumes together fit into the free capacity that the pools draw
on. So fewer nodes take all volumes together than take each of them alone. Sizes are bytes.

Pools of one group draw on the same disks, and the storage class decides how much of the disks a volume needs: a
mirrored volume takes its size twice. So the capacity of each pool is the space that it would have if the whole group
were used through it. The largest of these is the capacity of the group. A volume of size *s* takes ``ceil(s *
group_capacity / capacity)`` bytes of the group in a pool of that capacity.

Choosing the pools is bin packing, for which no fast exact algorithm is known. A search gives the exact answer for up to
:data:`EXACT_VOLUMES` volumes. With more volumes, and for nodes on which :data:`MAX_STEPS` steps are not enough, two
greedy algorithms are used. They may miss a solution, but every solution that they find is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: Largest number of volumes that are packed exactly.
EXACT_VOLUMES = 8

#: Largest number of steps of a search.
MAX_STEPS = 20_000
_NODES_PER_STEP = 1000

#: The largest volume of a pool that takes no volumes.
NO_VOLUMES = -1

#: The largest capacity, 4 EiB. Callers reduce larger capacities to this one.
MAX_CAPACITY = 2**62 - 1

#: The cost of an impossible placement, larger than any capacity.
_INFEASIBLE = np.int64(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingPools:
    """Pools as columns, in bytes. ``group`` has the group of each pool, an index into the two columns of groups.

    For each pool, ``max_volume_size`` is its largest volume, :data:`NO_VOLUMES` if it takes none, and ``capacity`` is
    its capacity without claims. For each group, ``group_capacity`` is its largest capacity and ``group_free`` the part
    of it that is not claimed.
    """

    max_volume_size: Ints
    capacity: Ints
    group: Ints
    group_capacity: Ints
    group_free: Ints

    def cost(self, size: int) -> Ints:
        """Return the bytes of its group that a volume takes in each pool.

        The values of pools whose largest volume is smaller are meaningless.
        """
        costs = np.full(len(self.max_volume_size), size, dtype=np.int64)
        rows = np.nonzero((self.group_capacity[self.group] != self.capacity) & (self.max_volume_size >= size))[0]
        if size and len(rows):
            costs[rows] = _group_bytes_of(size, self.group_capacity[self.group[rows]], self.capacity[rows])
        return costs

    def headroom(self) -> Ints:
        """Return the bytes that would fit into each pool if it used all free bytes of its group, rounded down."""
        free, group_capacity = np.maximum(self.group_free[self.group], 0), self.group_capacity[self.group]
        rows = np.nonzero((group_capacity != self.capacity) & (group_capacity > 0))[0]
        if len(rows):
            free[rows] = _pool_bytes_of(free[rows], group_capacity[rows], np.maximum(self.capacity[rows], 0))
        return free


def group_bytes(size: int, group_capacity: int, capacity: int) -> int:
    """Return the bytes of a group that a volume takes in a pool of this capacity, rounded up.

    Without capacity it is the whole group, or the size if that is more.
    """
    if group_capacity == capacity:
        return size
    return -(-size * group_capacity // capacity) if capacity > 0 else max(size, group_capacity)


def _group_bytes_of(size: int, group_capacity: Ints, capacity: Ints) -> Ints:
    """Return :func:`group_bytes` for each pair of group capacity and capacity.

    No capacity is 0 and no result larger than the group's capacity.
    """
    times, remainder = np.divmod(group_capacity, capacity)
    # In their largest common unit, mostly GiB, the product rarely exceeds 64 bits.
    unit = _common_unit(group_capacity | capacity)
    if size * (int(remainder.max()) // unit) >= 2**62:
        pairs = zip(group_capacity.tolist(), capacity.tolist(), strict=True)
        return np.array([group_bytes(size, whole, part) for whole, part in pairs], dtype=np.int64)
    bytes_needed: Ints = size * times - (-size * (remainder // unit) // (capacity // unit))
    return bytes_needed


def _pool_bytes_of(size: Ints, group_capacity: Ints, capacity: Ints) -> Ints:
    """Return ``floor(size * capacity / group_capacity)`` for each triple. No group capacity is 0."""
    unit = _common_unit(group_capacity | capacity)
    if int(size.max()) * (int(capacity.max()) // unit) >= 2**62:
        triples = zip(size.tolist(), group_capacity.tolist(), capacity.tolist(), strict=True)
        return np.array([byte_count * part // whole for byte_count, whole, part in triples], dtype=np.int64)
    pool_bytes: Ints = size * (capacity // unit) // (group_capacity // unit)
    return pool_bytes


def _common_unit(sizes: Ints) -> int:
    """Return the largest power of two that divides all sizes."""
    common = int(np.bitwise_or.reduce(sizes))
    return common & -common


@dataclass(frozen=True, slots=True)
class PackingVolume:
    """A volume of ``size`` bytes.

    ``candidates`` has a row for each node: the indexes of its possible pools, padded with -1. Volumes of one storage
    class share the array.
    """

    size: int
    candidates: Ints


@dataclass(frozen=True, slots=True)
class PackingResult:
    """The result for each node: whether it takes all volumes, and whether this answer is exact.

    ``pools`` has the pool of each volume (column) on each node (row) that takes all volumes. ``fits_alone`` has whether
    the node would take the volume if it were the only one.
    """

    fits: Bools
    exact: Bools
    pools: Ints
    fits_alone: Bools


def pack(
    packing_pools: PackingPools,
    volumes: Sequence[PackingVolume],
    nodes: int,
    *,
    exact_volumes: int = EXACT_VOLUMES,
    max_steps: int = MAX_STEPS,
) -> PackingResult:
    """Return which of ``nodes`` nodes take all of these volumes together.

    A search ends after ``max_steps`` steps. One step handles up to a thousand nodes in the same state.
    """
    pools = np.full((nodes, len(volumes)), -1, dtype=np.int64)
    fits_alone, exact = np.zeros(pools.shape, dtype=np.bool_), np.ones(nodes, dtype=np.bool_)
    if not volumes or not len(packing_pools.max_volume_size):
        return PackingResult(np.full(nodes, not volumes), exact, pools, fits_alone)
    nothing = np.full((nodes, 1), -1, dtype=np.int64)
    volumes = [volume if volume.candidates.shape[1] else PackingVolume(volume.size, nothing) for volume in volumes]
    packing = _Packing(packing_pools, volumes, nodes, max_steps)
    feasible = packing.feasible()
    for fullest in (True, False):
        packing.place_greedily(np.nonzero(feasible & ~packing.placed)[0], fullest)
    unplaced = np.nonzero(feasible & ~packing.placed)[0]
    # Where each volume has one possible pool, the greedy algorithms have tried the only placement.
    unplaced = unplaced[packing.choice_counts[unplaced].max(axis=1, initial=1) > 1]
    if len(unplaced) and (len(volumes) > exact_volumes or not packing.search(unplaced)):
        exact[unplaced] = packing.placed[unplaced]
    pools[:, packing.order] = packing.pools
    pools[~packing.placed] = -1
    fits_alone[:, packing.order] = packing.choice_counts > 0
    return PackingResult(packing.placed, exact, pools, fits_alone)


def _first_equal_column(groups: Ints) -> Ints:
    """Return for each element the column of the first equal element in its row."""
    order = np.argsort(groups, axis=1, kind="stable")
    ordered = np.take_along_axis(groups, order, axis=1)
    begins = np.ones(groups.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begin = np.maximum.accumulate(np.where(begins, np.arange(groups.shape[1]), 0), axis=1)
    first_columns = np.empty_like(order)
    np.put_along_axis(first_columns, order, np.take_along_axis(order, begin, axis=1), axis=1)
    return first_columns


class _Packing:
    """The state of a packing: the volumes, largest first, and each node's possible pools in adjacent columns."""

    def __init__(
        self, packing_pools: PackingPools, volumes: Sequence[PackingVolume], nodes: int, max_steps: int
    ) -> None:
        self._max_steps = max_steps
        self.order = sorted(range(len(volumes)), key=lambda i: (-volumes[i].size, id(volumes[i].candidates)))
        ordered = [volumes[i] for i in self.order]
        candidates = {id(volume.candidates): volume.candidates for volume in ordered}
        starts = dict(
            zip(candidates, np.cumsum([0, *(array.shape[1] for array in candidates.values())]).tolist(), strict=False)
        )
        self._candidates = np.concatenate(list(candidates.values()), axis=1)
        self._columns = [
            slice(starts[id(volume.candidates)], starts[id(volume.candidates)] + volume.candidates.shape[1])
            for volume in ordered
        ]
        #: Whether a volume equals the previous one, so that a search need not swap the two.
        self._same_as_previous = [
            i > 0 and volume.size == ordered[i - 1].size and volume.candidates is ordered[i - 1].candidates
            for i, volume in enumerate(ordered)
        ]
        present = self._candidates >= 0
        groups = np.where(present, packing_pools.group[self._candidates], -1)
        self._free = np.where(present, packing_pools.group_free[groups], 0)
        #: The column that has the free bytes of a column's group: the first column with that group.
        self._group_column = _first_equal_column(groups)
        self._is_group_column = present & (self._group_column == np.arange(groups.shape[1]))
        self._costs = [self._cost(packing_pools, i, volume) for i, volume in enumerate(ordered)]
        #: For each node and volume, the number of pools that would take it if it were the only one.
        self.choice_counts = np.stack([(cost < _INFEASIBLE).sum(axis=1) for cost in self._costs], axis=1)
        #: For each node and volume, the least bytes that this volume and all later ones take.
        least = np.stack([cost.min(axis=1, initial=_INFEASIBLE) for cost in self._costs], axis=1).astype(np.float64)
        self._min_cost_left = np.cumsum(least[:, ::-1], axis=1)[:, ::-1]
        self.placed = np.zeros(nodes, dtype=np.bool_)
        self.pools = np.full((nodes, len(ordered)), -1, dtype=np.int64)
        self._steps = 0

    def _cost(self, packing_pools: PackingPools, volume: int, packing_volume: PackingVolume) -> Ints:
        """Return the cost of a volume in each of its pools on each node, :data:`_INFEASIBLE` where it does not fit."""
        fitting = (packing_volume.candidates >= 0) & (
            packing_pools.max_volume_size[packing_volume.candidates] >= packing_volume.size
        )
        cost = np.where(fitting, packing_pools.cost(packing_volume.size)[packing_volume.candidates], _INFEASIBLE)
        return np.where(cost <= self._free[:, self._columns[volume]], cost, _INFEASIBLE)

    def feasible(self) -> Bools:
        """Return the nodes where each volume fits alone and all volumes together need no more than all free bytes."""
        fits: Bools = (self.choice_counts > 0).all(axis=1) & self._has_enough(
            np.arange(len(self.placed)), self._free, 0
        )
        return fits

    def _has_enough(self, nodes: Ints, free: Ints, volume: int) -> Bools:
        """Return the nodes whose free bytes, taken as one piece, suffice for this volume and the later ones.

        The comparison has a tolerance in favour of the volumes, because floating-point sums of large numbers are
        inexact.
        """
        free_sum = np.where(self._is_group_column[nodes], np.maximum(free, 0), 0).sum(axis=1, dtype=np.float64)
        fits: Bools = self._min_cost_left[nodes, volume] <= free_sum * (1 + 1e-9)
        return fits

    def place_greedily(self, nodes: Ints, fullest: bool) -> None:
        """Place each volume in the fullest, or the emptiest, pool that takes it.

        Mark the nodes that took all volumes.
        """
        free = self._free[nodes]
        chosen = np.full((len(nodes), len(self._costs)), -1, dtype=np.int64)
        rows = np.arange(len(nodes))
        for volume, costs in enumerate(self._costs):
            columns, cost = self._columns[volume], costs[nodes]
            remaining = np.take_along_axis(free, self._group_column[nodes, columns], axis=1) - cost
            fits = remaining >= 0
            choice = np.argmin(np.where(fits, remaining if fullest else -remaining, _INFEASIBLE), axis=1)
            ok = fits[rows, choice]
            rows, nodes, choice, cost, free, chosen = (array[ok] for array in (rows, nodes, choice, cost, free, chosen))
            rows = np.arange(len(nodes))
            self._subtract(nodes, free, columns.start + choice, cost[rows, choice])
            chosen[:, volume] = self._candidates[nodes, columns.start + choice]
        self.placed[nodes] = True
        self.pools[nodes] = chosen

    def _subtract(self, nodes: Ints, free: Ints, columns: Ints, cost: Ints) -> None:
        free[np.arange(len(nodes)), self._group_column[nodes, columns]] -= cost

    def search(self, nodes: Ints) -> bool:
        """Search all placements, mark the nodes that took all volumes, and return whether the search was completed."""
        self._steps = 0
        self._place_from(nodes, self._free[nodes], 0, 0)
        return self._steps < self._max_steps

    def _place_from(self, nodes: Ints, free: Ints, volume: int, first: int) -> None:
        """Place this volume and the later ones on nodes where the earlier ones have been placed."""
        if volume == len(self._costs):
            self.placed[nodes] = True
            return
        enough = self._has_enough(nodes, free, volume)
        nodes, free = nodes[enough], free[enough]
        columns = self._columns[volume]
        for choice in range(first if self._same_as_previous[volume] else 0, columns.stop - columns.start):
            if not len(nodes) or self._steps >= self._max_steps:
                return
            self._steps += 1 + len(nodes) // _NODES_PER_STEP
            column = columns.start + choice
            cost = self._costs[volume][nodes, choice]
            group_column = self._group_column[nodes, column]
            taking = np.nonzero(free[np.arange(len(nodes)), group_column] >= cost)[0]
            placeable, remaining = nodes[taking], free[taking]
            remaining[np.arange(len(placeable)), group_column[taking]] -= cost[taking]
            self.pools[placeable, volume] = self._candidates[placeable, column]
            self._place_from(placeable, remaining, volume + 1, choice)
            still = ~self.placed[nodes]
            nodes, free = nodes[still], free[still]
