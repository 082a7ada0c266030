# SPDX-License-Identifier: Apache-2.0
"""A reader of a cluster's pods, claims, storage classes and nodes, with the official client."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tonnage import installation
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import lowered_figures, objects, pod_volumes, quantities
from tonnage.extensions.kubernetes.cluster.lowered_figures import LoweredFigure
from tonnage.extensions.kubernetes.cluster.objects import (
    CAPACITY_VERSIONS,
    SNAPSHOT_GROUP,
    CapacityFigure,
    NodeList,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeSnapshot,
    WholePods,
)
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable

T = TypeVar("T")

#: Seconds to wait for the API server's answer. kube-scheduler waits for an extender for five.
TIMEOUT = 2.0


class NodeFollower(Protocol):
    """A watch on nodes. Its module needs the client of Kubernetes, an optional dependency."""

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]] | None:
        """The labels of all nodes, None if they are not known now."""

    def stop(self) -> None:
        """Stop watching."""


class ClusterReader:
    """Reads from the API server in a kubeconfig file, or of the cluster that this pod runs in. Thread-safe.

    It waits ``timeout`` seconds for an answer, and caches storage classes for ``cache_time`` seconds. It follows the
    labels of nodes from :meth:`start` on; before, and while that fails, it caches them too.
    """

    def __init__(self, kubeconfig: str | None, timeout: float = TIMEOUT, cache_time: float = 30.0) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable configuration."""
        try:
            from kubernetes import client

            from tonnage.extensions.kubernetes.cluster import api_connection
        except ImportError as error:
            raise errors.ConfigurationError(
                f"option [kubernetes] extender needs the client of Kubernetes ({error}); install it with: "
                f"{installation.install_command('kubernetes')}"
            ) from error
        self.api = api_connection.connect(kubeconfig)
        self._core, self._storage = client.CoreV1Api(self.api), client.StorageV1Api(self.api)
        self._custom = client.CustomObjectsApi(self.api)
        self._api_exception: type[Exception] = client.ApiException
        self._timeout, self._cache_time = timeout, cache_time
        self._cache: dict[str, tuple[float, Any]] = {}
        self._lock = threading.Lock()
        self._node_watch: NodeFollower | None = None

    def start(self) -> None:
        """Start to follow the labels of nodes, on a thread."""
        from tonnage.extensions.kubernetes.cluster.node_watch import NodeWatch

        node_watch = NodeWatch(self.api)
        node_watch.start()
        self._node_watch = node_watch

    def stop(self) -> None:
        """Stop to follow the labels of nodes, if that was started."""
        if self._node_watch is not None:
            self._node_watch.stop()
            self._node_watch = None

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        return self._read(Pod, self._core.read_namespaced_pod, name=name, namespace=namespace)

    def pending_pods(self) -> Sequence[Pod]:
        """Return the pods that have not started.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        # Without a resource version: the cache of one of several API servers may lack a pod that others have.
        call = self._core.list_pod_for_all_namespaces
        pods = self._read(WholePods, call, field_selector=objects.PENDING_PODS)
        return (pods and pods.items) or ()

    def pods_with_claim(self, namespace: str, claim: str) -> Sequence[Pod]:
        """Return the pods that have not started and use a claim.

        The API server answers from its cache. Of several servers one may lag behind, so it is only believed that there
        are none after a list that is not from a cache. Raises
        :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        call = self._core.list_namespaced_pod
        for version in ({"resource_version": "0"}, {}):
            pods = self._read(WholePods, call, namespace=namespace, field_selector=objects.PENDING_PODS, **version)
            if users := [pod for pod in (pods and pods.items) or () if claim in pod_volumes.claim_names(pod)]:
                return users
        return ()

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim, None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        return self._read(
            PersistentVolumeClaim, self._core.read_namespaced_persistent_volume_claim, name=name, namespace=namespace
        )

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """Return a persistent volume, None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        return self._read(PersistentVolume, self._core.read_persistent_volume, name=name)

    def volume_snapshot(self, namespace: str, name: str) -> VolumeSnapshot | None:
        """Return a volume snapshot, None if there is none, or no snapshots at all in this cluster.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        return self._read(
            VolumeSnapshot,
            self._custom.get_namespaced_custom_object,
            group=SNAPSHOT_GROUP,
            version="v1",
            namespace=namespace,
            plural="volumesnapshots",
            name=name,
        )

    def capacity_version(self, full_name: str) -> int | None:
        """Return the resource version of a ``CSIStorageCapacity`` object, ``namespace/name``; None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        figure, _ = self._capacity(full_name)
        return None if figure is None else figure.version

    def ask_for_capacity(self, full_name: str) -> int | None:
        """Make the provisioner of a ``CSIStorageCapacity`` object, ``namespace/name``, ask for its figure.

        The figure is lowered by a byte, unless it is lowered already. Return the resource version since which it is: a
        later one of the provisioner has an answer to a later question. None if there is no object, no figure that can
        be lowered, or a new figure this moment. Raises
        :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        figure, arguments = self._capacity(full_name)
        if figure is None or not figure.capacity:
            return None
        if lowered_figures.find(figure.metadata.annotations, figure.capacity) is not None:
            return figure.version
        lowered = LoweredFigure(figure.version, figure.capacity)
        # With the resource version a figure that has been written meanwhile is not overwritten.
        metadata = {"resourceVersion": str(lowered.version), "annotations": lowered.annotations}
        body = {"metadata": metadata, "capacity": quantities.render(lowered.lowered)}
        action, patch = f"a change of CSIStorageCapacity {full_name}", self._custom.patch_namespaced_custom_object
        changed = self._call(CapacityFigure, action, (404, 409), patch, **arguments, body=body)
        return None if changed is None else changed.version

    def _capacity(self, full_name: str) -> tuple[CapacityFigure | None, dict[str, Any]]:
        """Return a ``CSIStorageCapacity`` object, None if there is none, and the arguments that name it."""
        namespace, _, name = full_name.partition("/")
        arguments: dict[str, Any] = {
            "group": "storage.k8s.io",
            "version": "",
            "namespace": namespace,
            "plural": "csistoragecapacities",
            "name": name,
        }
        for version in CAPACITY_VERSIONS:
            arguments["version"] = version
            # Without a resource version the answer is not from a cache.
            figure = self._read(CapacityFigure, self._custom.get_namespaced_custom_object, **arguments)
            if figure is not None:
                return figure, arguments
        return None, arguments

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        storage_class: StorageClass | None = self._cached(
            f"class {name}", lambda: self._read(StorageClass, self._storage.read_storage_class, name=name)
        )
        return storage_class

    def node_labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the named nodes that exist.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        requested_names = set(names)
        labels_by_node = self.all_node_labels()
        if not requested_names <= labels_by_node.keys():
            # A node has joined since the list was cached.
            labels_by_node = self._cached("nodes", self._read_node_labels, refresh=True)
        return {name: labels_by_node[name] for name in requested_names & labels_by_node.keys()}

    def all_node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of all nodes, by name. It is the same object while they stay the same.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """
        node_watch = self._node_watch
        labels = None if node_watch is None else node_watch.labels
        return self._cached("nodes", self._read_node_labels) if labels is None else labels

    def _read_node_labels(self) -> dict[str, dict[str, str]]:
        # With resource version 0 the API server answers from its cache.
        accepted = {"Accept": objects.NAMES_AND_LABELS}
        node_list = self._read(NodeList, self._core.list_node, resource_version="0", _headers=accepted)
        nodes = (node_list and node_list.items) or []
        return {node.metadata.name: node.metadata.labels or {} for node in nodes}

    def _cached(self, key: str, read: Callable[[], T], refresh: bool = False) -> T:
        now = time.monotonic()
        with self._lock:
            read_at, value = self._cache.get(key, (0.0, None))
        if value is None or refresh or now - read_at > self._cache_time:
            read_value = read()
            value = value if value == read_value else read_value
            with self._lock:
                self._cache[key] = now, value
        result: T = value
        return result

    def _read(self, object_type: type[T], call: Callable[..., Any], **arguments: Any) -> T | None:
        return self._call(object_type, f"a look at a {object_type.__name__}", (404,), call, **arguments)

    def _call(
        self, object_type: type[T], action: str, expected: Collection[int], call: Callable[..., Any], **arguments: Any
    ) -> T | None:
        """Return the object of an answer, None if its status is one of the ``expected`` ones."""
        try:
            answer = call(**arguments, _preload_content=False, _request_timeout=self._timeout)
        except self._api_exception as error:
            if getattr(error, "status", None) in expected:
                return None
            reason = getattr(error, "reason", None) or error
            raise ClusterUnavailable(f"the API server of Kubernetes refused {action}: {reason}") from error
        except Exception as error:  # the client does not wrap the errors of its libraries
            raise ClusterUnavailable(f"the API server of Kubernetes does not answer: {error}") from error
        try:
            return objects.decode(answer.data, object_type)
        except errors.InvalidInput as error:
            raise ClusterUnavailable(f"the API server of Kubernetes sent no valid {error.message}") from error
