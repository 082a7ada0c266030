# SPDX-License-Identifier: Apache-2.0
"""Which pools of a storage each node reaches: worked out once, as neither nodes nor topologies change often."""

import collections
import threading
from typing import Any

import numpy as np

from tonnage.capacity.joint_fit import Ints
from tonnage.k8s.figures import Figures
from tonnage.k8s.nodes import Nodes
from tonnage.k8s.nodes import Rows
from tonnage.k8s.selectors import NodeSelector

#: How many answers are remembered: a storage each, for some sets of nodes.
_REMEMBERED = 64


class Reach:
    """Remembers what was worked out last. Threads may share it."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[Any, Ints] = collections.OrderedDict()
        self._lock = threading.Lock()

    def slots(self, figures: Figures, storage_class: str, nodes: Nodes) -> Ints:
        """Return the pools of a storage that each node reaches: a row for each node, filled up with -1."""
        seen = nodes.values(figures.label_keys[storage_class])
        key = (figures.uid, figures.layout, storage_class, nodes.names, seen)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        found = _slots(figures, storage_class, nodes)
        with self._lock:
            self._known[key] = found
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


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
