# SPDX-License-Identifier: Apache-2.0
"""The pools of a storage that each node has access to, cached because nodes and topologies rarely change."""

import collections
import threading
from typing import TypeAlias

import numpy as np

from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.capacity.node_packing import Ints
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes, Rows

#: Largest number of storages in the cache, and of cached nodes of a storage beyond those of the last query.
_MAX_STORAGES = 64
_MAX_EXTRA_NODES = 20_000

#: Name of a node, and the values of the labels that pools use.
_NodeKey: TypeAlias = tuple[str, tuple[str | None, ...]]


class AccessibilityCache:
    """A cache of accessible pools. Thread-safe."""

    def __init__(self) -> None:
        self._storage_caches: collections.OrderedDict[tuple[str, int, str], _StorageCache] = collections.OrderedDict()
        self._lock = threading.Lock()

    def pools_by_node(self, columns: PoolColumns, storage_class: str, nodes: Nodes) -> Ints:
        """Return the pools of a storage that each node has access to.

        The array has a row of pool indexes for each node, padded with -1.
        """
        key = (columns.uid, columns.layout, storage_class)
        with self._lock:
            storage_cache = self._storage_caches.pop(key, None)
            if storage_cache is None:
                storage_cache = _StorageCache()
            self._storage_caches[key] = storage_cache
            while len(self._storage_caches) > _MAX_STORAGES:
                self._storage_caches.popitem(last=False)
            return storage_cache.rows_for(columns, storage_class, nodes)


def is_accessible(columns: PoolColumns, pool: PoolKey, node: Node) -> bool:
    """Return whether a node has access to a pool."""
    row = columns.row_of.get(pool)
    return row is not None and bool(len(_accessible_nodes(columns.accessibility[row], Nodes([node]))))


class _StorageCache:
    """The cache of one storage: a row of pools for each node that a query has named.

    kube-scheduler sends other nodes with each query.
    """

    def __init__(self) -> None:
        self._rows: dict[_NodeKey, int] = {}
        self._table: Ints = np.empty((0, 0), dtype=np.int64)
        self._last: tuple[Nodes, Ints] | None = None

    def rows_for(self, columns: PoolColumns, storage_class: str, nodes: Nodes) -> Ints:
        if self._last is not None and self._last[0] is nodes:
            return self._last[1]
        if nodes.base is not None:
            # kube-scheduler sends the nodes in another order each time, and not always all of them.
            return _without_empty_columns(self.rows_for(columns, storage_class, nodes.base)[nodes.rows])
        label_values = nodes.label_values(columns.label_keys[storage_class])
        labels = list(zip(*label_values, strict=True)) if label_values else [()] * len(nodes)
        keys = list(zip(nodes.names, labels, strict=True))
        if len(self._rows) > len(nodes) + _MAX_EXTRA_NODES:
            self._rows, self._table = {}, np.empty((0, 0), dtype=np.int64)
        new = [row for row, key in enumerate(keys) if key not in self._rows]
        if new:
            self._add(_build_table(columns, storage_class, Nodes(nodes.nodes[row] for row in new)))
            self._rows |= {keys[row]: number for number, row in enumerate(new, len(self._rows))}
        pools = _without_empty_columns(self._table[[self._rows[key] for key in keys]])
        self._last = nodes, pools
        return pools

    def _add(self, table: Ints) -> None:
        width = max(self._table.shape[1], table.shape[1])
        padded = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in (self._table, table)
        ]
        self._table = np.concatenate(padded)


def _without_empty_columns(pools: Ints) -> Ints:
    """Return a table without the columns that none of its nodes needs."""
    return pools[:, : int((pools >= 0).sum(axis=1).max(initial=0))]


def _build_table(columns: PoolColumns, storage_class: str, nodes: Nodes) -> Ints:
    rows = [
        (pool, _accessible_nodes(columns.accessibility[pool], nodes))
        for pool in columns.storage_rows[storage_class].tolist()
    ]
    node = np.concatenate([np.empty(0, dtype=np.int64), *(node_rows for _, node_rows in rows)])
    pool = np.repeat(
        np.array([pool_row for pool_row, _ in rows], dtype=np.int64), [len(node_rows) for _, node_rows in rows]
    )
    order = np.argsort(node, kind="stable")
    node, pool = node[order], pool[order]
    first = np.searchsorted(node, np.arange(len(nodes)))
    column = np.arange(len(node)) - first[node]
    table = np.full((len(nodes), int(column.max(initial=-1)) + 1), -1, dtype=np.int64)
    table[node, column] = pool
    return table


def _accessible_nodes(accessibility: NodeSelector | tuple[str, ...] | None, nodes: Nodes) -> Rows:
    if accessibility is None:
        return nodes.all_rows
    return (
        nodes.rows_matching(accessibility)
        if isinstance(accessibility, NodeSelector)
        else nodes.rows_named(accessibility)
    )
