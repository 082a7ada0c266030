# SPDX-License-Identifier: Apache-2.0
"""Messages about which nodes take volumes together. Sizes are bytes, as clusters count."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVolume:
    """A volume to be made where a node reaches it, by a driver of the cluster.

    An inline ephemeral one has no storage class. One without a size fits everywhere.
    """

    name: str
    driver: str
    storage_class: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuery:
    """Asks which of these nodes, names with labels, take these volumes together.

    What ``holder`` has claimed does not count.
    """

    volumes: list[NodeVolume]
    nodes: dict[str, Mapping[str, str]]
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A pool that a node reaches; of its ``capacity`` nobody has claimed what is ``left``.

    ``largest`` is the largest volume that it takes. None is what is not known.
    """

    driver: str
    storage_class: str
    name: str
    capacity: int | None
    left: int | None
    largest: int | None
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRefusal:
    """Why a node does not take the volumes, and which of them this is about.

    ``exact`` is false if not every way to place them was tried.
    """

    code: str
    message: str
    volumes: list[str]
    exact: bool
    pools: list[NodePool] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedVolume:
    """A volume that passes everywhere, as there is nothing to check, and why."""

    volume: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAnswer:
    """The nodes that take the volumes, with the share of the fullest pool that is left then, 0 to 1; and the others.

    ``unchecked`` volumes have no part in that.
    """

    nodes: dict[str, float]
    refused: dict[str, NodeRefusal]
    unchecked: list[UncheckedVolume] = field(default_factory=list)
