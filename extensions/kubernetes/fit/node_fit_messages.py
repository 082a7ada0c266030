# SPDX-License-Identifier: Apache-2.0
"""The node-fit query: its RPC method and its messages. Sizes are in bytes, as in Kubernetes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.rpc.contract import Delivery, Method


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVolume:
    """A volume that a driver of the cluster has to create on storage that the node reaches.

    An inline ephemeral volume has no storage class. A volume without a size fits everywhere.
    """

    name: str
    driver: str
    storage_class: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuery:
    """A query for the nodes that have room for these volumes together. ``nodes`` maps names to labels.

    The claims of ``holder`` do not count.
    """

    volumes: list[NodeVolume]
    nodes: dict[str, Mapping[str, str]]
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A pool that a node reaches. ``left`` is the part of its ``capacity`` that is not claimed.

    ``largest`` is the size of the largest volume that it has room for. None means unknown.
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
    """The reason for which a node has no room for the volumes, and the volumes that it concerns.

    ``exact`` is false if the search did not try every arrangement.
    """

    code: str
    message: str
    volumes: list[str]
    exact: bool
    pools: list[NodePool] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedVolume:
    """A volume that fits every node because it needs no check, and the reason."""

    volume: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAnswer:
    """The nodes with room for the volumes, and the others with reasons.

    ``nodes`` maps each node to the free share of its fullest pool after the placement, 0 to 1. ``unchecked`` volumes
    are not part of it.
    """

    nodes: dict[str, float]
    refused: dict[str, NodeRefusal]
    unchecked: list[UncheckedVolume] = field(default_factory=list)


#: The method of schedulers that answers the query.
FIT_NODES = Method(
    "fit_nodes",
    FitQuery,
    FitAnswer,
    "the nodes of a cluster with room for volumes together, and reasons for the others; no side effect",
    Delivery.SINGLE_CALL,
)
