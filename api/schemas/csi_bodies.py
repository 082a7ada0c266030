# SPDX-License-Identifier: Apache-2.0
"""Bodies about the storage of Kubernetes clusters.

Keys have the names and the case of Kubernetes, sizes are quantities, times are UTC. Unlike elsewhere, unknown keys are
refused where a typing error would make a pool larger, or accessible from more nodes, than it is.
"""

import datetime
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity.driver_storage import Driver, Pool, first_duplicate
from tonnage.k8s.capacity.patches import Name
from tonnage.k8s.capacity.quantities import Quantity, render
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.fit.capacity_claims import Claim
from tonnage.k8s.fit.node_decision import Decision, Volume
from tonnage.k8s.fit.node_queries import MAX_VOLUMES, NodeClaim
from tonnage.k8s.fit.refusal_reasons import PoolHeadroom, RefusalReasons


class DriverMetadata(Struct, rename="camel"):
    """The name and the version of a driver."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: str | None


class DriverSpec(Struct, rename="camel"):
    """Whether the driver's capacity is checked."""

    capacity_tracking: bool | None


class StoragePool(Struct, rename="camel", omit_defaults=True):
    """A pool."""

    name: str
    node_topology: NodeSelector | None = None
    node_list: tuple[str, ...] | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None
    expiry_time: str | None = None
    backing_id: str | None = None


class DriverStorage(Struct, rename="camel"):
    """The pools of a driver for a storage class."""

    storage_class_name: str
    pools: list[StoragePool]


class DriverStatus(Struct):
    """The storage that the driver's writers have reported."""

    storage: list[DriverStorage]


class CsiDriver(Struct):
    """A driver without its storage."""

    metadata: DriverMetadata
    spec: DriverSpec


class CsiDriverDetail(Struct):
    """A driver with its storage."""

    metadata: DriverMetadata
    spec: DriverSpec
    status: DriverStatus


class CsiDrivers(Struct):
    """All drivers."""

    items: list[CsiDriver]


class FitVolume(Struct, rename="camel", forbid_unknown_fields=True):
    """A volume to provision. An inline ephemeral one has no storage class. Without a size it fits on every node."""

    name: Name
    driver: Name
    storage_class_name: Name | None = None
    size: Quantity | None = None


class FitNode(Struct):
    """A candidate node."""

    name: Name
    labels: dict[str, str] | None = None


class FitClaim(Struct):
    """The holder of a claim, a name without slashes as it occurs in URL paths, and the lease in seconds."""

    holder: Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^/]*[^/ ]$")]
    lease: Annotated[float, Meta(gt=0, le=3600)] = 60.0


class FitRequest(Struct):
    """A query for the nodes that take these volumes together. With a ``claim``, capacity on one node is claimed."""

    volumes: Annotated[list[FitVolume], Meta(max_length=MAX_VOLUMES)]
    nodes: list[FitNode]
    claim: FitClaim | None = None

    def to_volumes(self) -> list[Volume]:
        """Return the volumes. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a duplicate name."""
        if (name := first_duplicate(each.name for each in self.volumes)) is not None:
            raise errors.InvalidInput(f"volume {name!r} is named twice")
        return [Volume(each.name, each.driver, each.storage_class_name, each.size) for each in self.volumes]

    def to_nodes(self) -> Nodes:
        """Return the nodes. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a duplicate name."""
        if (name := first_duplicate(each.name for each in self.nodes)) is not None:
            raise errors.InvalidInput(f"node {name!r} is named twice")
        return Nodes(Node(each.name, each.labels or {}) for each in self.nodes)


class FittingNode(Struct):
    """A node that takes the volumes. ``left`` is the fraction that its fullest used pool would have left, 0 to 1."""

    name: str
    left: float


class AccessiblePool(Struct, rename="camel"):
    """A pool that a node has access to. ``left`` is the unclaimed part of its capacity."""

    driver: str
    storage_class_name: str
    name: str
    capacity: str | None
    left: str | None
    largest: str | None
    expired: bool


class RefusedNode(Struct):
    """A node that does not take the volumes, and the reason. ``exact`` is false if not every placement was tried."""

    name: str
    code: str
    message: str
    volumes: list[str]
    exact: bool
    pools: list[AccessiblePool]


