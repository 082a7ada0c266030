# SPDX-License-Identifier: Apache-2.0
"""Which volumes are still to be made for a pod."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tonnage.capacity import errors
from tonnage.k8s.cluster.objects import WAITS, PersistentVolumeClaim, Pod, PodVolume, StorageClass
from tonnage.k8s.fit.node_decision import Volume

#: What is added to the name of a pod's inline volume, and no name of a claim ends with.
INLINE = " (inline)"


class Unreadable(errors.Unavailable):
    """The cluster does not say what has to be known of a pod."""


class Records(Protocol):
    """What a cluster knows beside the pod. All methods raise :class:`Unreadable`."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, None if there is none."""

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, None if there is none."""

    def labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of nodes; those that are not there are left out."""


def volumes(pod: Pod, records: Records) -> list[Volume]:
    """Return the volumes that are made where the pod goes, and are not there yet.

    Those are inline ephemeral volumes, and claims without a volume of storage classes that wait for the pod. Raises
    :class:`~tonnage.capacity.errors.NotFound` for a claim that is not there, and what ``records`` raise.
    """
    found: dict[str, Volume] = {}
    for each in pod.spec.volumes or ():
        volume = _inline(each) if each.csi is not None else _claimed(pod, each, records)
        if volume is not None:
            found.setdefault(volume.name, volume)
    return list(found.values())


def _inline(each: PodVolume) -> Volume | None:
    return None if each.csi is None else Volume(f"{each.name}{INLINE}", each.csi.driver, None, each.csi.fs_size)


def _claimed(pod: Pod, each: PodVolume, records: Records) -> Volume | None:
    namespace, template = pod.metadata.namespace, None
    if each.persistent_volume_claim is not None:
        name = each.persistent_volume_claim.claim_name
    elif each.ephemeral is not None:
        # It gets a claim of this name, which may be there already.
        name, template = f"{pod.metadata.name}-{each.name}", each.ephemeral.volume_claim_template
    else:
        return None
    claim = records.claim(namespace, name)
    if claim is not None:
        spec, storage_class = claim.spec, claim.storage_class
    elif template is not None:
        spec, storage_class = template.spec, template.spec.storage_class_name
    elif each.ephemeral is not None:
        return None
    else:
        raise errors.NotFound(f"claim {namespace}/{name} is not there")
    if spec.volume_name or not storage_class:
        return None
    kind = records.storage_class(storage_class)
    if kind is None or kind.volume_binding_mode != WAITS:
        return None
    return Volume(name, kind.provisioner, storage_class, spec.size)
