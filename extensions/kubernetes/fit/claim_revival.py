# SPDX-License-Identifier: Apache-2.0
"""Revival of claims whose leases ended while no extender could renew them, before anything is claimed again.

A volume that is being created goes on without an extender. Its claim ends with the lease, and its room would be
promised again. So a process revives such claims before its first decision, and after each time in which it could not
renew claims: from its expired rows, and from the pods that wait for volumes on a selected node. Pods for which others
are evicted get their claims again too (:mod:`tonnage.extensions.kubernetes.fit.preemption`).
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Protocol

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import pod_volumes
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.objects import Pod
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterObjects, ClusterUnavailable
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, preemption
from tonnage.extensions.kubernetes.fit.claim_release import ClaimReleaser, PodLookup
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Seconds for which a caller waits for the revival of another one. kube-scheduler waits for an extender for five.
_WAIT_SECONDS = 4.0


class PendingPods(ClusterObjects, PodLookup, Protocol):
    """The objects of a cluster, with its pending pods."""

    def pending_pods(self) -> Sequence[Pod]:
        """Return the pods that have not started.

        Raises :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
        """


class ClaimRevival:
    """Revives claims when that is due. Thread-safe. ``lease`` is the number of seconds of a claim."""

    def __init__(
        self,
        database: Database,
        queries: NodeQueries,
        cluster: PendingPods,
        lease: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._queries, self._cluster = database, queries, cluster
        self._lease, self._clock = lease, clock
        self._releaser = ClaimReleaser(database, cluster, lease)
        self._lock = threading.Lock()
        #: When this process has last looked after all claims.
        self._kept_at: float | None = None
        #: The revival that goes on.
        self._revival: futures.Future[None] | None = None

    def kept(self) -> None:
        """Record that the claims of all pods have just been renewed where they have to be.

        After a pause in which they may have ended, this is too late for them.
        """
        with self._lock:
            now = self._clock()
            if self._kept_at is not None and now - self._kept_at < self._lease / 2:
                self._kept_at = now

    def ensure(self) -> None:
        """Revive claims, if claims may have ended because this process could not renew them.

        Of several callers one does this, and the others wait for it. Raises
        :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read, or if it takes long.
        """
        with self._lock:
            began = self._clock()
            if self._kept_at is not None and began - self._kept_at < self._lease / 2:
                return
            is_first = self._revival is None
            revival = self._revival = self._revival or futures.Future()
        if not is_first:
            self._wait_for(revival)
            return
        try:
            revived = self._releaser.revive() + sum(map(self._claim_again, self._cluster.pending_pods()))
        except BaseException as error:
            with self._lock:
                self._revival = None
            revival.set_exception(error)
            raise
        with self._lock:
            self._revival, self._kept_at = None, began
        revival.set_result(None)
        if revived:
            LOG.info("Revived %d claim(s) for volumes that are being created", revived)

    @staticmethod
    def _wait_for(revival: "futures.Future[None]") -> None:
        try:
            revival.result(_WAIT_SECONDS)
        except futures.TimeoutError:
            raise ClusterUnavailable("the volumes that are being created are still being read; try again") from None

    def _claim_again(self, pod: Pod) -> int:
        """Claim room for the volumes of a pod that are being created and have no claim, and return their number."""
        with self._database.reading() as session:
            held = {claim.volume for claim in capacity_claims.list_for_holder(session, pod.holder)}
        try:
            volumes = pod_volumes.unprovisioned(pod, self._cluster)
        except errors.NotFound:
            return 0
        preemption.claim_on_nominated_node(pod, volumes, self._queries, self._cluster, self._lease)
        by_node: dict[str, list[Volume]] = {}
        for volume in volumes:
            if volume.selected_node is not None and volume.name not in held:
                by_node.setdefault(volume.selected_node, []).append(volume)
        return sum(self._claim_on(node, of_node, pod) for node, of_node in by_node.items())

    def _claim_on(self, node: str, volumes: Sequence[Volume], pod: Pod) -> int:
        nodes = Nodes([Node(node, self._cluster.node_labels([node]).get(node, {}))])
        _, node_claim = self._queries.claim(volumes, nodes, pod.holder, self._lease, pod=pod.full_name)
        if node_claim is None:
            LOG.warning("Pod %s: its volumes are being created on %s, where there is no room", pod.full_name, node)
            return 0
        return len(node_claim.placements)