class UncheckedVolume(Struct):
    """A volume that every node takes because its capacity cannot be checked, and the reason."""

    name: str
    code: str
    message: str


class ClaimedVolume(Struct, rename="camel"):
    """A volume and the pool that was chosen for it."""

    name: str
    driver: str
    storage_class_name: str
    pool: str
    size: str


class HolderClaims(Struct, rename="camel"):
    """The claims of a holder. Unchecked volumes have none."""

    holder: str
    node: str | None
    expires_at: str | None
    volumes: list[ClaimedVolume]


class FitResponse(Struct):
    """The nodes that take the volumes, and the nodes that do not. ``unchecked`` volumes do not count in that.

    ``claim`` is null if nothing was claimed.
    """

    nodes: list[FittingNode]
    refused: list[RefusedNode]
    unchecked: list[UncheckedVolume]
    claim: HolderClaims | None = None


def fit_response(decision: Decision, holder: str | None, node_claim: NodeClaim | None) -> FitResponse:
    """Return the response for a decision."""
    left, names, reasons = decision.remaining_fraction().tolist(), decision.nodes.names, RefusalReasons(decision)
    refused = []
    for row, fits in enumerate(decision.packing.fits.tolist()):
        if not fits:
            reason = reasons.reason(row)
            pools = [_accessible_pool(pool) for pool in reasons.accessible_pools(row)]
            refused.append(
                RefusedNode(names[row], reason.code, reason.message, list(reason.volumes), reason.exact, pools)
            )
    fitting = [FittingNode(names[row], round(left[row], 4)) for row in decision.fitting_nodes()]
    unchecked = [UncheckedVolume(each.volume.name, each.code, each.message) for each in decision.unchecked]
    if holder is None or node_claim is None:
        return FitResponse(fitting, refused, unchecked)
    volumes = [
        ClaimedVolume(each.volume.name, each.driver, each.pool[0], each.pool[1], render(each.size))
        for each in node_claim.placements
    ]
    return FitResponse(
        fitting, refused, unchecked, HolderClaims(holder, node_claim.node, _time(node_claim.expires_at), volumes)
    )


def holder_claims(holder: str, claims: Sequence[Claim]) -> HolderClaims:
    """Return the response for the claims of a holder."""
    volumes = [
        ClaimedVolume(each.volume, each.driver, each.storage_class, each.pool, render(each.size)) for each in claims
    ]
    first = claims[0] if claims else None
    return HolderClaims(
        holder, None if first is None else first.node, _time(first.expires_at) if first else None, volumes
    )


def driver(found: Driver) -> CsiDriver:
    """Return the response for a driver without its storage."""
    return CsiDriver(_metadata(found), DriverSpec(found.tracking))


def driver_detail(found: Driver) -> CsiDriverDetail:
    """Return the response for a driver with its storage."""
    storage = [DriverStorage(each.storage_class, [_pool(pool) for pool in each.pools]) for each in found.storage]
    return CsiDriverDetail(_metadata(found), DriverSpec(found.tracking), DriverStatus(storage))


def _metadata(found: Driver) -> DriverMetadata:
    created = None if found.created_at is None else _time(found.created_at)
    return DriverMetadata(found.name, found.uid, found.resource_version, created)


def _pool(found: Pool) -> StoragePool:
    return StoragePool(
        name=found.name,
        node_topology=found.node_topology,
        node_list=found.node_list,
        capacity=_size(found.capacity),
        maximum_volume_size=_size(found.maximum_volume_size),
        expiry_time=None if found.expires_at is None else _time(found.expires_at),
        backing_id=found.backing_id,
    )


def _accessible_pool(found: PoolHeadroom) -> AccessiblePool:
    return AccessiblePool(
        driver=found.driver,
        storage_class_name=found.storage_class,
        name=found.name,
        capacity=_size(found.capacity),
        left=_size(found.headroom),
        largest=_size(found.max_volume_size),
        expired=found.expired,
    )


def _size(size: int | None) -> str | None:
    return None if size is None else render(size)


def _time(time: datetime.datetime) -> str:
    text: str = msgspec.to_builtins(time.replace(tzinfo=datetime.UTC))
    return text
