# SPDX-License-Identifier: Apache-2.0
"""The preemption call of kube-scheduler extenders, version 1: the pods to evict for a pod, by node.

kube-scheduler sends the nodes on which its own plug-ins would take the pod once some pods there, the victims, are gone.
The answer leaves out the nodes that would not take the volumes of the pod all the same. No eviction frees room for
them: the volume of a claim stays when its pod goes, and the room of an ephemeral volume is free only when the driver
has deleted the volume.

Claims for the pod, between the eviction and its next turn: kube-scheduler keeps the processors and the memory that an
eviction frees for the pod that it was made for, and writes the node into it (``status.nominatedNodeName``). No filter
claims its storage there until its next turn, so others would take it, and the eviction would have been for nothing. So
the storage is claimed as soon as the pod has that node. A process that has answered a call for evictions looks at the
pod before its next decision, because the scheduler writes the node before it turns to another pod. Other processes
learn of it by their watch on pods.

At its next turn kube-scheduler compares the pod with the published capacity before it asks the extender. If that were
less the pod's own claims, it would refuse the node for good, and evict pods from another one. So these claims are not
subtracted from published capacity.

A pod with a claim that is subtracted, because it was claimed for without evictions, may come back too, for example
because its binding failed. Then kube-scheduler refuses the node of the claim likewise. So pods are evicted from this
node alone, until the claim is no longer subtracted, some seconds later: by then kube-scheduler can judge all nodes.

The pod may keep this node after kube-scheduler has placed it on another one, where its volumes are being made. So a pod
with such a volume, or with claims on another node, is left alone.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Struct

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects, pod_volumes
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.objects import Metadata, Pod
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterObjects
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries

LOG = logging.getLogger(__name__)

#: Seconds for which a pod may still get its node after the answer about evictions.
_EXPECTED_SECONDS = 10.0

#: Seconds after a look at a pod until the next one, unless a change of the pod is reported.
_PAUSE_SECONDS = 1.0

#: Seconds to wait for another thread's look at a pod. kube-scheduler waits for an extender for five.
_WAIT_SECONDS = 2.0

#: Number of pods that cannot be read after which the rest waits: an unreachable cluster takes seconds to fail.
_MAX_FAILURES = 2


class VictimPod(Struct):
    """A whole pod that would be evicted."""

    metadata: Metadata


class MetaPod(Struct):
    """The uid of a pod that would be evicted."""

    uid: objects.Name = msgspec.field(name="UID")


class Victims(Struct, rename="pascal"):
    """The pods that would be evicted from a node, and the number of disruption budgets that this would violate."""

    pods: list[VictimPod] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class MetaVictims(Struct, rename="pascal"):
    """The same, with the uids of the pods instead of the pods."""

    pods: list[MetaPod] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptionArguments(Struct, rename="pascal"):
    """A call: a pod, and the victims by node; with uids alone if kube-scheduler sends names of nodes."""

    pod: Pod
    node_name_to_victims: dict[objects.Name, Victims | None] | None = None
    node_name_to_meta_victims: dict[objects.Name, MetaVictims | None] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """Return the victims of each node, by their uids."""
        if self.node_name_to_meta_victims is not None:
            return {name: victims or MetaVictims() for name, victims in self.node_name_to_meta_victims.items()}
        return {
            name: MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)
            if victims
            else MetaVictims()
            for name, victims in (self.node_name_to_victims or {}).items()
        }


class PreemptionResult(Struct, rename="pascal"):
    """The answer: the victims of the nodes that remain, by their uids in both forms of the call."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def remaining(victims: Mapping[str, MetaVictims], fits: Mapping[str, bool]) -> dict[str, MetaVictims]:
    """Return the nodes from which pods may be evicted; ``fits`` tells which of them take the volumes of the pod.

    A node without victims never remains: kube-scheduler takes none, and before 1.21 it crashes at one. If such a node
    takes the volumes, room has come since the pod was filtered. Then no node remains, because no eviction is needed.
    """
    if any(fits[name] and not of_node.pods for name, of_node in victims.items()):
        return {}
    return {name: of_node for name, of_node in victims.items() if fits[name]}


class Pods(ClusterObjects, Protocol):
    """The objects of a cluster, with its pods."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """


