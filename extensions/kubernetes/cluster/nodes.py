# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster with their labels, indexed for node selectors."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Operator

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]


class Nodes:
    """Nodes in a fixed order, with an index by name and by label: most selectors compare some values of one label.

    A selection of other nodes has these as its ``base``, and its own ``rows`` there.
    """

    base: "Nodes | None" = None
    rows: Rows

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(node.name for node in self.nodes)
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._label_values: dict[tuple[str, ...], tuple[tuple[str | None, ...], ...]] = {}

    def selection(self, names: Sequence[str]) -> "Nodes | None":
        """Return the nodes with these names in their order, None if one of them is not here."""
        by_name = self._by_name
        try:
            rows = np.fromiter(map(by_name.__getitem__, names), np.int64, len(names))
        except KeyError:
            return None
        return _Selection(self, rows, tuple(names))

    @functools.cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    @functools.cached_property
    def all_rows(self) -> Rows:
        """The rows of all nodes."""
        return np.arange(len(self))

    def rows_named(self, names: Collection[str]) -> Rows:
        """Return the rows of the nodes with these names."""
        return np.array(sorted(self._by_name[name] for name in names if name in self._by_name), dtype=np.int64)

    def rows_matching(self, selector: NodeSelector) -> Rows:
        """Return the rows of the nodes that match the selector."""
        rows: set[int] = set()
        for term in selector.node_selector_terms:
            rows.update(row for row in self._candidates(term) if row not in rows and self._matches(term, row))
        return np.array(sorted(rows), dtype=np.int64)

    def label_values(self, keys: tuple[str, ...]) -> tuple[tuple[str | None, ...], ...]:
        """Return for each key the label values of all nodes. Selectors with these keys depend on nothing else."""
        values = self._label_values.get(keys)
        if values is None:
            values = tuple(tuple([node.labels.get(key) for node in self.nodes]) for key in keys)
            self._label_values[keys] = values
        return values

    def _matches(self, term: NodeSelectorTerm, row: int) -> bool:
        node = self.nodes[row]
        return term.matches(node.name, node.labels)

    def _candidates(self, term: NodeSelectorTerm) -> Sequence[int]:
        """Return the nodes that may match a term, from the smallest index entry that applies, or all nodes."""
        for requirement in term.match_fields:
            if requirement.operator is Operator.IN:
                return [self._by_name[name] for name in requirement.values if name in self._by_name]
        indexable = [expression for expression in term.match_expressions if expression.operator is Operator.IN]
        if not indexable:
            return range(len(self))
        return min((self._rows_with(expression) for expression in indexable), key=len)

    def _rows_with(self, requirement: NodeSelectorRequirement) -> list[int]:
        index = self._by_label.get(requirement.key)
        if index is None:
            index = self._by_label[requirement.key] = {}
            for row, node in enumerate(self.nodes):
                value = node.labels.get(requirement.key)
                if value is not None:
                    index.setdefault(value, []).append(row)
        return [row for value in requirement.values for row in index.get(value, ())]


class _Selection(Nodes):
    """Some of other nodes. They are looked up when they are needed."""

    def __init__(self, base: Nodes, rows: Rows, names: tuple[str, ...]) -> None:
        self.base, self.rows, self.names = base, rows, names
        self._all = base.nodes
        self._by_label, self._label_values = {}, {}

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:  # type: ignore[override]
        """The nodes."""
        return tuple([self._all[row] for row in self.rows.tolist()])
