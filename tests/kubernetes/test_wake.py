# SPDX-License-Identifier: Apache-2.0
"""Pods that wait for room or for a label, with a real kube-scheduler: how soon they go when it comes."""

import logging
import time
from collections.abc import Callable

import pytest

from tests.kubernetes.cluster import CLASS, NAMESPACE, Cluster, wait_until
from tests.kubernetes.installation import Installation
from tests.kubernetes.provisioner import Provisioner

LOG = logging.getLogger(__name__)

pytestmark = pytest.mark.kubernetes

#: Seconds after which kube-scheduler's back-off for a pod that it has tried a few times is over.
_BACKOFF = 12.0

#: Seconds from the room to the bound pod. By itself kube-scheduler tries a pod 60 to 90 seconds after the last time, so
#: this shows that the pod was woken also on a busy machine. The log has the figure.
_SOON = 40.0

#: Seconds from the room, as an extender knows it, to the wake of kube-scheduler, and from a label to an answer with it.
_WAKE_SECONDS, _LABEL_SECONDS = 3.0, 2.0


def bound(cluster: Cluster, provisioner: Provisioner, pod: str, wakes: set[float] | None = None) -> Callable[[], bool]:
    """Return whether a pod is bound. The times at which kube-scheduler was woken are added to ``wakes``."""

    def is_bound() -> bool:
        provisioner.run_once()
        if wakes is not None:
            wakes.add(cluster.woken_at())
        return cluster.node_of(pod) is not None

    return is_bound


def test_a_waiting_pod_goes_when_a_claim_is_released(cluster: Cluster, tonnage: Installation) -> None:
    cluster.add_nodes("n1")
    tonnage.set_capacities(n1="10Gi")
    provisioner = Provisioner(cluster, n1="10Gi")
    cluster.add_pod("first", a="6Gi")
    wait_until(bound(cluster, provisioner, "first"), "the first pod is bound")
    cluster.add_pod("second", b="6Gi")
    wait_until(lambda: cluster.is_refused("second", "pool n1 has 4Gi left of 10Gi"), "the second pod is refused")
    time.sleep(_BACKOFF)
    claim = cluster.claims()["a"]
    cluster.core.delete_namespaced_persistent_volume_claim("a", NAMESPACE)
    provisioner.remove(claim)
    cluster.core.delete_namespaced_pod("first", NAMESPACE)
    began, wakes = time.time(), set[float]()
    wait_until(bound(cluster, provisioner, "second", wakes), "the second pod is bound")
    took = time.time() - began
    released_at = tonnage.logged_at(f"Pod {NAMESPACE}/first: released", began - 1)
    to_wake = min(at for at in wakes if at >= released_at) - released_at
    LOG.info(
        "seconds from the release to the wake: %.1f; from the end of the pod to the bound pod: %.1f", to_wake, took
    )
    assert to_wake < _WAKE_SECONDS
    assert took < _SOON


def test_a_waiting_pod_goes_when_the_figures_grow(cluster: Cluster, tonnage: Installation) -> None:
    cluster.add_nodes("n1")
    tonnage.set_capacities(n1="5Gi")
    cluster.add_pod("pod", a="6Gi")
    wait_until(lambda: cluster.is_refused("pod", "pool n1 has 5Gi left"), "the pod is refused")
    time.sleep(_BACKOFF)
    began, wakes = time.time(), set[float]()
    tonnage.set_capacities(n1="6Gi")
    written_at = time.time()
    wait_until(bound(cluster, Provisioner(cluster, n1="6Gi"), "pod", wakes), "the pod is bound")
    took = time.time() - written_at
    to_wake = min(at for at in wakes if at >= began) - written_at
    LOG.info("seconds from the figures to the wake: %.1f; to the bound pod: %.1f", to_wake, took)
    assert to_wake < _WAKE_SECONDS
    assert took < _SOON


def test_a_label_that_comes_after_its_node_counts_at_once(cluster: Cluster, tonnage: Installation) -> None:
    cluster.add_nodes("n1")
    expression = {"key": "rack", "operator": "In", "values": ["r1"]}
    topology = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pools = [{"name": "r1", "nodeTopology": topology, "capacity": "10Gi"}]
    tonnage.patch({"status": {"storage": [{"storageClassName": CLASS, "pools": pools}]}})
    cluster.add_pod("pod", a="6Gi")
    wait_until(lambda: cluster.is_refused("pod", "no pool of disk.example.com"), "the pod is refused")
    time.sleep(_BACKOFF)
    cluster.core.patch_node("n1", {"metadata": {"labels": {"rack": "r1"}}})
    began = time.time()
    wait_until(bound(cluster, Provisioner(cluster, n1="10Gi"), "pod"), "the pod is bound")
    took = time.time() - began
    to_answer = tonnage.logged_at(f"Pod {NAMESPACE}/pod: 1 of 1 nodes", began) - began
    LOG.info("seconds from the label to the answer with it: %.1f; to the bound pod: %.1f", to_answer, took)
    assert to_answer < _LABEL_SECONDS
    assert took < _SOON
