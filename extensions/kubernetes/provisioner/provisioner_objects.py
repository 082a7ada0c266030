# SPDX-License-Identifier: Apache-2.0
"""``CSIStorageCapacity`` objects, their owners and their provisioner's lease, reduced to the fields that matter
here."""

import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tonnage.capacity import errors, type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.extensions.kubernetes.cluster import lowered_figures
from tonnage.extensions.kubernetes.cluster.quantities import Quantity


class OwnerReference(Struct, rename="camel", frozen=True):
    """A reference to an object without which the cluster deletes this one."""

    api_version: str
    kind: str
    name: str
    uid: str


class ObjectMetadata(Struct, rename="camel"):
    """The metadata of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    deletion_timestamp: str | None = None


class LabelSelector(Struct, rename="camel"):
    """A selector of labels. Without conditions all nodes match."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None

    @property
    def term(self) -> NodeSelectorTerm:
        """The same conditions as a term of a node selector."""
        labels = [
            NodeSelectorRequirement(key=key, operator=Operator.IN, values=(value,))
            for key, value in (self.match_labels or {}).items()
        ]
        requirements = sorted([*labels, *(self.match_expressions or ())], key=str)
        return NodeSelectorTerm(match_expressions=tuple(requirements))


class CapacityObject(Struct, rename="camel"):
    """An object. No node reaches its storage without a ``node_topology``. Sizes are bytes."""

    metadata: ObjectMetadata
    storage_class_name: str
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @property
    def full_name(self) -> str:
        """The name, ``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def version(self) -> int:
        """The resource version. Those of one kind of objects are numbers, and grow."""
        return int(self.metadata.resource_version)


class ObjectStatus(Struct, rename="camel"):
    """The numbers of pods of an owner that are ready."""

    number_ready: int | None = None
    ready_replicas: int | None = None


class Owner(Struct):
    """A DaemonSet, a StatefulSet, a Deployment or a ReplicaSet."""

    metadata: ObjectMetadata
    status: ObjectStatus = msgspec.field(default_factory=ObjectStatus)

    @property
    def ready_pods(self) -> int:
        """The number of its pods that are ready."""
        return (self.status.number_ready or 0) + (self.status.ready_replicas or 0)


class LeaseSpec(Struct, rename="camel"):
    """The holder of a lease, the time of its last renewal, and the seconds for which it lasts then."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime.datetime | None = None


class Lease(Struct):
    """The lease by which one of several provisioners is chosen."""

    spec: LeaseSpec


class PodNames(Struct):
    """The pods of a namespace, without their contents."""

    items: list["PodName"] | None = None


class PodName(Struct):
    """A pod, without its contents."""

    metadata: ObjectMetadata


def capacity_object(raw: Any) -> CapacityObject:
    """Return an object from a decoded answer, as its provisioner has written it.

    Raises :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    try:
        decoded = type_conversion.convert(raw, CapacityObject, lambda target, value: target.parse(value))
    except (msgspec.ValidationError, ValueError) as error:
        raise errors.InvalidInput(f"CSIStorageCapacity: {error}") from None
    before = lowered_figures.find(decoded.metadata.annotations, decoded.capacity)
    if before is not None:
        decoded.capacity, decoded.metadata.resource_version = Quantity(before.capacity), str(before.version)
    return decoded
