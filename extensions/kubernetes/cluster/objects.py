# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects, reduced to the fields that determine the volumes of a pod. Other keys are ignored."""

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Struct

from tonnage.capacity import errors, type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.cluster.quantities import Quantity

T = TypeVar("T")

#: The media type for names and labels only, a twentieth of a node's size. Servers without it send whole objects.
NAMES_AND_LABELS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

#: The same for a single object, such as that of a change.
NAMES_AND_LABELS_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

#: The field selector of pods that have not started.
PENDING_PODS = "status.phase=Pending"

Name = Annotated[str, msgspec.Meta(max_length=253)]

#: The volume binding mode of storage classes that provision a volume on the node of its first pod.
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

#: API versions of ``CSIStorageCapacity`` objects. ``v1`` exists since Kubernetes 1.24, ``v1alpha1`` since 1.19.
CAPACITY_VERSIONS = ("v1", "v1beta1", "v1alpha1")

#: The API group of volume snapshots, which a cluster may lack.
SNAPSHOT_GROUP = "snapshot.storage.k8s.io"

#: The annotation of a claim with the node to provision the volume for. It remains after provisioning.
SELECTED_NODE = "volume.kubernetes.io/selected-node"

#: The annotation of a claim with its storage class. It has precedence over ``storageClassName``.
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

#: Largest number of characters in the holder of a claim, see :mod:`tonnage.extensions.kubernetes.fit.capacity_claims`.
_MAX_HOLDER_LENGTH = 255


class Metadata(Struct):
    """The metadata of an object."""

    name: Name = ""
    namespace: Name = "default"
    uid: Name = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = msgspec.field(default=None, name="creationTimestamp")


class Node(Struct):
    """A node."""

    metadata: Metadata


class PageMetadata(Struct):
    """The metadata of a page of a list, with the token of the next page if there is one."""

    continue_token: str | None = msgspec.field(default=None, name="continue")
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class NodeList(Struct):
    """A list of nodes. The API server sends null for an empty one in answers with names and labels only."""

    items: list[Node] | None
    metadata: PageMetadata = msgspec.field(default_factory=PageMetadata)


class Resources(Struct):
    """Requested resources."""

    requests: dict[str, Quantity] | None = None


class DataSource(Struct, rename="camel"):
    """The object that a new volume is copied from. ``api_group`` is None for the core objects."""

    kind: str
    name: Name
    api_group: str | None = None
    namespace: Name | None = None


class ClaimSpec(Struct, rename="camel"):
    """The spec of a persistent volume claim, with the volume that it is bound to.

    ``data_source_ref`` is the newer form of ``data_source``, and may name objects of other kinds and namespaces.
    """

    storage_class_name: str | None = None
    volume_name: str | None = None
    resources: Resources | None = None
    data_source: DataSource | None = None
    data_source_ref: DataSource | None = None

    @property
    def size(self) -> int | None:
        """The requested size in bytes, None if there is none."""
        requests = None if self.resources is None else self.resources.requests
        return None if requests is None else requests.get("storage")


