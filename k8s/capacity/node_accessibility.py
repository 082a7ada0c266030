# SPDX-License-Identifier: Apache-2.0
"""Which pools of a storage each node reaches: worked out once, as neither nodes nor topologies change often."""

import collections
import threading
from typing import TypeAlias

import numpy as np

from tonnage.capacity.topology.node_packing import Ints
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity.pool_columns import Figures, PoolKey
from tonnage.k8s.cluster.nodes import Node, Nodes, Rows

#: How many storages are remembered, and how many nodes of each beyond those that were asked about last.
_STORAGES = 64
_NODES = 20_000

#: Name of a node, and those of its labels that pools go by.
_NodeKey: TypeAlias = tuple[str, tuple[str | None, ...]]


class Reach:
    """Remembers what was worked out. Threads may share it."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[tuple[str, int, str], _Storage] = collections.OrderedDict()
        self._lock = threading.Lock()

    def slots(self, figures: Figures, storage_class: str, nodes: Nodes) -> Ints:
        """Return the pools of a storage that each node reaches: a row for each node, filled up with -1."""
        key = (figures.uid, figures.layout, storage_class)
        with self._lock:
            known = self._known.pop(key, None)
            if known is None:
                known = _Storage()
            self._known[key] = known
            while len(self._known) > _STORAGES:
                self._known.popitem(last=False)
            return known.slots(figures, storage_class, nodes)


def reaches(figures: Figures, pool: PoolKey, node: Node) -> bool:
    """Tell whether a node reaches a pool."""
    row = figures.rows.get(pool)
    return row is not None and bool(len(_reached_from(figures.reached[row], Nodes([node]))))


class _Storage:
    """What is known of a storage: a row of pools for each node that was ever asked about, as kube-scheduler asks about
    other ones each time."""

    def __init__(self) -> None:
        self._rows: dict[_NodeKey, int] = {}
        self._slots: Ints = np.empty((0, 0), dtype=np.int64)
        self._last: tuple[Nodes, Ints] | None = None

    def slots(self, figures: Figures, storage_class: str, nodes: Nodes) -> Ints:
        if self._last is not None and self._last[0] is nodes:
            return self._last[1]
        seen = nodes.values(figures.label_keys[storage_class])
        labels = list(zip(*seen, strict=True)) if seen else [()] * len(nodes)
        keys = list(zip(nodes.names, labels, strict=True))
        if len(self._rows) > len(nodes) + _NODES:
            self._rows, self._slots = {}, np.empty((0, 0), dtype=np.int64)
        new = [row for row, key in enumerate(keys) if key not in self._rows]
        if new:
            self._add(_slots(figures, storage_class, Nodes(nodes.nodes[row] for row in new)))
            self._rows |= {keys[row]: number for number, row in enumerate(new, len(self._rows))}
        found = self._slots[[self._rows[key] for key in keys]]
        # Columns that none of these nodes needs.
        found = found[:, : int((found >= 0).sum(axis=1).max(initial=0))]
        self._last = nodes, found
        return found

    def _add(self, slots: Ints) -> None:
        width = max(self._slots.shape[1], slots.shape[1])
        both = [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=-1) for each in (self._slots, slots)]
        self._slots = np.concatenate(both)


def _slots(figures: Figures, storage_class: str, nodes: Nodes) -> Ints:
    rows = [(pool, _reached_from(figures.reached[pool], nodes)) for pool in figures.entries[storage_class].tolist()]
    node = np.concatenate([np.empty(0, dtype=np.int64), *(found for _, found in rows)])
    pool = np.repeat(np.array([each for each, _ in rows], dtype=np.int64), [len(found) for _, found in rows])
    order = np.argsort(node, kind="stable")
    node, pool = node[order], pool[order]
    first = np.searchsorted(node, np.arange(len(nodes)))
    place = np.arange(len(node)) - first[node]
    slots = np.full((len(nodes), int(place.max(initial=-1)) + 1), -1, dtype=np.int64)
    slots[node, place] = pool
    return slots


def _reached_from(reached: NodeSelector | tuple[str, ...] | None, nodes: Nodes) -> Rows:
    if reached is None:
        return nodes.everywhere
    return nodes.selected(reached) if isinstance(reached, NodeSelector) else nodes.named(reached)
