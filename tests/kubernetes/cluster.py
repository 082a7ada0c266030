# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster of objects: nodes without machines, and pods that do not run."""

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kubernetes import client, config, dynamic

from tests.kubernetes import manifests
from tests.servers import base
from tonnage.extensions.kubernetes.cluster import wake_claim

DRIVER, CLASS, NAMESPACE = "disk.example.com", "fast", "default"

#: The name of the manifests' kube-scheduler.
[SCHEDULER] = (each["schedulerName"] for each in manifests.scheduler_configuration()["profiles"])

HOSTNAME = "kubernetes.io/hostname"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

#: Seconds to wait for a condition. kube-scheduler needs some time.
_TIMEOUT = 300.0

_NOW = client.V1DeleteOptions(grace_period_seconds=0)

#: Versions of objects that are newer than Kubernetes 1.20, and their equivalents.
_OLDER = {"policy/v1": "policy/v1beta1"}


def wait_until(condition: Callable[[], object], description: str) -> None:
    """Wait until a condition is true. Raises TimeoutError with the description after five minutes."""
    base.wait_for(condition, description, _TIMEOUT)


class Cluster:
    """The API of a cluster with administrator rights. On exit, all objects of the test are deleted."""

    def __init__(self, kubeconfig: str) -> None:
        self.api = config.new_client_from_config(kubeconfig)
        self.core, self.storage = client.CoreV1Api(self.api), client.StorageV1Api(self.api)
        self._priorities: list[str] = []
        # Its default is a file that other users may have written.
        self._kinds = dynamic.DynamicClient(self.api, cache_file=f"{kubeconfig}-kinds")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.closing(self.api):
            self.core.delete_collection_namespaced_pod(NAMESPACE, body=_NOW)
            self.core.delete_collection_namespaced_persistent_volume_claim(NAMESPACE)
            self.core.delete_collection_namespaced_event(NAMESPACE)
            self.core.delete_collection_persistent_volume()
            self.core.delete_collection_node()
            self.storage.delete_collection_storage_class()
            self.storage.delete_collection_csi_driver()
            for name in self._priorities:
                client.SchedulingV1Api(self.api).delete_priority_class(name)

    def create(self, *bodies: dict[str, Any]) -> None:
        """Create objects of any kind, which stay at the end of the test."""
        for body in bodies:
            version = _OLDER.get(body["apiVersion"], body["apiVersion"])
            kind = self._kinds.resources.get(api_version=version, kind=body["kind"])
            kind.create({**body, "apiVersion": version}, namespace=body["metadata"].get("namespace"))

    def token(self, account: str) -> str:
        """Return a token of a service account in the namespace of the manifests."""
        token: str = self.core.create_namespaced_service_account_token(
            account, manifests.NAMESPACE, {"spec": {}}
        ).status.token
        return token

    def add_nodes(self, *names: str, cpu: str = "8", **labels: str) -> None:
        """Add nodes that are ready, as their kubelets would, with more labels."""
        room = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        for name in names:
            ready = client.V1NodeCondition(type="Ready", status="True", reason="KubeletReady")
            status = client.V1NodeStatus(capacity=room, allocatable=room, conditions=[ready])
            metadata = client.V1ObjectMeta(name=name, labels={HOSTNAME: name, **labels})
            self.core.create_node(client.V1Node(metadata=metadata, status=status))

    def add_class(self, name: str = CLASS) -> None:
        """Add a storage class that waits for the first consumer."""
        self.storage.create_storage_class(
            client.V1StorageClass(
                metadata=client.V1ObjectMeta(name=name),
                provisioner=DRIVER,
                volume_binding_mode="WaitForFirstConsumer",
            )
        )

    def add_driver(self) -> None:
        """Add a CSIDriver object, so kube-scheduler requires a CSIStorageCapacity object for a node of this driver."""
        spec = client.V1CSIDriverSpec(attach_required=False, storage_capacity=True)
        self.storage.create_csi_driver(client.V1CSIDriver(metadata=client.V1ObjectMeta(name=DRIVER), spec=spec))

    def add_priority(self, name: str, value: int, preemption_policy: str = "PreemptLowerPriority") -> None:
        """Add a priority class."""
        metadata = client.V1ObjectMeta(name=name)
        priority = client.V1PriorityClass(metadata=metadata, value=value, preemption_policy=preemption_policy)
        client.SchedulingV1Api(self.api).create_priority_class(priority)
        self._priorities.append(name)

    def add_pod(
        self,
        name: str,
        scheduler: str = SCHEDULER,
        priority: str | None = None,
        cpu: str = "0",
        grace_seconds: int = 0,
        storage_class: str = CLASS,
        **sizes: str,
    ) -> None:
        """Add a pod for a kube-scheduler, with claims of these names and sizes.

        When it is deleted it ends at once; with ``grace_seconds`` it stays, because no kubelet ends it.
        """
        for claim, size in sizes.items():
            spec = client.V1PersistentVolumeClaimSpec(
                access_modes=["ReadWriteOnce"],
                storage_class_name=storage_class,
                resources=client.V1VolumeResourceRequirements(requests={"storage": size}),
            )
            body = client.V1PersistentVolumeClaim(metadata=client.V1ObjectMeta(name=claim), spec=spec)
            self.core.create_namespaced_persistent_volume_claim(NAMESPACE, body)
        volumes = [
            client.V1Volume(
                name=claim,
                persistent_volume_claim=client.V1PersistentVolumeClaimVolumeSource(claim_name=claim),
            )
            for claim in sizes
        ]
        requests = client.V1ResourceRequirements(requests={"cpu": cpu})
        container = client.V1Container(name="main", image="example.com/never-pulled", resources=requests)
        pod = client.V1Pod(
            metadata=client.V1ObjectMeta(name=name),
            spec=client.V1PodSpec(
                containers=[container],
                volumes=volumes,
                scheduler_name=scheduler,
                priority_class_name=priority,
                termination_grace_period_seconds=grace_seconds,
            ),
        )
        self.core.create_namespaced_pod(NAMESPACE, pod)

    def node_of(self, pod: str) -> str | None:
        """Return the node that a pod is bound to."""
        node: str | None = self.core.read_namespaced_pod(pod, NAMESPACE).spec.node_name
        return node

    def pods(self) -> set[str]:
        """Return the names of all pods."""
        return {pod.metadata.name for pod in self.core.list_namespaced_pod(NAMESPACE).items}

    def victims(self) -> list[str]:
        """Return the names of the pods that are being deleted."""
        pods = self.core.list_namespaced_pod(NAMESPACE).items
        return [pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is not None]

    def woken_at(self) -> float:
        """Return the time at which Tonnage has last woken kube-scheduler, in seconds since 1970; 0 if it has not."""
        claim = self.core.read_namespaced_persistent_volume_claim("tonnage-wake", manifests.NAMESPACE)
        return float((claim.metadata.annotations or {}).get(wake_claim.ANNOTATION, 0))

    def is_refused(self, pod: str, reason: str) -> bool:
        """Return whether kube-scheduler has found no node for a pod, with this reason."""
        return any(reason in words for words in self.scheduling_failures(pod))

    def scheduling_failures(self, pod: str) -> list[str]:
        """Return the messages of kube-scheduler for a pod without a node."""
        chosen = f"involvedObject.name={pod},reason=FailedScheduling"
        found = self.core.list_namespaced_event(NAMESPACE, field_selector=chosen).items
        return [event.message for event in found]

    def claims(self) -> dict[str, client.V1PersistentVolumeClaim]:
        """Return all claims by their names."""
        found = self.core.list_namespaced_persistent_volume_claim(NAMESPACE).items
        return {claim.metadata.name: claim for claim in found}
