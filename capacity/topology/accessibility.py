# SPDX-License-Identifier: Apache-2.0
"""The accessibility of pools: the nodes from which a pool can be used.

Pools report it as the Kubernetes enhancement "Storage Capacity Constraints for Pod Scheduling" does: a list of nodes, a
node selector, or neither, which means all nodes. Requests state their requirement with
:mod:`tonnage.capacity.topology.requirements`.

The *shape* of an accessibility is the part of a topology that it depends on, for example the keys of the labels without
their values. There are few shapes, however many pools there are. A filter computes the matching accessibility values
once for each shape and looks them up in the pools.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.capacity.topology.requirements import (
    MAX_NAME_LENGTH,
    Labels,
    RequiredTopologies,
    TopologyRequirement,
    abbreviate,
    format_labels,
)


@dataclass(frozen=True, slots=True)
class AllNodes:
    """The pool is accessible from every node."""

    @property
    def shape(self) -> "AllNodes":
        """The shape, which is the value itself."""
        return self

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[AllNodes, int]]":
        """Yield the accessibility values that match any of these topologies, with the position of the first one."""
        return ((self, 0),)


@dataclass(frozen=True, slots=True)
class SingleNodeShape:
    """The shape of pools that are accessible from a single node."""

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[NamedNodes, int]]":
        """Yield the accessibility values that match any of these topologies, with the position of the first one."""
        return () if required.node is None else ((NamedNodes((required.node,)), 0),)


@dataclass(frozen=True, slots=True)
class NamedNodes:
    """The pool is accessible from the nodes with these names."""

    names: tuple[str, ...]

    @property
    def shape(self) -> "SingleNodeShape | NamedNodes":
        """The shape: all single nodes share one, and each longer list is its own."""
        return SingleNodeShape() if len(self.names) == 1 else self

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[NamedNodes, int]]":
        """Yield this value, with the position 0, if the required node is one of the names."""
        return ((self, 0),) if required.node in self.names else ()

    def __str__(self) -> str:
        return f"{'node' if len(self.names) == 1 else 'nodes'} {abbreviate(self.names, ', ')}"


@dataclass(frozen=True, slots=True)
class SegmentShape:
    """The shape of pools that are accessible from nodes with certain values of these labels."""

    keys: tuple[str, ...]

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[Segment, int]]":
        """Yield the accessibility values that match any of these topologies, with the position of the first one."""
        positions: dict[Segment, int] = {}
        for position, labels in enumerate(required.labels):
            if labels.keys() >= set(self.keys):
                positions.setdefault(Segment(tuple((key, labels[key]) for key in self.keys)), position)
        return positions.items()


@dataclass(frozen=True, slots=True)
class Segment:
    """The pool is accessible from the nodes that have all of these labels. Labels are sorted by key."""

    labels: Labels

    @property
    def shape(self) -> SegmentShape:
        """The shape: the keys of the labels."""
        return SegmentShape(tuple(key for key, _ in self.labels))

    def __str__(self) -> str:
        return f"nodes with {format_labels(self.labels)}"


@dataclass(frozen=True, slots=True)
class SelectedNodes:
    """The pool is accessible from the nodes that match a selector."""

    selector: NodeSelector

    @property
    def shape(self) -> "SelectedNodes":
        """The shape, which is the value itself: each selector depends on labels of its own."""
        return self

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[SelectedNodes, int]]":
        """Yield this value, with the position of the first topology that matches the selector, if one does."""
        position = required.first_match(self.selector)
        return () if position is None else ((self, position),)

    def __str__(self) -> str:
        return f"nodes with {abbreviate([str(term) for term in self.selector.node_selector_terms], ', or ')}"


@dataclass(frozen=True, slots=True)
class InvalidAccessibility:
    """The pool reports an accessibility that is malformed, so it counts as accessible from no node."""

    problem: str

    @property
    def shape(self) -> "InvalidAccessibility":
        """The shape, which is the value itself."""
        return self

    def accessible_from(self, required: RequiredTopologies) -> "Iterable[tuple[InvalidAccessibility, int]]":
        """Yield nothing: no topology matches."""
        return ()


Accessibility: TypeAlias = AllNodes | NamedNodes | Segment | SelectedNodes | InvalidAccessibility
AccessibilityShape: TypeAlias = (
    AllNodes | SingleNodeShape | NamedNodes | SegmentShape | SelectedNodes | InvalidAccessibility
)

_ALL_NODES = AllNodes()

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]


class ReportedAccessibility(Struct, frozen=True):
    """The capabilities of a pool that state its accessibility. Raises ValueError if a node is listed twice."""

    node_name: _Name | None = None
    node_list: Annotated[tuple[_Name, ...], Meta(min_length=1)] | None = None
    node_topology: NodeSelector | None = None
    topology_labels: dict[Annotated[str, Meta(min_length=1)], str] | None = None

    def __post_init__(self) -> None:
        if self.node_list is not None and len(set(self.node_list)) < len(self.node_list):
            raise ValueError("node_list names a node twice")


#: The capabilities that state the accessibility of a pool.
FIELDS = frozenset(ReportedAccessibility.__struct_fields__)


def parser_for(requirement: TopologyRequirement) -> Callable[[Mapping[str, Any]], Accessibility]:
    """Return the parser of a pool's capabilities that suits a requirement with, or without, a node name."""
    return parse_for_topology if requirement.node is None else parse_for_node


def parse_for_node(capabilities: Mapping[str, Any]) -> Accessibility:
    """Return the accessibility of a pool for requirements that name a node.

    The names of nodes that the pool reports take precedence over labels.
    """
    return _parse(capabilities, by_name=True)


def parse_for_topology(capabilities: Mapping[str, Any]) -> Accessibility:
    """Return the accessibility of a pool for requirements that name no node.

    Labels that the pool reports take precedence over the names of nodes.
    """
    return _parse(capabilities, by_name=False)


def _parse(capabilities: Mapping[str, Any], *, by_name: bool) -> Accessibility:
    if FIELDS.isdisjoint(capabilities):
        return _ALL_NODES
    try:
        reported = type_conversion.convert(
            {key: capabilities[key] for key in FIELDS if key in capabilities}, ReportedAccessibility
        )
    except msgspec.ValidationError as error:
        return InvalidAccessibility(str(error))
    names = reported.node_list or (() if reported.node_name is None else (reported.node_name,))
    if names and by_name:
        return NamedNodes(names)
    if reported.node_topology is not None:
        return SelectedNodes(reported.node_topology)
    if reported.topology_labels:
        return Segment(tuple(sorted(reported.topology_labels.items())))
    return NamedNodes(names) if names else _ALL_NODES


def shape_of(accessibility: Accessibility) -> AccessibilityShape:
    """Return the shape of an accessibility."""
    return accessibility.shape
