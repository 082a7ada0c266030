# SPDX-License-Identifier: Apache-2.0
"""A cluster's pods, claims, storage classes and nodes, read with the official client."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tonnage.capacity import errors
from tonnage.k8s.cluster import objects
from tonnage.k8s.cluster.objects import NodeList, PersistentVolumeClaim, Pod, StorageClass
from tonnage.k8s.cluster.pod_volumes import Unreadable

T = TypeVar("T")

#: Seconds that a server gets to answer: kube-scheduler waits for five.
_PATIENCE = 2.0
#: Seconds for which storage classes and the labels of nodes are remembered.
_REMEMBERED = 30.0


class Cluster:
    """Reads from the API server that a kubeconfig file names, or that a pod finds itself in. Threads may share it."""

    def __init__(self, kubeconfig: str | None) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work."""
        try:
            from kubernetes import client

            from tonnage.k8s.cluster import api_connection
        except ImportError as error:
            raise errors.ConfigurationError(
                f"option [kubernetes] extender needs the client of Kubernetes ({error}): install tonnage[kubernetes]"
            ) from error
        self.api = api_connection.connect(kubeconfig)
        self._core, self._storage = client.CoreV1Api(self.api), client.StorageV1Api(self.api)
        self._failure: type[Exception] = client.ApiException
        self._known: dict[str, tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none. Raises :class:`~tonnage.k8s.cluster.pod_volumes.Unreadable`."""
        return self._read(Pod, self._core.read_namespaced_pod, name=name, namespace=namespace)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, None if there is none. Raises :class:`~tonnage.k8s.cluster.pod_volumes.Unreadable`."""
        return self._read(
            PersistentVolumeClaim, self._core.read_namespaced_persistent_volume_claim, name=name, namespace=namespace
        )

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, or None.

        Raises :class:`~tonnage.k8s.cluster.pod_volumes.Unreadable` if the answer cannot be decoded.
        """
        found: StorageClass | None = self._remembered(
            f"class {name}", lambda: self._read(StorageClass, self._storage.read_storage_class, name=name)
        )
        return found

    def labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of nodes. Raises :class:`~tonnage.k8s.cluster.pod_volumes.Unreadable`."""
        wanted = set(names)
        known = self._remembered("nodes", self._all_labels)
        if not wanted <= known.keys():
            # One that has just joined.
            known = self._remembered("nodes", self._all_labels, anew=True)
        return {name: known[name] for name in wanted & known.keys()}

    def _all_labels(self) -> dict[str, dict[str, str]]:
        # A resource version of 0 lets the server answer from its memory.
        accepted = {"Accept": objects.NAMES_AND_LABELS}
        found = self._read(NodeList, self._core.list_node, resource_version="0", _headers=accepted)
        return {} if found is None else {each.metadata.name: each.metadata.labels or {} for each in found.items}

    def _remembered(self, what: str, read: Callable[[], T], anew: bool = False) -> T:
        now = time.monotonic()
        with self._lock:
            since, value = self._known.get(what, (0.0, None))
        if value is None or anew or now - since > _REMEMBERED:
            value = read()
            with self._lock:
                self._known[what] = now, value
        found: T = value
        return found

    def _read(self, kind: type[T], call: Callable[..., Any], **arguments: Any) -> T | None:
        try:
            answer = call(**arguments, _preload_content=False, _request_timeout=_PATIENCE)
        except self._failure as error:
            if getattr(error, "status", None) == 404:
                return None
            reason = getattr(error, "reason", None) or error
            raise Unreadable(f"the API server of Kubernetes refused a look at a {kind.__name__}: {reason}") from error
        except Exception as error:  # the client lets through what its libraries raise
            raise Unreadable(f"the API server of Kubernetes does not answer: {error}") from error
        try:
            return objects.decode(answer.data, kind)
        except errors.InvalidInput as error:
            raise Unreadable(f"the API server of Kubernetes sent what is no {error.message}") from error
