# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod that are not provisioned yet."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tonnage.capacity import errors
from tonnage.k8s.cluster.objects import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, Pod, PodVolume, StorageClass
from tonnage.k8s.fit.node_decision import Volume

#: The suffix of the names of inline volumes. No name of a claim ends with it.
INLINE_SUFFIX = " (inline)"


class ClusterUnavailable(errors.Unavailable):
    """The cluster does not return an object that is needed for a pod."""


class ClusterObjects(Protocol):
    """The objects of a cluster that a pod refers to. All methods raise :class:`ClusterUnavailable`."""

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim, None if there is none."""

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, None if there is none."""

    def node_labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the named nodes that exist."""


def unprovisioned(pod: Pod, cluster: ClusterObjects) -> list[Volume]:
    """Return the volumes of a pod that will be provisioned on its node.

    These are inline ephemeral volumes, and unbound claims of storage classes that wait for the first consumer. Raises
    :class:`~tonnage.capacity.errors.NotFound` for a missing claim, and the errors of ``cluster``.
    """
    found: dict[str, Volume] = {}
    for pod_volume in pod.spec.volumes or ():
        volume = _inline(pod_volume) if pod_volume.csi is not None else _from_claim(pod, pod_volume, cluster)
        if volume is not None:
            found.setdefault(volume.name, volume)
    return list(found.values())


def _inline(pod_volume: PodVolume) -> Volume | None:
    return (
        None
        if pod_volume.csi is None
        else Volume(f"{pod_volume.name}{INLINE_SUFFIX}", pod_volume.csi.driver, None, pod_volume.csi.fs_size)
    )


def _from_claim(pod: Pod, pod_volume: PodVolume, cluster: ClusterObjects) -> Volume | None:
    namespace, template = pod.metadata.namespace, None
    if pod_volume.persistent_volume_claim is not None:
        name = pod_volume.persistent_volume_claim.claim_name
    elif pod_volume.ephemeral is not None:
        # Kubernetes creates the claim of a generic ephemeral volume with this name.
        name, template = f"{pod.metadata.name}-{pod_volume.name}", pod_volume.ephemeral.volume_claim_template
    else:
        return None
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
    found = cluster.storage_class(storage_class)
    if found is None or found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return None
    return Volume(name, found.provisioner, storage_class, spec.size)
