# SPDX-License-Identifier: Apache-2.0
"""From which nodes pools can be reached.

What pools report follows the Kubernetes enhancement "Storage Capacity Constraints for Pod Scheduling": a list of nodes,
a node selector, or neither, which is everywhere. Where volumes are needed is told by
:mod:`tonnage.capacity.topology.requirements`.

A pool has a *shape*: what of a place decides whether it is reached from there. There are few of these, however many
pools there are, and a shape tells by a single look what a pool of it has to report.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.capacity.topology.requirements import LONGEST_NAME, Labels, Needed, Places, labelled, listed


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Every node reaches the pool."""

    @property
    def shape(self) -> "Everywhere":
        """Itself."""
        return self

    def within(self, places: Places) -> "Iterable[Everywhere]":
        """Return what pools report that are reached from one of these places."""
        return (self,)


@dataclass(frozen=True, slots=True)
class OneNode:
    """The shape of pools that a single node reaches."""

    def within(self, places: Places) -> "Iterable[Nodes]":
        """Return what pools report that are reached from one of these places."""
        return () if places.node is None else (Nodes((places.node,)),)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of these names reach the pool."""

    names: tuple[str, ...]

    @property
    def shape(self) -> "OneNode | Nodes":
        """What of a place decides."""
        return OneNode() if len(self.names) == 1 else self

    def within(self, places: Places) -> "Iterable[Nodes]":
        """Return itself if the place is one of the nodes."""
        return (self,) if places.node in self.names else ()

    def __str__(self) -> str:
        return f"{'node' if len(self.names) == 1 else 'nodes'} {listed(self.names, ', ')}"


@dataclass(frozen=True, slots=True)
class LabelKeys:
    """The shape of pools that are reached by nodes with certain values of these labels."""

    keys: tuple[str, ...]

    def within(self, places: Places) -> "Iterable[Segment]":
        """Return what pools report that are reached from one of these places."""
        for labels in places.labels:
            if labels.keys() >= set(self.keys):
                yield Segment(tuple((key, labels[key]) for key in self.keys))


@dataclass(frozen=True, slots=True)
class Segment:
    """The nodes that have all of these labels, in the order of their keys, reach the pool."""

    labels: Labels

    @property
    def shape(self) -> LabelKeys:
        """What of a place decides."""
        return LabelKeys(tuple(key for key, _ in self.labels))

    def __str__(self) -> str:
        return f"nodes with {labelled(self.labels)}"


@dataclass(frozen=True, slots=True)
class Selected:
    """The nodes that a selector matches reach the pool."""

    selector: NodeSelector

    @property
    def shape(self) -> "Selected":
        """Itself: what decides is different for each selector."""
        return self

    def within(self, places: Places) -> "Iterable[Selected]":
        """Return itself if one of the places matches."""
        return (self,) if places.match(self.selector) else ()

    def __str__(self) -> str:
        return f"nodes with {listed([str(term) for term in self.selector.node_selector_terms], ', or ')}"


@dataclass(frozen=True, slots=True)
class Unclear:
    """What the pool reports cannot be meant, so that it counts as reached from nowhere."""

    problem: str

    @property
    def shape(self) -> "Unclear":
        """Itself."""
        return self

    def within(self, places: Places) -> "Iterable[Unclear]":
        """Return nothing: no place will do."""
        return ()


Reached: TypeAlias = Everywhere | Nodes | Segment | Selected | Unclear
Shape: TypeAlias = Everywhere | OneNode | Nodes | LabelKeys | Selected | Unclear

_EVERYWHERE = Everywhere()

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class Reported(Struct, frozen=True):
    """What of a pool's capabilities tells who reaches it. Raises ValueError for a node that is named twice."""

    node_name: _Name | None = None
    node_list: Annotated[tuple[_Name, ...], Meta(min_length=1)] | None = None
    node_topology: NodeSelector | None = None
    topology_labels: dict[Annotated[str, Meta(min_length=1)], str] | None = None

    def __post_init__(self) -> None:
        if self.node_list is not None and len(set(self.node_list)) < len(self.node_list):
            raise ValueError("node_list names a node twice")


_FIELDS = frozenset(Reported.__struct_fields__)


def reader(needed: Needed) -> Callable[[Mapping[str, Any]], Reached]:
    """Return what reads from a pool's capabilities from where it is reached, for what is needed there."""
    return for_topology if needed.node is None else for_node


def for_node(capabilities: Mapping[str, Any]) -> Reached:
    """Return from where a pool is reached, for places that name a node: its own nodes come before labels of these."""
    return _reached(capabilities, by_name=True)


def for_topology(capabilities: Mapping[str, Any]) -> Reached:
    """Return the same for places that name no node: a pool whose node's labels are known goes by these."""
    return _reached(capabilities, by_name=False)


def _reached(capabilities: Mapping[str, Any], *, by_name: bool) -> Reached:
    if _FIELDS.isdisjoint(capabilities):
        return _EVERYWHERE
    try:
        said = type_conversion.convert({key: capabilities[key] for key in _FIELDS if key in capabilities}, Reported)
    except msgspec.ValidationError as error:
        return Unclear(str(error))
    names = said.node_list or (() if said.node_name is None else (said.node_name,))
    if names and by_name:
        return Nodes(names)
    if said.node_topology is not None:
        return Selected(said.node_topology)
    if said.topology_labels:
        return Segment(tuple(sorted(said.topology_labels.items())))
    return Nodes(names) if names else _EVERYWHERE


def shape(reached: Reached) -> Shape:
    """Return what of a place decides whether such a pool is reached from there."""
    return reached.shape
