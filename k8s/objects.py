# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes, as far as they say what volumes a pod needs. Other keys are ignored."""

from typing import Annotated
from typing import Any
from typing import TypeVar

import msgspec
from msgspec import Struct

from tonnage.capacity import errors
from tonnage.k8s.quantities import Quantity

T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(max_length=253)]

#: Volumes of a class of this mode are made where the pod that needs them goes.
WAITS = "WaitForFirstConsumer"


class Metadata(Struct):
    """What an object is called, and what is written on it."""

    name: Name = ""
    namespace: Name = "default"
    uid: Name = ""
    labels: dict[str, str] | None = None


class Node(Struct):
    """A node."""

    metadata: Metadata


class NodeList(Struct):
    """All nodes."""

    items: list[Node]


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


class PodSpec(Struct):
    """What a pod needs."""

    volumes: list[PodVolume] | None = None


class Pod(Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class StorageClass(Struct, rename="camel"):
    """A storage class: the driver that makes its volumes, and when."""

    metadata: Metadata
    provisioner: str
    volume_binding_mode: str | None = None


def decode(raw: bytes, kind: type[T]) -> T:
    """Return an object. Raises :class:`~tonnage.capacity.errors.InvalidInput` for what is none."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=_parse)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidInput(f"{kind.__name__}: {error}") from None


def _parse(kind: type[Any], value: Any) -> Any:
    return kind.parse(value)
