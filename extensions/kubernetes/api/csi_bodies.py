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
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, first_duplicate
from tonnage.extensions.kubernetes.capacity.patches import Name
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.quantities import Quantity, render
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.capacity_claims import Claim
from tonnage.extensions.kubernetes.fit.node_decision import Decision
from tonnage.extensions.kubernetes.fit.node_queries import MAX_VOLUMES, NodeClaim
from tonnage.extensions.kubernetes.fit.refusal_reasons import PoolHeadroom, RefusalReasons


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
        if (name := first_duplicate(volume.name for volume in self.volumes)) is not None:
            raise errors.InvalidInput(f"volume {name!r} is named twice")
        return [Volume(volume.name, volume.driver, volume.storage_class_name, volume.size) for volume in self.volumes]

    def to_nodes(self) -> Nodes:
        """Return the nodes. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a duplicate name."""
        if (name := first_duplicate(node.name for node in self.nodes)) is not None:
            raise errors.InvalidInput(f"node {name!r} is named twice")
        return Nodes(Node(node.name, node.labels or {}) for node in self.nodes)


class FittingNode(Struct):
    """A node that takes the volumes. ``left`` is the fraction that its fullest used pool would have left, 0 to 1."""

    name: str
    remaining_fraction: float = msgspec.field(name="left")


class AccessiblePool(Struct, rename="camel"):
    """A pool that a node has access to. ``left`` is the unclaimed part of its capacity."""

    driver: str
    storage_class_name: str
    name: str
    capacity: str | None
    headroom: str | None = msgspec.field(name="left")
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
    """The nodes that take the volumes, and the nodes that do not. ``unchecked`` volumes are left aside.

    ``claim`` is null if nothing was claimed.
    """

    nodes: list[FittingNode]
    refused: list[RefusedNode]
    unchecked: list[UncheckedVolume]
    claim: HolderClaims | None = None


def fit_response(decision: Decision, holder: str | None, node_claim: NodeClaim | None) -> FitResponse:
    """Return the response for a decision."""
    remaining, names, reasons = decision.remaining_fraction().tolist(), decision.nodes.names, RefusalReasons(decision)
    refused = []
    for row, fits in enumerate(decision.packing.fits.tolist()):
        if not fits:
            reason = reasons.reason(row)
            pools = [_accessible_pool(pool) for pool in reasons.accessible_pools(row)]
            refused.append(
                RefusedNode(names[row], reason.code, reason.message, list(reason.volumes), reason.exact, pools)
            )
    fitting = [FittingNode(names[row], round(remaining[row], 4)) for row in decision.fitting_nodes()]
    unchecked = [
        UncheckedVolume(unchecked_volume.volume.name, unchecked_volume.code, unchecked_volume.message)
        for unchecked_volume in decision.unchecked
    ]
    if holder is None or node_claim is None:
        return FitResponse(fitting, refused, unchecked)
    volumes = [
        ClaimedVolume(
            placement.volume.name, placement.driver, placement.pool[0], placement.pool[1], render(placement.size)
        )
        for placement in node_claim.placements
    ]
    return FitResponse(
        fitting, refused, unchecked, HolderClaims(holder, node_claim.node, _time(node_claim.expires_at), volumes)
    )


def holder_claims(holder: str, claims: Sequence[Claim]) -> HolderClaims:
    """Return the response for the claims of a holder."""
    volumes = [
        ClaimedVolume(claim.volume, claim.driver, claim.storage_class, claim.pool, render(claim.size))
        for claim in claims
    ]
    first = claims[0] if claims else None
    return HolderClaims(
        holder, None if first is None else first.node, _time(first.expires_at) if first else None, volumes
    )


def driver(csi_driver: Driver) -> CsiDriver:
    """Return the response for a driver without its storage."""
    return CsiDriver(_metadata(csi_driver), DriverSpec(csi_driver.tracking))


def driver_detail(csi_driver: Driver) -> CsiDriverDetail:
    """Return the response for a driver with its storage."""
    storage = [
        DriverStorage(class_storage.storage_class, [_pool(pool) for pool in class_storage.pools])
        for class_storage in csi_driver.storage
    ]
    return CsiDriverDetail(_metadata(csi_driver), DriverSpec(csi_driver.tracking), DriverStatus(storage))


def _metadata(csi_driver: Driver) -> DriverMetadata:
    created = None if csi_driver.created_at is None else _time(csi_driver.created_at)
    return DriverMetadata(csi_driver.name, csi_driver.uid, csi_driver.resource_version, created)


def _pool(pool: Pool) -> StoragePool:
    return StoragePool(
        name=pool.name,
        node_topology=pool.node_topology,
        node_list=pool.node_list,
        capacity=_size(pool.capacity),
        maximum_volume_size=_size(pool.maximum_volume_size),
        expiry_time=None if pool.expires_at is None else _time(pool.expires_at),
        backing_id=pool.backing_id,
    )


def _accessible_pool(pool: PoolHeadroom) -> AccessiblePool:
    return AccessiblePool(
        driver=pool.driver,
        storage_class_name=pool.storage_class,
        name=pool.name,
        capacity=_size(pool.capacity),
        headroom=_size(pool.headroom),
        largest=_size(pool.max_volume_size),
        expired=pool.expired,
    )


def _size(size: int | None) -> str | None:
    return None if size is None else render(size)


def _time(time: datetime.datetime) -> str:
    text: str = msgspec.to_builtins(time.replace(tzinfo=datetime.UTC))
    return text
