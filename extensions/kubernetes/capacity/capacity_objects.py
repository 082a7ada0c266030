# SPDX-License-Identifier: Apache-2.0
"""The ``CSIStorageCapacity`` objects of a namespace, in the newest API version that the cluster has.

The official client has methods for ``v1`` only. The objects hardly differ between versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity.capacity_entries import CapacityEntry
from tonnage.extensions.kubernetes.cluster import quantities
from tonnage.extensions.kubernetes.cluster.objects import CAPACITY_VERSIONS

#: Labels of the objects. Tonnage writes objects of its own manager only.
DRIVER_LABEL = "csi.storage.k8s.io/drivername"
MANAGER_LABEL = "csi.storage.k8s.io/managed-by"
OWN_MANAGER = "tonnage"

_GROUP, _PLURAL, _KIND = "storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class ExistingCapacity:
    """An object in the cluster. Sizes are bytes, ``owners`` the references to its owners."""

    name: str
    resource_version: str
    capacity: int | None
    maximum_volume_size: int | None
    owners: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_raw(cls, raw: Any) -> Self:
        """Return an object from the server's answer. The server may render quantities differently."""
        sizes = (raw.get("capacity"), raw.get("maximumVolumeSize"))
        capacity, most = (None if size is None else quantities.parse(size) for size in sizes)
        metadata = raw["metadata"]
        owners = tuple(metadata.get("ownerReferences") or ())
        return cls(metadata["name"], metadata["resourceVersion"], capacity, most, owners)

    def has_sizes_of(self, entry: CapacityEntry) -> bool:
        """Return whether the sizes equal those of an entry."""
        return (self.capacity, self.maximum_volume_size) == (entry.capacity, entry.maximum_volume_size)

    def is_owned_by(self, owner: Mapping[str, Any] | None) -> bool:
        """Return whether an owner, if there is one, owns the object."""
        return owner is None or owner["uid"] in {reference["uid"] for reference in self.owners}


class CapacityObjects:
    """Reads and writes the objects. All methods raise the errors of the client."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._objects, self._namespace = client.CustomObjectsApi(api), namespace
        self._version = CAPACITY_VERSIONS[0]

    def list(self, **arguments: Any) -> Any:
        """Return a page of the list, in the newest API version that exists."""
        for version in CAPACITY_VERSIONS:
            try:
                page = self._objects.list_namespaced_custom_object(
                    **{**self._path_arguments, "version": version}, **arguments
                )
            except client.ApiException as error:
                # An empty list exists, and so does the list of a namespace that does not.
                if error.status != _NOT_FOUND:
                    raise
            else:
                self._version = version
                return page
        raise errors.Unavailable(
            f"the cluster has no {_KIND} objects: Kubernetes has them from 1.24 on, and from 1.19 on if it is told to"
        )

    def adapt_to_version(self, entry: CapacityEntry) -> CapacityEntry:
        """Return the entry for this API version: ``v1alpha1`` has one size, used as the largest volume."""
        most = entry.maximum_volume_size
        if self._version != "v1alpha1" or most is None:
            return entry
        return CapacityEntry(entry.driver, entry.storage_class, entry.selector, most, None)

    def create(self, body: Any, **arguments: Any) -> None:
        """Create an object."""
        self._objects.create_namespaced_custom_object(body=self._with_type(body), **self._path_arguments, **arguments)

    def replace(self, name: str, body: Any, **arguments: Any) -> None:
        """Replace an object. Its class and topology cannot change."""
        self._objects.replace_namespaced_custom_object(
            name=name, body=self._with_type(body), **self._path_arguments, **arguments
        )

    def delete(self, name: str, version: str, **arguments: Any) -> None:
        """Delete an object, unless it has another resource version by now."""
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(resource_version=version))
        self._objects.delete_namespaced_custom_object(name=name, body=options, **self._path_arguments, **arguments)

    @property
    def _path_arguments(self) -> Any:
        return {"group": _GROUP, "version": self._version, "namespace": self._namespace, "plural": _PLURAL}

    def _with_type(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": f"{_GROUP}/{self._version}", "kind": _KIND, **body}
