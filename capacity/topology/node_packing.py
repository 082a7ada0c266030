# SPDX-License-Identifier: Apache-2.0
"""Whether several volumes fit into what nodes reach together, which is less often than each of them alone.

A node reaches pools. A volume goes into one of those that its storage class offers there, no larger than the pool takes
at once, and all volumes together take no more than is left in what the pools draw on. All nodes are judged at once.
Sizes are bytes.

Pools of one group draw on the same disks, and what fits there depends on the storage class: a mirrored volume takes its
size twice. So each pool says how much would fit if all of it went there. The largest of these is the group's measure,
and a volume of size *s* takes ``ceil(s * measure / capacity)`` of it in a pool of that capacity.

To choose the pools is to pack bins, for which no fast exact way is known. So the answer is exact up to
:data:`EXACT_VOLUMES` volumes, found by search; beyond it, and for nodes on which :data:`STEPS` steps were not enough,
two quick ways are tried, which may miss a way that there is but never find one that there is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: Up to so many volumes are fitted exactly.
EXACT_VOLUMES = 8

#: Steps that the search takes before it leaves the rest, each for up to a thousand nodes at the same point of it.
STEPS = 20_000
_TOGETHER = 1000

#: The limit of a pool that takes nothing.
NOTHING = -1

#: The largest capacity that is told apart, 4 EiB: what is larger has to be given as this.
MOST = 2**62 - 1

#: More than there is anywhere.
_FAR = np.int64(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What there is, in bytes. ``group`` has for each pool the number of what it draws on, an index of the others.

    ``limit`` is the largest volume of each pool, :data:`NOTHING` if it takes none; ``capacity`` what it would have if
    nothing were claimed. ``measure`` is the largest capacity of each group, ``room`` what is left of it.
    """

    limit: Ints
    capacity: Ints
    group: Ints
    measure: Ints
    room: Ints

    def cost(self, size: int) -> Ints:
        """Return what a volume takes of the group of each pool, where it is not over the limit."""
        found = np.full(len(self.limit), size, dtype=np.int64)
        rows = np.nonzero((self.measure[self.group] != self.capacity) & (self.limit >= size))[0]
        if size and len(rows):
            found[rows] = _shares(size, self.measure[self.group[rows]], self.capacity[rows])
        return found

    def left(self) -> Ints:
        """Return how much would fit into each pool if all that is left went there, rounded down."""
        room, measure = np.maximum(self.room[self.group], 0), self.measure[self.group]
        rows = np.nonzero((measure != self.capacity) & (measure > 0))[0]
        if len(rows):
            room[rows] = _parts(room[rows], measure[rows], np.maximum(self.capacity[rows], 0))
        return room


