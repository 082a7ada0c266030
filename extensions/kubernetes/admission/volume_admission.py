# SPDX-License-Identifier: Apache-2.0
"""Admission of the nodes that volumes are made for: claims for pods of kube-schedulers that do not ask the extender.

kube-scheduler writes the node of its choice into each claim of a pod (``volume.kubernetes.io/selected-node``), and the
provisioner makes the volumes when it sees that. The API server asks this admission in between. If the node takes all
volumes of the pod together, their capacity is claimed; otherwise the change is refused before any volume is made, and
kube-scheduler tries the pod again.

Whoever reaches the port can send such a call. So the claims of the cluster are read, and a pod with a volume that is
being made keeps its claims on that node, whatever the call says.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects, pod_volumes
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.objects import PersistentVolumeClaim, Pod
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterObjects
from tonnage.extensions.kubernetes.fit import extender_instruments
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalReasons

LOG = logging.getLogger(__name__)


class PodsOfClaims(ClusterObjects, Protocol):
    """The objects of a cluster, with the pods that wait for a claim."""

    def pods_with_claim(self, namespace: str, claim: str) -> Sequence[Pod]:
        """Return the pods that have not started and use a claim.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """


class AdmissionRequest(Struct, rename="camel"):
    """A change of a claim: the claim as it would be, and as it is."""

    uid: str
    object: PersistentVolumeClaim | None = None
    old_object: PersistentVolumeClaim | None = None
    dry_run: bool = False


class AdmissionReview(Struct, rename="camel"):
    """The call of the API server, ``AdmissionReview`` of version 1."""

    api_version: str
    request: AdmissionRequest


class Status(Struct):
    """The message for a refusal, which becomes the error of the change."""

    message: str


class AdmissionResponse(Struct, omit_defaults=True):
    """Whether the change is allowed."""

    uid: str
    allowed: bool
    status: Status | None = None


class AnsweredReview(Struct, rename="camel"):
    """The answer to the API server."""

    api_version: str
    response: AdmissionResponse
    kind: str = "AdmissionReview"


class VolumeAdmission:
    """Decides on changes of claims. ``lease`` is the number of seconds of a claim on capacity. Thread-safe.

    ``before_claims`` is called before, and may raise :class:`~tonnage.capacity.errors.Unavailable`. A dry run calls and
    writes nothing.
    """

    def __init__(
        self, queries: NodeQueries, cluster: PodsOfClaims, lease: float, before_claims: Callable[[], None]
    ) -> None:
        self._queries, self._cluster, self._lease = queries, cluster, lease
        self._before_claims = before_claims

    def review(self, raw: bytes) -> AnsweredReview:
        """Return whether the node that a claim has got takes all volumes of its pod.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a malformed request or one that is no update,
        :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Unavailable` if it cannot be
        decided.
        """
        review = objects.decode(raw, AdmissionReview)
        request = review.request
        refusal = self._refusal(request)
        status = None if refusal is None else Status(refusal)
        return AnsweredReview(review.api_version, AdmissionResponse(request.uid, refusal is None, status))

    def _refusal(self, request: AdmissionRequest) -> str | None:
        """Return the reason for which a change is refused, None if it is allowed."""
        claim, before = request.object, request.old_object
        if claim is None or claim.selected_node is None or claim.spec.volume_name:
            return None
        if before is None:
            raise errors.InvalidInput(
                "request.oldObject is missing: let the webhook's rule name the operation UPDATE alone"
            )
        if before.selected_node == claim.selected_node:
            return None
        namespace, name = claim.metadata.namespace, claim.metadata.name
        pods = self._cluster.pods_with_claim(namespace, name)
        if not pods:
            LOG.info("Claim %s/%s: no pod waits for it, so its volume is made without a look at room", namespace, name)
            return None
        # kube-scheduler does not tell which of several pods it places. All wait for this volume on one node.
        pod = min(pods, key=lambda waiting: (waiting.metadata.creation_timestamp or "", waiting.metadata.name))
        if not request.dry_run:
            self._before_claims()
            if self._queries.holds(pod.holder, name, claim.selected_node):
                return None
        refusal = self._claim(pod, claim.selected_node, request.dry_run)
        if not request.dry_run:
            extender_instruments.ADMISSIONS.labels("allowed" if refusal is None else "refused").inc()
        if refusal is None:
            return None
        LOG.info("Pod %s: its volumes are not made on %s: %s", pod.full_name, claim.selected_node, refusal)
        return f"node {claim.selected_node} does not take the volumes of pod {pod.full_name}: {refusal}"

    def _claim(self, pod: Pod, node: str, dry_run: bool) -> str | None:
        """Claim the capacity for all volumes of a pod on a node, and return the reason if there is none."""
        volumes = pod_volumes.unprovisioned(pod, self._cluster)
        for volume in volumes:
            if volume.selected_node not in (None, node):
                return f"volume '{volume.name}' is being made for node {volume.selected_node}"
        nodes = Nodes([Node(node, self._cluster.node_labels([node]).get(node, {}))])
        if dry_run:
            decision = self._queries.decide(volumes, nodes, pod.holder)
        else:
            decision, _ = self._queries.claim(volumes, nodes, pod.holder, self._lease, pod=pod.full_name)
        return None if decision.packing.fits[0] else RefusalReasons(decision).reason(0).message
