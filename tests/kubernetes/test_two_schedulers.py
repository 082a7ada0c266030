# SPDX-License-Identifier: Apache-2.0
"""A kube-scheduler that does not ask the extender, beside the one that does, on the same storage."""

from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.kubernetes import images, installation, manifests, test_preemption
from tests.kubernetes.cluster import NAMESPACE, SELECTED_NODE, Cluster, wait_until
from tests.kubernetes.installation import PUBLISHER, Installation
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.provisioner import Provisioner
from tonnage.extensions.kubernetes.cluster import quantities

pytestmark = pytest.mark.kubernetes

#: The reason that kube-scheduler gives by itself.
_NO_ROOM = "node(s) did not have enough free storage"


@pytest.fixture
def tonnage(kubelet: Kubelet, tonnage: Installation) -> Iterator[Installation]:
    """The installation with a publisher of capacity less the claims in the place of the others."""
    [data] = [body["data"] for body in manifests.load("configuration.yaml")]
    option = "\npublisher_subtracts_claims = true\n"
    changed = {name: text.replace("[kubernetes]\n", f"[kubernetes]{option}") for name, text in data.items()}
    assert all(option in text for text in changed.values())
    count = len(tonnage.publishers)
    installation.end(*tonnage.publishers)
    tonnage.publishers = [kubelet.run(PUBLISHER, {"tonnage": changed})]
    tonnage.publishers[0].wait_until_ready()
    yield tonnage
    installation.end(*tonnage.publishers)
    tonnage.publishers = [kubelet.run(PUBLISHER) for _ in range(count)]
    for pod in tonnage.publishers:
        pod.wait_until_ready()


@pytest.fixture
def plain(kubelet: Kubelet, tonnage: Installation) -> Iterator[str]:
    """A kube-scheduler without extenders, by its name."""
    with installation.scheduler(kubelet, extenders=[]) as name:
        yield name


def published(cluster: Cluster) -> dict[str, int]:
    """Return the published capacity of each node."""
    objects = client.CustomObjectsApi(cluster.api).list_namespaced_custom_object(
        "storage.k8s.io", "v1alpha1", manifests.NAMESPACE, "csistoragecapacities"
    )["items"]
    return {
        body["nodeTopology"]["matchExpressions"][0]["values"][0]: quantities.parse(body["capacity"]) for body in objects
    }


def test_a_plain_scheduler_does_not_use_claimed_room(cluster: Cluster, tonnage: Installation, plain: str) -> None:
    cluster.add_driver()
    cluster.add_nodes("n1", "n2")
    provisioner = Provisioner(cluster, n1="10Gi", n2="10Gi")
    tonnage.set_capacities(n1="10Gi", n2="10Gi")
    gib = 2**30
    wait_until(lambda: published(cluster) == {"n1": 10 * gib, "n2": 10 * gib}, "the objects are there")

    def selected(claim: str) -> str | None:
        return (cluster.claims()[claim].metadata.annotations or {}).get(SELECTED_NODE)

    cluster.add_pod("ours", ours="6Gi")
    wait_until(lambda: selected("ours"), "the pod of Tonnage has a node")
    node = selected("ours")
    [other] = {"n1", "n2"} - {node}
    wait_until(lambda: published(cluster) == {node: 4 * gib, other: 10 * gib}, "its claim is published")

    cluster.add_pod("theirs", scheduler=plain, theirs="6Gi")
    wait_until(lambda: selected("theirs"), "the pod of the other scheduler has a node")
    assert selected("theirs") == other

    def bound() -> bool:
        provisioner.run_once()
        return all(cluster.node_of(name) for name in ("ours", "theirs"))

    wait_until(bound, "both are bound")
    tonnage.set_capacities(n1="4Gi", n2="4Gi")
    wait_until(lambda: max(published(cluster).values()) <= 4 * gib, "the new figures are published")
    cluster.add_pod("late", scheduler=plain, late="6Gi")
    wait_until(lambda: cluster.is_refused("late", _NO_ROOM), "the late pod waits")
    assert provisioner.refused == 0


@pytest.fixture
def preempting(kubelet: Kubelet, cluster: Cluster, tonnage: Installation) -> Iterator[str]:
    """A kube-scheduler with the extender that evicts pods, by its name."""
    cluster.add_priority("low", 10)
    cluster.add_priority("high", 1000)
    extenders = manifests.scheduler_configuration()["extenders"]
    with installation.scheduler(kubelet, images.FIXED_SCHEDULER, extenders=extenders) as name:
        yield name


def test_one_pod_is_evicted_though_kube_scheduler_sees_the_claim_of_its_successor(
    cluster: Cluster, tonnage: Installation, preempting: str
) -> None:
    """kube-scheduler compares the pod with the objects itself, and its own claim must not keep it from its node."""
    cluster.add_driver()
    lower = test_preemption.fill(cluster, preempting, "n1", "n2", cpu="1", grace_seconds=30)
    provisioner = Provisioner(cluster, n1="10Gi", n2="10Gi")
    tonnage.set_capacities(n1="10Gi", n2="10Gi")
    gib = 2**30
    wait_until(lambda: published(cluster) == {"n1": 10 * gib, "n2": 10 * gib}, "the objects are there")
    cluster.add_pod("high", preempting, priority="high", cpu="1", data="6Gi")

    wait_until(cluster.victims, "a pod is being evicted")
    [victim] = cluster.victims()
    node = cluster.node_of(victim)
    test_preemption.tried_for_a_while(cluster, "high")
    assert cluster.victims() == [victim]
    cluster.core.delete_namespaced_pod(victim, NAMESPACE, grace_period_seconds=0)

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("high") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("high"), provisioner.refused) == (node, 0)
    assert (cluster.pods(), cluster.victims()) == ({*lower, "high"} - {victim}, [])
    [other] = {"n1", "n2"} - {node}
    wait_until(lambda: published(cluster) == {node: 4 * gib, other: 10 * gib}, "its claim is published")