class PersistentVolumeClaim(Struct):
    """A persistent volume claim."""

    metadata: Metadata
    spec: ClaimSpec

    @property
    def storage_class(self) -> str | None:
        """The storage class; None or empty if it has none."""
        return (self.metadata.annotations or {}).get(_CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def selected_node(self) -> str | None:
        """The node that the volume is provisioned for; None before kube-scheduler has selected one."""
        return (self.metadata.annotations or {}).get(SELECTED_NODE)


class VolumeNodeAffinity(Struct):
    """The nodes that reach a volume."""

    required: NodeSelector | None = None


class VolumeSpec(Struct, rename="camel"):
    """The spec of a persistent volume."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Struct):
    """A persistent volume."""

    spec: VolumeSpec

    @property
    def accessibility(self) -> NodeSelector | None:
        """The selector of the nodes that reach the volume; None if all do."""
        return None if self.spec.node_affinity is None else self.spec.node_affinity.required


class SnapshotSource(Struct, rename="camel"):
    """The claim whose volume a snapshot shows; None if the snapshot was made outside of the cluster."""

    persistent_volume_claim_name: Name | None = None


class SnapshotSpec(Struct):
    """The spec of a volume snapshot."""

    source: SnapshotSource


class VolumeSnapshot(Struct):
    """A volume snapshot."""

    metadata: Metadata
    spec: SnapshotSpec


class ClaimTemplate(Struct):
    """The template for the claim of a generic ephemeral volume."""

    spec: ClaimSpec


class ClaimSource(Struct, rename="camel"):
    """The source of a volume that a persistent volume claim names."""

    claim_name: Name


class EphemeralSource(Struct, rename="camel"):
    """The source of a generic ephemeral volume, which has a claim of its own and the lifetime of the pod."""

    volume_claim_template: ClaimTemplate | None = None


class CsiSource(Struct, rename="camel"):
    """The source of an inline ephemeral volume, which a driver creates on the node for the lifetime of the pod."""

    driver: Name
    fs_size: Quantity | None = None


class PodVolume(Struct, rename="camel"):
    """A volume of a pod. Other sources need no storage."""

    name: Annotated[str, msgspec.Meta(max_length=240)]
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: CsiSource | None = None


class PodSpec(Struct, rename="camel"):
    """The volumes of a pod, and the node that it is bound to."""

    volumes: list[PodVolume] | None = None
    node_name: str | None = None


class ListMetadata(Struct, rename="camel"):
    """The metadata of a list or an object, with its resource version."""

    resource_version: str


class PodList(Struct):
    """A list of pods, reduced to its resource version."""

    metadata: ListMetadata


class CapacityMetadata(Struct, rename="camel"):
    """The metadata of a ``CSIStorageCapacity`` object."""

    resource_version: str
    annotations: dict[str, str] | None = None


class CapacityFigure(Struct):
    """A ``CSIStorageCapacity`` object, reduced to its resource version and its figure, in bytes."""

    metadata: CapacityMetadata
    capacity: Quantity | None = None

    @property
    def version(self) -> int:
        """The resource version. Those of one kind of objects are numbers, and grow."""
        return int(self.metadata.resource_version)


class PodStatus(Struct, rename="camel"):
    """The phase of a pod, and the node from which kube-scheduler evicts others for it."""

    phase: str | None = None
    nominated_node_name: str | None = None


class Pod(Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None

    @property
    def full_name(self) -> str:
        """The name for messages, ``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def fallback_holder(self) -> str:
        """The holder of the claims of a pod without uid. It contains no slash, so that it fits into a URL path."""
        text = f"{self.metadata.namespace}:{self.metadata.name}"
        return text if len(text) <= _MAX_HOLDER_LENGTH else hashlib.sha256(text.encode()).hexdigest()

    @property
    def holder(self) -> str:
        """The holder of the pod's claims."""
        return self.metadata.uid or self.fallback_holder

    @property
    def nominated_node(self) -> str | None:
        """The node from which kube-scheduler evicts other pods for this one; None if there is none."""
        return None if self.status is None else self.status.nominated_node_name or None

    @property
    def has_started(self) -> bool:
        """Return whether the pod is past the phase Pending, so all of its volumes exist or did."""
        return self.status is not None and self.status.phase not in (None, "Pending")

    @property
    def has_ended(self) -> bool:
        """Return whether the pod will not run any more."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")


class WholePods(Struct):
    """A list of whole pods."""

    items: list[Pod] | None


class StorageClass(Struct, rename="camel"):
    """A storage class, with its provisioner and binding mode."""

    metadata: Metadata
    provisioner: str
    volume_binding_mode: str | None = None


def decode(raw: bytes, object_type: type[T]) -> T:
    """Return an object. Raises :class:`~tonnage.capacity.errors.InvalidInput` if it is malformed."""
    try:
        return type_conversion.decode(raw, object_type, _parse)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidInput(f"{object_type.__name__}: {error}") from None


def _parse(target_type: type[Any], value: Any) -> Any:
    return target_type.parse(value)
