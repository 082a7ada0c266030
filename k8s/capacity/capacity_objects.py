# SPDX-License-Identifier: Apache-2.0
"""The ``CSIStorageCapacity`` objects of a namespace, in the newest version that the cluster has of them.

The official client has methods for the last of these versions alone. In what is written they hardly differ.
"""

from dataclasses import dataclass
from typing import Any, Self

from kubernetes import client

from tonnage.capacity import errors
from tonnage.k8s.capacity import quantities
from tonnage.k8s.capacity.capacity_entries import Entry

#: The first came with Kubernetes 1.24, the last with 1.19.
VERSIONS = ("v1", "v1beta1", "v1alpha1")

_GROUP, _PLURAL, _KIND = "storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Present:
    """An object that is there. Sizes are bytes."""

    name: str
    resource_version: str
    capacity: int | None
    maximum_volume_size: int | None

    @classmethod
    def read(cls, raw: Any) -> Self:
        """Return what the server has sent. It writes quantities its own way."""
        sizes = (raw.get("capacity"), raw.get("maximumVolumeSize"))
        capacity, most = (None if size is None else quantities.parse(size) for size in sizes)
        return cls(raw["metadata"]["name"], raw["metadata"]["resourceVersion"], capacity, most)

    def says(self, entry: Entry) -> bool:
        """Tell whether the sizes are those of an entry."""
        return (self.capacity, self.maximum_volume_size) == (entry.capacity, entry.maximum_volume_size)


class Capacities:
    """Reads and writes them. All methods raise what the client does."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._objects, self._namespace = client.CustomObjectsApi(api), namespace
        self._version = VERSIONS[0]

    def list(self, **arguments: Any) -> Any:
        """Return a page, as the client does, of the first version that there is."""
        for version in VERSIONS:
            try:
                page = self._objects.list_namespaced_custom_object(**{**self._where, "version": version}, **arguments)
            except client.ApiException as error:
                # A list that is empty is there, also one of a namespace that is not.
                if error.status != _NOT_FOUND:
                    raise
            else:
                self._version = version
                return page
        raise errors.Unavailable(
            f"the cluster has no {_KIND} objects: Kubernetes has them from 1.24 on, and from 1.19 on if it is told to"
        )

    def narrowed(self, entry: Entry) -> Entry:
        """Return what can be said of an entry: in 1.20 the capacity is also what the largest volume may have."""
        most = entry.maximum_volume_size
        if self._version != "v1alpha1" or most is None:
            return entry
        return Entry(entry.driver, entry.storage_class, entry.selector, most, None)

    def create(self, body: Any, **arguments: Any) -> None:
        """Make an object."""
        self._objects.create_namespaced_custom_object(body=self._whole(body), **self._where, **arguments)

    def replace(self, name: str, body: Any, **arguments: Any) -> None:
        """Change an object. Its class and topology cannot be changed."""
        self._objects.replace_namespaced_custom_object(name=name, body=self._whole(body), **self._where, **arguments)

    def delete(self, name: str, **arguments: Any) -> None:
        """Delete an object."""
        self._objects.delete_namespaced_custom_object(name=name, **self._where, **arguments)

    @property
    def _where(self) -> Any:
        return {"group": _GROUP, "version": self._version, "namespace": self._namespace, "plural": _PLURAL}

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": f"{_GROUP}/{self._version}", "kind": _KIND, **body}
