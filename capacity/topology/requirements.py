# SPDX-License-Identifier: Apache-2.0
"""Where volumes are needed: on a node, or on nodes with certain labels.

What requests ask follows the Container Storage Interface. From where pools are reached is told by
:mod:`tonnage.capacity.topology.accessibility`.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector, Operator, Term

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

#: Requirements of up to so many characters are kept as they were understood. Anybody may send others at will: of those
#: a few are, as one request asks again and again while others wait, and each time it would be read anew.
_KEPT = 4096
_FEW = 8

Labels: TypeAlias = tuple[tuple[str, str], ...]


class HintError(ValueError):
    """What a hint says cannot be meant; ``hint`` is its name."""

    def __init__(self, hint: str, problem: str) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Needed:
    """Where a volume is needed: on this node, if it is named, or on one that has all labels of one of the topologies.

    Both together are a node with its labels.
    """

    node: str | None
    topologies: tuple[Labels, ...]

    @property
    def digest(self) -> bytes:
        """What only the same has, however much is asked for."""
        return _digest(self)

    def __str__(self) -> str:
        if self.node is None:
            return listed([f"nodes with {labelled(labels)}" for labels in self.topologies], " or ")
        name = f"node {self.node}"
        return listed([f"{name} with {labelled(labels)}" for labels in self.topologies], " or ") or name


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
        read = _usual if len(text) <= _KEPT else _just_asked
        topologies = () if asked in _NOTHING else read(text)
    except (msgspec.MsgspecError, ValueError) as error:
        wanted = '{"requisite": [{"segments": {KEY: VALUE}}]}'
        raise HintError(REQUIREMENTS, f"{error}; expected {wanted}") from None
    name = node if isinstance(node, str) and node else None
    return None if name is None and not topologies else Needed(name, topologies)


def says_something(hints: Mapping[str, object]) -> bool:
    """Tell whether there is more than nothing in these hints."""
    return any(name in hints and hints[name] not in _NOTHING for name in HINTS)


@functools.lru_cache(maxsize=_FEW)
def _digest(needed: Needed) -> bytes:
    return hashlib.sha256(repr((needed.node, needed.topologies)).encode()).digest()


def _requisite(text: str | bytes) -> tuple[Labels, ...]:
    """Return the topologies of which one has to do."""
    found = type_conversion.decode(text, _Requirements)
    return tuple(tuple(sorted(each.segments.items())) for each in found.requisite)


#: The same ones are asked for again and again.
_usual = functools.lru_cache(maxsize=256)(_requisite)
_just_asked = functools.lru_cache(maxsize=_FEW)(_requisite)


def labelled(labels: Labels) -> str:
    """Return labels for a sentence."""
    return listed([f"{key}={value}" for key, value in labels], ", ")


def listed(words: Sequence[str], between: str) -> str:
    """Return the first of these words; the rest are counted."""
    shown = between.join(words[:_NAMED])
    return shown if len(words) <= _NAMED else f"{shown} and {len(words) - _NAMED} more"