def claim_on_nominated_node(
    pod: Pod, volumes: Sequence[Volume], queries: NodeQueries, cluster: ClusterObjects, lease: float
) -> bool:
    """Claim the storage of a pod on the node from which others are evicted for it, and return whether it was claimed.

    ``volumes`` are all that have to be made for it. Nothing changes if a volume is being made already, or if the pod
    holds claims for them on another node: it has been placed since. Raises
    :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read.
    """
    node = pod.nominated_node
    if node is None or not volumes or any(volume.selected_node for volume in volumes):
        return False
    if all(queries.holds(pod.holder, volume.name, node) for volume in volumes):
        return False
    nodes = Nodes([Node(node, cluster.node_labels([node]).get(node, {}))])
    decision, node_claim = queries.claim(volumes, nodes, pod.holder, lease, pod=pod.full_name, is_nominated=True)
    if node_claim is not None:
        LOG.info("Pod %s: its storage is claimed on %s, from which pods are evicted for it", pod.full_name, node)
        return True
    if not decision.packing.fits.any():
        LOG.info("Pod %s: pods are evicted for it from %s, whose room has gone meanwhile", pod.full_name, node)
    return False


@dataclass(slots=True, eq=False)
class _ExpectedPod:
    """A pod that may get a node: until when it is expected to, and when it was read last."""

    until: float
    read_at: float | None = None


class Nominations:
    """The pods that may get a node by evictions. Thread-safe. ``lease`` is the number of seconds of a claim."""

    def __init__(
        self, queries: NodeQueries, cluster: Pods, lease: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queries, self._cluster, self._lease, self._clock = queries, cluster, lease, clock
        self._lock = threading.Lock()
        #: The expected pods by name, ``namespace/name``, the latest one last.
        self._expected: dict[str, _ExpectedPod] = {}
        #: Held while a pod is read, so that no two threads read the same one.
        self._reading = threading.Lock()

    def expect(self, pod: str) -> None:
        """Take note that a pod, ``namespace/name``, may get a node by evictions, or has got one."""
        with self._lock:
            self._expected.pop(pod, None)
            self._expected[pod] = _ExpectedPod(self._clock() + _EXPECTED_SECONDS)

    def claim(self, most: int) -> int:
        """Claim the storage of expected pods on their nodes, and return the number of these pods.

        At most ``most`` pods are read, those first that have not been read yet. A pod that cannot be read is logged,
        and read again later.
        """
        claimed, failures = 0, 0
        for _ in range(most):
            if failures == _MAX_FAILURES or not self._reading.acquire(timeout=_WAIT_SECONDS):
                break
            try:
                due = self._next_due()
                if due is None:
                    break
                name, expected = due
                try:
                    claimed += self._claim_for(name, expected)
                except errors.Unavailable as error:
                    failures += 1
                    LOG.warning("Pod %s: its storage cannot be claimed for evictions now: %s", name, error.message)
            finally:
                self._reading.release()
        return claimed

    def _next_due(self) -> tuple[str, _ExpectedPod] | None:
        """Return the pod to read next, and record that it is read now; None if no pod is due."""
        with self._lock:
            now = self._clock()
            self._expected = {name: expected for name, expected in self._expected.items() if expected.until > now}
            due = [
                (name, expected)
                for name, expected in reversed(self._expected.items())
                if expected.read_at is None or now - expected.read_at >= _PAUSE_SECONDS
            ]
            if not due:
                return None
            name, expected = min(due, key=lambda pair: -1.0 if pair[1].read_at is None else pair[1].read_at)
            expected.read_at = now
            return name, expected

    def _claim_for(self, name: str, expected: _ExpectedPod) -> bool:
        namespace, _, pod_name = name.partition("/")
        pod = self._cluster.pod(namespace, pod_name)
        if pod is not None and not pod.spec.node_name and pod.nominated_node is None:
            return False
        claimed = pod is not None and not pod.spec.node_name and self._claim_on_node(pod)
        with self._lock:
            # It may have been expected again meanwhile.
            if self._expected.get(name) is expected:
                del self._expected[name]
        return claimed

    def _claim_on_node(self, pod: Pod) -> bool:
        try:
            volumes = pod_volumes.unprovisioned(pod, self._cluster)
        except errors.NotFound:
            return False
        return claim_on_nominated_node(pod, volumes, self._queries, self._cluster, self._lease)
