# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod that are not provisioned yet."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.objects import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    StorageClass,
    VolumeSnapshot,
)
from tonnage.extensions.kubernetes.cluster.volumes import CopySource, Volume

#: The suffix of the names of inline volumes. No name of a claim ends with it.
INLINE_SUFFIX = " (inline)"


class ClusterUnavailable(errors.Unavailable):
    """The cluster does not return an object that is needed for a pod."""


class ClusterObjects(Protocol):
    """The objects of a cluster that a pod refers to. All methods raise :class:`ClusterUnavailable`."""

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim, None if there is none."""

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """Return a persistent volume, None if there is none."""

    def volume_snapshot(self, namespace: str, name: str) -> VolumeSnapshot | None:
        """Return a volume snapshot, None if there is none."""

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, None if there is none."""

    def node_labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the named nodes that exist."""

    def all_node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of all nodes, by name."""


def unprovisioned(pod: Pod, cluster: ClusterObjects) -> list[Volume]:
    """Return the volumes of a pod that will be provisioned on its node.

    These are inline ephemeral volumes, and unbound claims of storage classes that wait for the first consumer. Raises
    :class:`~tonnage.capacity.errors.NotFound` for a missing claim or source of a copy, and the errors of ``cluster``.
    """
    volumes: dict[str, Volume] = {}
    for pod_volume in pod.spec.volumes or ():
        volume = _inline(pod, pod_volume) if pod_volume.csi is not None else _from_claim(pod, pod_volume, cluster)
        if volume is not None:
            volumes.setdefault(volume.name, volume)
    return list(volumes.values())


def _inline(pod: Pod, pod_volume: PodVolume) -> Volume | None:
    source = pod_volume.csi
    if source is None:
        return None
    name = f"{pod_volume.name}{INLINE_SUFFIX}"
    return Volume(name, source.driver, None, source.fs_size, selected_node=pod.spec.node_name or None)


def _from_claim(pod: Pod, pod_volume: PodVolume, cluster: ClusterObjects) -> Volume | None:
    name = _claim_name(pod, pod_volume)
    if name is None:
        return None
    namespace = pod.metadata.namespace
    template = None if pod_volume.ephemeral is None else pod_volume.ephemeral.volume_claim_template
    claim = cluster.persistent_volume_claim(namespace, name)
    if claim is not None:
        spec, storage_class = claim.spec, claim.storage_class
    elif template is not None:
        spec, storage_class = template.spec, template.spec.storage_class_name
    elif pod_volume.ephemeral is not None:
        return None
    else:
        raise errors.NotFound(f"claim {namespace}/{name} is not there")
    if spec.volume_name or not storage_class:
        return None
    storage_class_object = cluster.storage_class(storage_class)
    if storage_class_object is None or storage_class_object.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return None
    return Volume(
        name,
        storage_class_object.provisioner,
        storage_class,
        spec.size,
        _copy_source(pod, name, spec, cluster),
        None if claim is None else claim.selected_node,
    )


def _copy_source(pod: Pod, name: str, spec: ClaimSpec, cluster: ClusterObjects) -> CopySource | None:
    """Return the source of a claim's volume, None if the volume is not a copy.

    Raises :class:`~tonnage.capacity.errors.NotFound` for a source that is missing, or not there yet.
    """
    source = spec.data_source_ref or spec.data_source
    if source is None:
        return None
    namespace = source.namespace or pod.metadata.namespace
    whole = f"{namespace}/{source.name}"
    match source.api_group or "", source.kind:
        case "", "PersistentVolumeClaim":
            claim = cluster.persistent_volume_claim(namespace, source.name)
            if claim is None:
                raise errors.NotFound(f"claim {whole}, which claim {name} is a copy of, is not there")
            return _copied_claim(pod, name, claim, cluster)
        case objects.SNAPSHOT_GROUP, "VolumeSnapshot":
            snapshot = cluster.volume_snapshot(namespace, source.name)
            if snapshot is None:
                raise errors.NotFound(f"snapshot {whole}, which claim {name} is a copy of, is not there")
            text = f"snapshot {source.name}"
            claim_name = snapshot.spec.source.persistent_volume_claim_name
            if claim_name is None:
                return CopySource(text, unchecked="it was not made from a claim")
            claim = cluster.persistent_volume_claim(namespace, claim_name)
            # Times of Kubernetes have one form, and sort as texts.
            made = snapshot.metadata.creation_timestamp or ""
            if claim is None or not claim.spec.volume_name or (claim.metadata.creation_timestamp or "") > made:
                return CopySource(text, unchecked=f"claim {claim_name} of its volume is gone")
            return CopySource(f"{text} of claim {claim_name}", _accessibility(claim.spec.volume_name, cluster))
    return CopySource(f"{source.kind} {source.name}", unchecked=f"Tonnage does not know objects of kind {source.kind}")


def _copied_claim(pod: Pod, name: str, claim: PersistentVolumeClaim, cluster: ClusterObjects) -> CopySource | None:
    """Return the source for a copy of a claim's volume."""
    source = claim.metadata.name
    if claim.spec.volume_name:
        return CopySource(f"claim {source}", _accessibility(claim.spec.volume_name, cluster))
    if claim.metadata.namespace == pod.metadata.namespace and source in claim_names(pod):
        # Both volumes are provisioned on the pod's node, the copy last.
        return None
    raise errors.NotFound(
        f"claim {claim.metadata.namespace}/{source}, which claim {name} is a copy of, has no volume yet"
    )


def _accessibility(volume: str, cluster: ClusterObjects) -> NodeSelector | None:
    persistent_volume = cluster.persistent_volume(volume)
    if persistent_volume is None:
        raise errors.NotFound(f"volume {volume}, which is to be copied, is not there")
    return persistent_volume.accessibility


def claim_names(pod: Pod) -> set[str]:
    """Return the names of a pod's claims, those of generic ephemeral volumes too."""
    return {name for pod_volume in pod.spec.volumes or () if (name := _claim_name(pod, pod_volume)) is not None}


def _claim_name(pod: Pod, pod_volume: PodVolume) -> str | None:
    """Return the name of a volume's claim, None if it has none."""
    if pod_volume.persistent_volume_claim is not None:
        return pod_volume.persistent_volume_claim.claim_name
    # Kubernetes creates the claim of a generic ephemeral volume with this name.
    return None if pod_volume.ephemeral is None else f"{pod.metadata.name}-{pod_volume.name}"
