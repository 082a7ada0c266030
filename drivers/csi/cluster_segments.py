# SPDX-License-Identifier: Apache-2.0
"""Segments of a cluster: sets of nodes that reach the same storage, identified by labels of nodes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """The nodes that have all these labels, in the order of their keys. A segment without labels has all nodes."""

    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Self:
        """Return the segment with these labels."""
        return cls(tuple(sorted(labels.items())))

    def is_within(self, other: "Segment") -> bool:
        """Return whether all nodes of this segment are in ``other``, so that they reach all storage of ``other``."""
        return set(other.labels) <= set(self.labels)

    def short_labels(self) -> dict[str, str]:
        """Return the labels without the prefix of their keys, which is the same for all labels of a plugin."""
        return {key.rpartition("/")[2]: value for key, value in self.labels}

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.short_labels().items())


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster, with its labels. The name may be empty."""

    name: str
    labels: Mapping[str, str]


def segments_of_nodes(nodes: Iterable[Node], prefix: str) -> dict[Segment, tuple[str, ...]]:
    """Return the names of the nodes in each segment, by their labels whose keys begin with ``prefix`` and a slash.

    A node without such labels is in no segment: the plugin does not run there.
    """
    names_by_segment: dict[Segment, set[str]] = {}
    for node in nodes:
        own = {key: value for key, value in node.labels.items() if key.rpartition("/")[0] == prefix}
        if own:
            names_by_segment.setdefault(Segment.from_labels(own), set()).update([node.name] if node.name else [])
    return {segment: tuple(sorted(names)) for segment, names in sorted(names_by_segment.items())}


def read_nodes(path: Path) -> list[Node]:
    """Return the nodes in a file as ``kubectl get nodes --output json`` writes it.

    Raises OSError, and ValueError for a file of another kind.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    items = content.get("items") if isinstance(content, dict) else None
    if not isinstance(items, list):
        raise ValueError("there is no list 'items'")
    return [_node(number, item) for number, item in enumerate(items)]


def _node(number: int, item: Any) -> Node:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError(f"item {number} is no node with labels")
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError(f"item {number} is no node with labels")
    return Node(name if isinstance(name, str) else "", labels)
