# SPDX-License-Identifier: Apache-2.0
"""Bodies about the storage of Kubernetes clusters. Keys are spelled as there; sizes are quantities, times UTC.

Unlike elsewhere a key that is not known is refused where a typing error would make a pool larger, or reached from more
nodes, than it is.
"""

import datetime
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity.driver_storage import Driver, Pool, repeated
from tonnage.k8s.capacity.patches import Name
from tonnage.k8s.capacity.quantities import Quantity, render
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.fit.capacity_claims import Claim
from tonnage.k8s.fit.node_decision import Decision, Volume
from tonnage.k8s.fit.node_queries import MOST_VOLUMES, Promise
from tonnage.k8s.fit.refusal_reasons import PoolRoom, Reasons


class DriverMetadata(Struct, rename="camel"):
    """What driver it is, and which version of it."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: str | None


class DriverSpec(Struct, rename="camel"):
    """Whether anybody is to ask for its capacity."""

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
    """What a driver has for a storage class."""

    storage_class_name: str
    pools: list[StoragePool]


class DriverStatus(Struct):
    """What its writers have told."""

    storage: list[DriverStorage]


class CsiDriver(Struct):
    """A driver without its storage."""

    metadata: DriverMetadata
    spec: DriverSpec


class WholeCsiDriver(Struct):
    """A driver."""

    metadata: DriverMetadata
    spec: DriverSpec
    status: DriverStatus


class CsiDrivers(Struct):
    """All drivers."""

    items: list[CsiDriver]


class AskedVolume(Struct, rename="camel", forbid_unknown_fields=True):
    """A volume to be made; an inline ephemeral one has no storage class. Without a size it fits everywhere."""

    name: Name
    driver: Name
    storage_class_name: Name | None = None
    size: Quantity | None = None


class AskedNode(Struct):
    """A node that may be chosen."""

    name: Name
    labels: dict[str, str] | None = None


class AskedClaim(Struct):
    """Who claims, by a name without slashes as it stands in addresses, and for how many seconds."""

    holder: Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^/]*[^/ ]$")]
    lease: Annotated[float, Meta(gt=0, le=3600)] = 60.0


class Question(Struct):
    """Which of these nodes take these volumes together? With a ``claim`` one of them is chosen, and holds them."""

    volumes: Annotated[list[AskedVolume], Meta(max_length=MOST_VOLUMES)]
    nodes: list[AskedNode]
    claim: AskedClaim | None = None

    def wanted(self) -> list[Volume]:
        """Return the volumes. Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that is named twice."""
        if (name := repeated(each.name for each in self.volumes)) is not None:
            raise errors.InvalidInput(f"volume {name!r} is named twice")
        return [Volume(each.name, each.driver, each.storage_class_name, each.size) for each in self.volumes]

    def among(self) -> Nodes:
        """Return the nodes. Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that is named twice."""
        if (name := repeated(each.name for each in self.nodes)) is not None:
            raise errors.InvalidInput(f"node {name!r} is named twice")
        return Nodes(Node(each.name, each.labels or {}) for each in self.nodes)


class Taker(Struct):
    """A node that takes the volumes. ``left`` is the share of the fullest of their pools that is left then, 0 to 1."""

    name: str
    left: float


class PoolLeft(Struct, rename="camel"):
    """A pool that a node reaches. ``left`` is what nobody has claimed of its capacity."""

    driver: str
    storage_class_name: str
    name: str
    capacity: str | None
    left: str | None
    largest: str | None
    expired: bool


class Refused(Struct):
    """A node that does not take the volumes, and why. ``exact`` is false if not every way to place them was tried."""

    name: str
    code: str
    message: str
    volumes: list[str]
    exact: bool
    pools: list[PoolLeft]


class UncheckedVolume(Struct):
    """A volume that passes everywhere, as there is nothing to check, and why."""

    name: str
    code: str
    message: str


class ClaimedVolume(Struct, rename="camel"):
    """A volume, and the pool that was chosen for it."""

    name: str
    driver: str
    storage_class_name: str
    pool: str
    size: str


class Held(Struct, rename="camel"):
    """What somebody has claimed. Volumes that pass everywhere are not in it."""

    holder: str
    node: str | None
    expires_at: str | None
    volumes: list[ClaimedVolume]


class Answer(Struct):
    """The nodes that take the volumes, and those that do not; ``unchecked`` volumes have no part in that.

    ``claim`` is null if nothing was or could be claimed.
    """

    nodes: list[Taker]
    refused: list[Refused]
    unchecked: list[UncheckedVolume]
    claim: Held | None = None


def answer(decision: Decision, holder: str | None, promise: Promise | None) -> Answer:
    """Return a decision as it is shown."""
    left, names, reasons = decision.left().tolist(), decision.nodes.names, Reasons(decision)
    refused = []
    for row, fits in enumerate(decision.fit.fits.tolist()):
        if not fits:
            why = reasons.why(row)
            pools = [_room(pool) for pool in reasons.pools(row)]
            refused.append(Refused(names[row], why.code, why.message, list(why.volumes), why.exact, pools))
    takers = [Taker(names[row], round(left[row], 4)) for row in decision.taking()]
    unchecked = [UncheckedVolume(each.volume.name, each.code, each.message) for each in decision.unchecked]
    if holder is None or promise is None:
        return Answer(takers, refused, unchecked)
    volumes = [
        ClaimedVolume(each.volume.name, each.driver, each.pool[0], each.pool[1], render(each.size))
        for each in promise.places
    ]
    return Answer(takers, refused, unchecked, Held(holder, promise.node, _time(promise.expires_at), volumes))


def held(holder: str, claims: Sequence[Claim]) -> Held:
    """Return what somebody has claimed."""
    volumes = [
        ClaimedVolume(each.volume, each.driver, each.storage_class, each.pool, render(each.size)) for each in claims
    ]
    first = claims[0] if claims else None
    return Held(holder, None if first is None else first.node, _time(first.expires_at) if first else None, volumes)


def driver(found: Driver) -> CsiDriver:
    """Return a driver without its storage."""
    return CsiDriver(_metadata(found), DriverSpec(found.tracking))


def whole_driver(found: Driver) -> WholeCsiDriver:
    """Return a driver."""
    storage = [DriverStorage(each.storage_class, [_pool(pool) for pool in each.pools]) for each in found.storage]
    return WholeCsiDriver(_metadata(found), DriverSpec(found.tracking), DriverStatus(storage))


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


def _room(found: PoolRoom) -> PoolLeft:
    return PoolLeft(
        driver=found.driver,
        storage_class_name=found.storage_class,
        name=found.name,
        capacity=_size(found.capacity),
        left=_size(found.left),
        largest=_size(found.largest),
        expired=found.expired,
    )


def _size(size: int | None) -> str | None:
    return None if size is None else render(size)


def _time(time: datetime.datetime) -> str:
    text: str = msgspec.to_builtins(time.replace(tzinfo=datetime.UTC))
    return text