def share(size: int, measure: int, capacity: int) -> int:
    """Return what a volume takes of a group, in bytes of its measure, rounded up; all of it if there is no capacity."""
    if measure == capacity:
        return size
    return -(-size * measure // capacity) if capacity > 0 else max(size, measure)


def _shares(size: int, measure: Ints, capacity: Ints) -> Ints:
    """Return :func:`share` for each pair, of which no capacity is 0 and no share larger than the measure."""
    times, rest = np.divmod(measure, capacity)
    # In units that all of them are whole numbers of, GiB mostly, the product hardly ever needs more than 64 bits.
    unit = _unit(measure | capacity)
    if size * (int(rest.max()) // unit) >= 2**62:
        pairs = zip(measure.tolist(), capacity.tolist(), strict=True)
        return np.array([share(size, whole, part) for whole, part in pairs], dtype=np.int64)
    found: Ints = size * times - (-size * (rest // unit) // (capacity // unit))
    return found


def _parts(size: Ints, measure: Ints, capacity: Ints) -> Ints:
    """Return ``floor(size * capacity / measure)`` for each triple, of which no measure is 0."""
    unit = _unit(measure | capacity)
    if int(size.max()) * (int(capacity.max()) // unit) >= 2**62:
        triples = zip(size.tolist(), measure.tolist(), capacity.tolist(), strict=True)
        return np.array([each * part // whole for each, whole, part in triples], dtype=np.int64)
    found: Ints = size * (capacity // unit) // (measure // unit)
    return found


def _unit(sizes: Ints) -> int:
    """Return the largest power of two that all of them are whole numbers of."""
    common = int(np.bitwise_or.reduce(sizes))
    return common & -common


@dataclass(frozen=True, slots=True)
class Demand:
    """A volume of ``size`` bytes. ``slots`` has a row for each node: the pools that it may go to, -1 for none.

    Volumes of one storage class share the array.
    """

    size: int
    slots: Ints


@dataclass(frozen=True, slots=True)
class Fit:
    """For each node, whether it takes all of the volumes, and whether that was found out exactly.

    ``pools`` has the pool of each volume (a column) on nodes (rows) that do, ``alone`` whether the node would take that
    volume if it were the only one.
    """

    fits: Bools
    exact: Bools
    pools: Ints
    alone: Bools


def fit(supply: Supply, demands: Sequence[Demand], nodes: int, *, exact_volumes: int = EXACT_VOLUMES) -> Fit:
    """Tell which nodes take all of these volumes together."""
    pools = np.full((nodes, len(demands)), -1, dtype=np.int64)
    alone, exact = np.zeros(pools.shape, dtype=np.bool_), np.ones(nodes, dtype=np.bool_)
    if not demands or not len(supply.limit):
        return Fit(np.full(nodes, not demands), exact, pools, alone)
    nothing = np.full((nodes, 1), -1, dtype=np.int64)
    demands = [one if one.slots.shape[1] else Demand(one.size, nothing) for one in demands]
    board = _Board(supply, demands, nodes)
    possible = board.possible()
    for fullest in (True, False):
        board.place_greedily(np.nonzero(possible & ~board.placed)[0], fullest)
    left = np.nonzero(possible & ~board.placed)[0]
    # Where no volume has a choice, the quick way has tried all that there is.
    left = left[board.choices[left].max(axis=1, initial=1) > 1]
    if len(left) and (len(demands) > exact_volumes or not board.search(left)):
        exact[left] = board.placed[left]
    pools[:, board.order] = board.pools
    pools[~board.placed] = -1
    alone[:, board.order] = board.choices > 0
    return Fit(board.placed, exact, pools, alone)


def _first_alike(groups: Ints) -> Ints:
    """Return for each element the column of the first one in its row that is the same."""
    order = np.argsort(groups, axis=1, kind="stable")
    ordered = np.take_along_axis(groups, order, axis=1)
    begins = np.ones(groups.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begin = np.maximum.accumulate(np.where(begins, np.arange(groups.shape[1]), 0), axis=1)
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.take_along_axis(order, begin, axis=1), axis=1)
    return found


class _Board:
    """The volumes, largest first, and for each node the pools that they may go to, side by side in columns."""

    def __init__(self, supply: Supply, demands: Sequence[Demand], nodes: int) -> None:
        self.order = sorted(range(len(demands)), key=lambda i: (-demands[i].size, id(demands[i].slots)))
        ordered = [demands[i] for i in self.order]
        slots = {id(one.slots): one.slots for one in ordered}
        starts = dict(zip(slots, np.cumsum([0, *(each.shape[1] for each in slots.values())]).tolist(), strict=False))
        self._slots = np.concatenate(list(slots.values()), axis=1)
        self._columns = [slice(starts[id(one.slots)], starts[id(one.slots)] + one.slots.shape[1]) for one in ordered]
        #: Whether a volume is like the one before it, so that nothing is gained by exchanging the two.
        self._again = [
            i > 0 and one.size == ordered[i - 1].size and one.slots is ordered[i - 1].slots
            for i, one in enumerate(ordered)
        ]
        there = self._slots >= 0
        groups = np.where(there, supply.group[self._slots], -1)
        self._room = np.where(there, supply.room[groups], 0)
        #: The column that keeps the room of a column's group: the first one of that group.
        self._lead = _first_alike(groups)
        self._leads = there & (self._lead == np.arange(groups.shape[1]))
        self._costs = [self._cost(supply, i, one) for i, one in enumerate(ordered)]
        #: For each node and volume, how many pools would take it if it were alone.
        self.choices = np.stack([(cost < _FAR).sum(axis=1) for cost in self._costs], axis=1)
        #: For each node and volume, what this one and those after it take at least.
        least = np.stack([cost.min(axis=1, initial=_FAR) for cost in self._costs], axis=1).astype(np.float64)
        self._least = np.cumsum(least[:, ::-1], axis=1)[:, ::-1]
        self.placed = np.zeros(nodes, dtype=np.bool_)
        self.pools = np.full((nodes, len(ordered)), -1, dtype=np.int64)
        self._steps = 0

    def _cost(self, supply: Supply, volume: int, one: Demand) -> Ints:
        """Return what a volume takes of each of its pools on each node, :data:`_FAR` where it cannot go."""
        fitting = (one.slots >= 0) & (supply.limit[one.slots] >= one.size)
        cost = np.where(fitting, supply.cost(one.size)[one.slots], _FAR)
        return np.where(cost <= self._room[:, self._columns[volume]], cost, _FAR)

    def possible(self) -> Bools:
        """Tell on which nodes each volume fits alone and all take no more than there is in all their pools."""
        fits: Bools = (self.choices > 0).all(axis=1) & self._enough(np.arange(len(self.placed)), self._room, 0)
        return fits

    def _enough(self, nodes: Ints, room: Ints, volume: int) -> Bools:
        """Tell where what is left suffices for this volume and the later ones if it were in one piece.

        Rounded in favour of it, as sums of large numbers are not exact.
        """
        left = np.where(self._leads[nodes], np.maximum(room, 0), 0).sum(axis=1, dtype=np.float64)
        fits: Bools = self._least[nodes, volume] <= left * (1 + 1e-9)
        return fits

    def place_greedily(self, nodes: Ints, fullest: bool) -> None:
        """Put each volume into the fullest, or the emptiest, pool that takes it; note the nodes where all went in."""
        room = self._room[nodes]
        chosen = np.full((len(nodes), len(self._costs)), -1, dtype=np.int64)
        rows = np.arange(len(nodes))
        for volume, costs in enumerate(self._costs):
            columns, cost = self._columns[volume], costs[nodes]
            left = np.take_along_axis(room, self._lead[nodes, columns], axis=1) - cost
            fits = left >= 0
            slot = np.argmin(np.where(fits, left if fullest else -left, _FAR), axis=1)
            ok = fits[rows, slot]
            rows, nodes, slot, cost, room, chosen = (each[ok] for each in (rows, nodes, slot, cost, room, chosen))
            rows = np.arange(len(nodes))
            self._take(nodes, room, columns.start + slot, cost[rows, slot])
            chosen[:, volume] = self._slots[nodes, columns.start + slot]
        self.placed[nodes] = True
        self.pools[nodes] = chosen

    def _take(self, nodes: Ints, room: Ints, columns: Ints, cost: Ints) -> None:
        room[np.arange(len(nodes)), self._lead[nodes, columns]] -= cost

    def search(self, nodes: Ints) -> bool:
        """Try all ways, and note the nodes where all volumes went in; tell whether that came to an end."""
        self._steps = 0
        self._descend(nodes, self._room[nodes], 0, 0)
        return self._steps < STEPS

    def _descend(self, nodes: Ints, room: Ints, volume: int, first: int) -> None:
        """Place this volume and the later ones on nodes where the earlier ones have been placed."""
        if volume == len(self._costs):
            self.placed[nodes] = True
            return
        enough = self._enough(nodes, room, volume)
        nodes, room = nodes[enough], room[enough]
        columns = self._columns[volume]
        for slot in range(first if self._again[volume] else 0, columns.stop - columns.start):
            if not len(nodes) or self._steps >= STEPS:
                return
            self._steps += 1 + len(nodes) // _TOGETHER
            column = columns.start + slot
            cost = self._costs[volume][nodes, slot]
            lead = self._lead[nodes, column]
            taking = np.nonzero(room[np.arange(len(nodes)), lead] >= cost)[0]
            there, left = nodes[taking], room[taking]
            left[np.arange(len(there)), lead[taking]] -= cost[taking]
            self.pools[there, volume] = self._slots[there, column]
            self._descend(there, left, volume + 1, slot)
            still = ~self.placed[nodes]
            nodes, room = nodes[still], room[still]
