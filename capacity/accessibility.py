# SPDX-License-Identifier: Apache-2.0
"""From which nodes pools can be reached, and on which a volume is needed.

What pools report follows the Kubernetes enhancement "Storage Capacity Constraints for Pod Scheduling": a list of nodes,
a node selector, or neither, which is everywhere. What requests ask follows the Container Storage Interface.

A pool has a *shape*: what of a place decides whether it is reached from there. There are few of these, however many
pools there are, and a shape tells by a single look what a pool of it has to report.
"""

import functools
import hashlib
import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from typing import Any
from typing import TypeAlias

import msgspec
from msgspec import Meta
from msgspec import Struct

from tonnage.capacity import typed
from tonnage.capacity.selectors import NodeSelector
from tonnage.capacity.selectors import Operator
from tonnage.capacity.selectors import Term

#: Hints that say where a volume is needed: the name of a node, and CSI's ``TopologyRequirement``.
NODE = "node_name"
REQUIREMENTS = "accessibility_requirements"
HINTS = (NODE, REQUIREMENTS)

#: What a hint has that says nothing.
_NOTHING = (None, "")

#: Most topologies that one may be needed in, most labels of each, and the longest name of a node.
MOST_TOPOLOGIES = 1000
MOST_LABELS = 100
LONGEST_NAME = 253

#: The longest key of a label, a name with a prefix, and the longest value, as the Container Storage Interface has them.
_LONGEST_KEY = 253 + 1 + 63
_LONGEST_VALUE = 63

#: Names, labels, terms or topologies that a sentence has; the rest are counted.
_NAMED = 3

#: Requirements of up to so many characters are kept as they were understood: anybody may send others at will.
_KEPT = 4096

Labels: TypeAlias = tuple[tuple[str, str], ...]


class HintError(ValueError):
    """What a hint says cannot be meant; ``hint`` is its name."""

    def __init__(self, hint: str, problem: str) -> None:
        super().__init__(problem)
        self.hint = hint


# Where volumes are needed


@dataclass(frozen=True, slots=True)
class Needed:
    """Where a volume is needed: on this node, if it is named, or on one that has all labels of one of the topologies.

    Both together are a node with its labels.
    """

    node: str | None
    topologies: tuple[Labels, ...]

    @property
    def reached(self) -> "Callable[[Mapping[str, Any]], Reached]":
        """What tells from where a pool is reached by its capabilities."""
        return for_topology if self.node is None else for_node

    @property
    def digest(self) -> bytes:
        """What only the same has, however much is asked for."""
        return hashlib.sha256(repr((self.node, self.topologies)).encode()).digest()

    def __str__(self) -> str:
        if self.node is None:
            return _listed([f"nodes with {_labelled(labels)}" for labels in self.topologies], " or ")
        name = f"node {self.node}"
        return _listed([f"{name} with {_labelled(labels)}" for labels in self.topologies], " or ") or name


class Places:
    """Where a volume is needed, to be asked for many pools: the labels have an index, as most selectors ask for some.

    ``node`` is its name, if that is given; ``labels`` are those that it may have, each of one topology.
    """

    def __init__(self, needed: Needed) -> None:
        self.node = needed.node
        self.labels: list[Mapping[str, str]] = [dict(each) for each in needed.topologies or ((),)]
        self._by_label: dict[str, dict[str, list[Mapping[str, str]]]] = {}

    def match(self, selector: NodeSelector) -> bool:
        """Tell whether a selector matches one of the places."""
        name = self.node or ""
        return any(
            term.matches(name, labels) for term in selector.node_selector_terms for labels in self._candidates(term)
        )

    def _candidates(self, term: Term) -> Iterable[Mapping[str, str]]:
        for one in term.match_expressions:
            if one.operator is Operator.IN:
                having = self._having(one.key)
                return itertools.chain.from_iterable(having.get(value, ()) for value in one.values)
        return self.labels

    def _having(self, key: str) -> dict[str, list[Mapping[str, str]]]:
        index = self._by_label.get(key)
        if index is None:
            index = self._by_label[key] = {}
            for labels in self.labels:
                if key in labels:
                    index.setdefault(labels[key], []).append(labels)
        return index


class _Topology(Struct, frozen=True, forbid_unknown_fields=True):
    segments: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=_LONGEST_KEY)], Annotated[str, Meta(max_length=_LONGEST_VALUE)]
        ],
        Meta(min_length=1, max_length=MOST_LABELS),
    ]


class _Requirements(Struct, frozen=True, forbid_unknown_fields=True):
    """``preferred`` is there as whoever speaks CSI sends it; what it prefers is for weighers."""

    requisite: Annotated[list[_Topology], Meta(max_length=MOST_TOPOLOGIES)] = []
    preferred: list[_Topology] = []


def needed(hints: Mapping[str, object]) -> Needed | None:
    """Return where hints say that a volume is needed; None where they say nothing. Raises :class:`HintError`."""
    if not says_something(hints):
        return None
    node, asked = hints.get(NODE, ""), hints.get(REQUIREMENTS, "")
    if node not in _NOTHING and not (isinstance(node, str) and len(node) <= LONGEST_NAME):
        raise HintError(NODE, f"{str(node)[:40]!r} is no name of a node")
    try:
        text = asked if isinstance(asked, str) else msgspec.json.encode(asked)
        read = _requisite if len(text) <= _KEPT else _requisite.__wrapped__
        topologies = () if asked in _NOTHING else read(text)
    except (msgspec.MsgspecError, ValueError) as error:
        wanted = '{"requisite": [{"segments": {KEY: VALUE}}]}'
        raise HintError(REQUIREMENTS, f"{error}; expected {wanted}") from None
    name = node if isinstance(node, str) and node else None
    return None if name is None and not topologies else Needed(name, topologies)


def says_something(hints: Mapping[str, object]) -> bool:
    """Tell whether there is more than nothing in these hints."""
    return any(name in hints and hints[name] not in _NOTHING for name in HINTS)


@functools.lru_cache(maxsize=256)
def _requisite(text: str | bytes) -> tuple[Labels, ...]:
    """Return the topologies of which one has to do, as the same ones are asked for again and again."""
    found = typed.decode(text, _Requirements)
    return tuple(tuple(sorted(each.segments.items())) for each in found.requisite)


# From where pools are reached


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
        return f"{'node' if len(self.names) == 1 else 'nodes'} {_listed(self.names, ', ')}"


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
        return f"nodes with {_labelled(self.labels)}"


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
        return f"nodes with {_listed([str(term) for term in self.selector.node_selector_terms], ', or ')}"


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
        said = typed.convert({key: capabilities[key] for key in _FIELDS if key in capabilities}, Reported)
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


def _labelled(labels: Labels) -> str:
    return _listed([f"{key}={value}" for key, value in labels], ", ")


def _listed(words: Sequence[str], between: str) -> str:
    shown = between.join(words[:_NAMED])
    return shown if len(words) <= _NAMED else f"{shown} and {len(words) - _NAMED} more"
