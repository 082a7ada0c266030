# SPDX-License-Identifier: Apache-2.0
"""Nodes with their labels, and which of them a pool is reached from."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.capacity.topology.node_selectors import NodeSelector, Operator, Requirement, Term

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    labels: Mapping[str, str]


class Nodes:
    """Nodes in their order, and an index of their names and labels: most pools ask for some values of a label."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(node.name for node in self.nodes)
        self._by_name = {name: row for row, name in enumerate(self.names)}
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._values: dict[tuple[str, ...], tuple[tuple[str | None, ...], ...]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    @functools.cached_property
    def everywhere(self) -> Rows:
        """All of them."""
        return np.arange(len(self))

    def named(self, names: Collection[str]) -> Rows:
        """Return the rows of the nodes of these names."""
        return np.array(sorted(self._by_name[name] for name in names if name in self._by_name), dtype=np.int64)

    def selected(self, selector: NodeSelector) -> Rows:
        """Return the rows of the nodes that match."""
        found: set[int] = set()
        for term in selector.node_selector_terms:
            found.update(row for row in self._candidates(term) if row not in found and self._matches(term, row))
        return np.array(sorted(found), dtype=np.int64)

    def values(self, keys: tuple[str, ...]) -> tuple[tuple[str | None, ...], ...]:
        """Return the labels of these keys, for each key those of all nodes: all that selectors of these keys see."""
        found = self._values.get(keys)
        if found is None:
            found = tuple(tuple([node.labels.get(key) for node in self.nodes]) for key in keys)
            self._values[keys] = found
        return found

    def _matches(self, term: Term, row: int) -> bool:
        node = self.nodes[row]
        return term.matches(node.name, node.labels)

    def _candidates(self, term: Term) -> Sequence[int]:
        """Return the nodes that may match a term, by an expression that an index answers if it has one."""
        for one in term.match_fields:
            if one.operator is Operator.IN:
                return [self._by_name[name] for name in one.values if name in self._by_name]
        asked = [one for one in term.match_expressions if one.operator is Operator.IN]
        if not asked:
            return range(len(self))
        return min((self._having(one) for one in asked), key=len)

    def _having(self, one: Requirement) -> list[int]:
        index = self._by_label.get(one.key)
        if index is None:
            index = self._by_label[one.key] = {}
            for row, node in enumerate(self.nodes):
                value = node.labels.get(one.key)
                if value is not None:
                    index.setdefault(value, []).append(row)
        return [row for value in one.values for row in index.get(value, ())]
