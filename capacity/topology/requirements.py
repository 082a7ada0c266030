# SPDX-License-Identifier: Apache-2.0
"""Topology requirements: the node, or the labels of nodes, on which a volume is needed.

Requests state them as the Container Storage Interface does. Pools report their accessibility with
:mod:`tonnage.capacity.topology.accessibility`.
"""

import functools
import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorTerm, Operator

#: Scheduler hints with a topology requirement: the name of a node, and CSI's ``TopologyRequirement``.
NODE = "node_name"
REQUIREMENTS = "accessibility_requirements"
HINTS = (NODE, REQUIREMENTS)

#: The values of an empty hint.
_EMPTY = (None, "")

#: Largest number of topologies in a requirement, of labels in a topology, and of characters in a node's name.
MAX_TOPOLOGIES = 1000
MAX_LABELS = 100
MAX_NAME_LENGTH = 253

#: Largest number of characters in a label's key, which is a prefix and a name, and in its value, as in CSI.
_MAX_KEY_LENGTH = 253 + 1 + 63
_MAX_VALUE_LENGTH = 63

#: Number of names, labels, terms or topologies that a message shows. It counts the rest.
_SHOWN = 3

#: Requirements of at most this many characters are cached after parsing. Clients may send longer ones at will, so only
#: the last few of those are cached: one request parses its requirement many times while other requests wait.
_CACHED_LENGTH = 4096
_LONG_CACHE_SIZE = 8

Labels: TypeAlias = tuple[tuple[str, str], ...]


class HintError(ValueError):
    """A hint is malformed. ``hint`` is its name."""

    def __init__(self, hint: str, problem: str) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class TopologyRequirement:
    """The nodes on which a volume is needed: the named node, or any node with all labels of one of the topologies.

    If both are set, the node is the named one and has the labels of one of the topologies.
    """

    node: str | None
    topologies: tuple[Labels, ...]

    @property
    def digest(self) -> bytes:
        """A digest of fixed length that is equal for equal requirements only."""
        return _digest(self)

    def __str__(self) -> str:
        if self.node is None:
            return abbreviate([f"nodes with {format_labels(labels)}" for labels in self.topologies], " or ")
        name = f"node {self.node}"
        return abbreviate([f"{name} with {format_labels(labels)}" for labels in self.topologies], " or ") or name


class RequiredTopologies:
    """The topologies of a requirement, prepared for matching against many pools.

    ``node`` is the node's name or None. ``labels`` has the labels of each topology. An index by label speeds up
    selectors, most of which compare one label.
    """

    def __init__(self, requirement: TopologyRequirement) -> None:
        self.node = requirement.node
        self.labels: list[Mapping[str, str]] = [dict(labels) for labels in requirement.topologies or ((),)]
        self._by_label: dict[str, dict[str, list[int]]] = {}

    def first_match(self, selector: NodeSelector) -> int | None:
        """Return the position of the first topology that a selector matches, None if it matches none."""
        name = self.node or ""
        positions = (
            next((position for position in self._candidates(term) if term.matches(name, self.labels[position])), None)
            for term in selector.node_selector_terms
        )
        return min((position for position in positions if position is not None), default=None)

    def _candidates(self, term: NodeSelectorTerm) -> Iterable[int]:
        """Return the positions of the topologies that a term may match, in ascending order."""
        for expression in term.match_expressions:
            if expression.operator is Operator.IN:
                by_value = self._positions_by_value(expression.key)
                return heapq.merge(*(by_value.get(value, ()) for value in expression.values))
        return range(len(self.labels))

    def _positions_by_value(self, key: str) -> dict[str, list[int]]:
        index = self._by_label.get(key)
        if index is None:
            index = self._by_label[key] = {}
            for position, labels in enumerate(self.labels):
                if key in labels:
                    index.setdefault(labels[key], []).append(position)
        return index


class _Topology(Struct, frozen=True, forbid_unknown_fields=True):
    segments: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=_MAX_KEY_LENGTH)],
            Annotated[str, Meta(max_length=_MAX_VALUE_LENGTH)],
        ],
        Meta(min_length=1, max_length=MAX_LABELS),
    ]


class _Requirements(Struct, frozen=True, forbid_unknown_fields=True):
    """CSI's ``TopologyRequirement``."""

    requisite: Annotated[list[_Topology], Meta(max_length=MAX_TOPOLOGIES)] = []
    preferred: Annotated[list[_Topology], Meta(max_length=MAX_TOPOLOGIES)] = []


def parse_hints(hints: Mapping[str, object]) -> TopologyRequirement | None:
    """Return the topology requirement of scheduler hints, None if they have none.

    Raises :class:`HintError`.
    """
    node, requisite, _ = _read(hints)
    return None if node is None and not requisite else TopologyRequirement(node, requisite)


def parse_preferences(hints: Mapping[str, object]) -> TopologyRequirement | None:
    """Return the preferred topologies of scheduler hints, the most preferred first; None if they prefer none.

    Raises :class:`HintError`.
    """
    node, _, preferred = _read(hints)
    return TopologyRequirement(node, preferred) if preferred else None


def _read(hints: Mapping[str, object]) -> tuple[str | None, tuple[Labels, ...], tuple[Labels, ...]]:
    """Return the node, the requisite and the preferred topologies. Raises :class:`HintError`."""
    if not any(name in hints and hints[name] not in _EMPTY for name in HINTS):
        return None, (), ()
    node, raw = hints.get(NODE, ""), hints.get(REQUIREMENTS, "")
    if node not in _EMPTY and not (isinstance(node, str) and len(node) <= MAX_NAME_LENGTH):
        raise HintError(NODE, f"{str(node)[:40]!r} is no name of a node")
    try:
        text = raw if isinstance(raw, str) else msgspec.json.encode(raw)
        parse = _parse_cached if len(text) <= _CACHED_LENGTH else _parse_long
        requisite, preferred = ((), ()) if raw in _EMPTY else parse(text)
    except (msgspec.MsgspecError, ValueError) as error:
        expected = '{"requisite": [{"segments": {KEY: VALUE}}]}'
        raise HintError(REQUIREMENTS, f"{error}; expected {expected}") from None
    return node if isinstance(node, str) and node else None, requisite, preferred


@functools.lru_cache(maxsize=_LONG_CACHE_SIZE)
def _digest(requirement: TopologyRequirement) -> bytes:
    return hashlib.sha256(repr((requirement.node, requirement.topologies)).encode()).digest()


def _parse(text: str | bytes) -> tuple[tuple[Labels, ...], tuple[Labels, ...]]:
    """Return the requisite topologies, of which at least one has to match, and the preferred ones."""
    requirements = type_conversion.decode(text, _Requirements)
    requisite, preferred = (
        tuple(tuple(sorted(topology.segments.items())) for topology in topologies)
        for topologies in (requirements.requisite, requirements.preferred)
    )
    return requisite, preferred


#: The same short requirements come with many requests.
_parse_cached = functools.lru_cache(maxsize=256)(_parse)
_parse_long = functools.lru_cache(maxsize=_LONG_CACHE_SIZE)(_parse)


def format_labels(labels: Labels) -> str:
    """Return labels as text for a message."""
    return abbreviate([f"{key}={value}" for key, value in labels], ", ")


def abbreviate(parts: Sequence[str], separator: str) -> str:
    """Return the first parts as text and the number of the others."""
    shown = separator.join(parts[:_SHOWN])
    return shown if len(parts) <= _SHOWN else f"{shown} and {len(parts) - _SHOWN} more"
