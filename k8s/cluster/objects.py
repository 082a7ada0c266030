# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes, as far as they say what volumes a pod needs. Other keys are ignored."""

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Struct

from tonnage.capacity import errors, type_conversion
from tonnage.k8s.capacity.quantities import Quantity

T = TypeVar("T")

#: Asks for names and labels alone, a twentieth of a node; those who do not know this send all.
NAMES_AND_LABELS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

Name = Annotated[str, msgspec.Meta(max_length=253)]

#: Volumes of a class of this mode are made where the pod that needs them goes.
WAITS = "WaitForFirstConsumer"

#: What says on a claim for which node its volume is made. It stays there when the volume has been made.
SELECTED_NODE = "volume.kubernetes.io/selected-node"

#: What says on a claim of which class it is, before ``storageClassName``: the way of before 1.6, which counts still.
_CLASS = "volume.beta.kubernetes.io/storage-class"

#: The most that names whoever claims something, see :mod:`tonnage.k8s.fit.capacity_claims`.
_LONGEST = 255


class Metadata(Struct):
    """What an object is called, and what is written on it."""

    name: Name = ""
    namespace: Name = "default"
    uid: Name = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Node(Struct):
    """A node."""

    metadata: Metadata


class Page(Struct):
    """Where a list goes on, if this is not all of it."""

    more: str | None = msgspec.field(default=None, name="continue")


class NodeList(Struct):
    """Nodes."""

    items: list[Node]
    metadata: Page = msgspec.field(default_factory=Page)


class Resources(Struct):
    """What is asked for."""

    requests: dict[str, Quantity] | None = None


class ClaimSpec(Struct, rename="camel"):
    """What a claim asks for, and the volume that it has got."""

    storage_class_name: str | None = None
    volume_name: str | None = None
    resources: Resources | None = None

    @property
    def size(self) -> int | None:
        """How large it is to be, in bytes; None if that is not said."""
        requests = None if self.resources is None else self.resources.requests
        return None if requests is None else requests.get("storage")


class PersistentVolumeClaim(Struct):
    """A claim."""

    metadata: Metadata
    spec: ClaimSpec

    @property
    def storage_class(self) -> str | None:
        """Of which class it is; None, or nothing, if of none."""
        return (self.metadata.annotations or {}).get(_CLASS, self.spec.storage_class_name)

    @property
    def selected_node(self) -> str | None:
        """For which node its volume is made, or was; None if nobody has been told to make one."""
        return (self.metadata.annotations or {}).get(SELECTED_NODE)


class ClaimTemplate(Struct):
    """What the claim of a generic ephemeral volume will be."""

    spec: ClaimSpec


class ClaimSource(Struct, rename="camel"):
    """A volume that somebody has claimed."""

    claim_name: Name


class EphemeralSource(Struct, rename="camel"):
    """A volume that lives as long as the pod, by a claim that is made for it."""

    volume_claim_template: ClaimTemplate | None = None


class CsiSource(Struct, rename="camel"):
    """A volume that lives as long as the pod, made by a driver on the node."""

    driver: Name
    fs_size: Quantity | None = None


class PodVolume(Struct, rename="camel"):
    """A volume of a pod. Of other sources nothing is made."""

    name: Annotated[str, msgspec.Meta(max_length=240)]
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: CsiSource | None = None


class PodSpec(Struct, rename="camel"):
    """What a pod needs, and the node that it was bound to."""

    volumes: list[PodVolume] | None = None
    node_name: str | None = None


class ListMetadata(Struct, rename="camel"):
    """Of what moment a list is."""

    resource_version: str


class PodList(Struct):
    """A list of pods, of which the moment is wanted."""

    metadata: ListMetadata


class PodStatus(Struct):
    """How far a pod has come."""

    phase: str | None = None


class Pod(Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def nameplate(self) -> str:
        """What one that has no uid claims by: without a slash, so that it can stand in an address."""
        text = f"{self.metadata.namespace}:{self.metadata.name}"
        return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()

    @property
    def holder(self) -> str:
        """What it claims by."""
        return self.metadata.uid or self.nameplate

    @property
    def begun(self) -> bool:
        """Whether all of its volumes are there, or were."""
        return self.status is not None and self.status.phase not in (None, "Pending")

    @property
    def ended(self) -> bool:
        """Whether it will not run any more."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")


class StorageClass(Struct, rename="camel"):
    """A storage class: the driver that makes its volumes, and when."""

    metadata: Metadata
    provisioner: str
    volume_binding_mode: str | None = None


def decode(raw: bytes, kind: type[T]) -> T:
    """Return an object. Raises :class:`~tonnage.capacity.errors.InvalidInput` for what is none."""
    try:
        return type_conversion.decode(raw, kind, _parse)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidInput(f"{kind.__name__}: {error}") from None


def _parse(kind: type[Any], value: Any) -> Any:
    return kind.parse(value)
