# SPDX-License-Identifier: Apache-2.0
"""The extender with a real kube-scheduler and a real API server. The provisioner is simulated."""

import contextlib
import functools
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.kubernetes import installation, manifests
from tests.kubernetes.cluster import SCHEDULER, SELECTED_NODE, Cluster, wait_until
from tests.kubernetes.installation import EXTENDER, Installation
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.provisioner import Provisioner

pytestmark = pytest.mark.kubernetes


@contextlib.contextmanager
def scheduler_without_reservations(kubelet: Kubelet, cluster: Cluster) -> Iterator[str]:
    """Run an extender without reservations, and without the rights for them, and a kube-scheduler that asks it.

    The scheduler has the address of the extender in ``urlPrefix``, as that of a host does; yield its name.
    """
    metadata = {"name": "without-reservations", "namespace": manifests.NAMESPACE}
    [binding] = [
        each for each, _ in manifests.granted(manifests.EXTENDER) if each["metadata"]["name"] == manifests.EXTENDER
    ]
    cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {**binding, "metadata": {"name": metadata["name"]}, "subjects": [{"kind": "ServiceAccount", **metadata}]},
    )
    [data] = [each["data"] for each in manifests.load("configuration.yaml")]
    changed = {name: text.replace("extender_reserves = true", "") for name, text in data.items()}
    pod = kubelet.run(EXTENDER, {"tonnage": changed}, account=metadata["name"])
    pod.wait_until_ready()
    [extender] = manifests.scheduler_configuration()["extenders"]
    there = {**extender, "urlPrefix": extender["urlPrefix"].replace(extender["tlsConfig"]["serverName"], pod.address)}
    with installation.scheduler(kubelet, extenders=[there]) as name:
        yield name
    installation.end(pod)
    client.RbacAuthorizationV1Api(cluster.api).delete_cluster_role_binding(metadata["name"])
    cluster.core.delete_namespaced_service_account(metadata["name"], manifests.NAMESPACE)


@pytest.fixture(params=["reservations", "none"])
def scheduler(
    request: pytest.FixtureRequest, kubelet: Kubelet, cluster: Cluster, tonnage: Installation
) -> Iterator[str]:
    """A kube-scheduler with an extender with or without reservations."""
    if request.param == "reservations":
        yield SCHEDULER
        return
    with scheduler_without_reservations(kubelet, cluster) as name:
        yield name


@pytest.fixture(params=["names", "nodes"])
def sender(request: pytest.FixtureRequest, kubelet: Kubelet, tonnage: Installation) -> Iterator[str]:
    """A kube-scheduler that sends names of nodes, or whole nodes."""
    if request.param == "names":
        yield SCHEDULER
        return
    [extender] = manifests.scheduler_configuration()["extenders"]
    with installation.scheduler(kubelet, extenders=[{**extender, "nodeCacheCapable": False}]) as name:
        yield name


def test_a_pod_waits_until_its_claims_fit_together(cluster: Cluster, tonnage: Installation) -> None:
    cluster.add_nodes("n1")
    provisioner = Provisioner(cluster, n1="13Gi")
    tonnage.set_capacities(n1="10Gi")
    cluster.add_pod("pod", a="6Gi", b="6Gi")
    reason = "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool n1 has 10Gi left"
    wait_until(lambda: cluster.is_refused("pod", f"0/1 nodes are available: 1 {reason}."), "the reason")
    assert cluster.node_of("pod") is None
    assert not any(SELECTED_NODE in (claim.metadata.annotations or {}) for claim in cluster.claims().values())

    tonnage.set_capacities(n1="13Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("pod") == "n1"

    # kube-scheduler gets no event. Twice a minute it retries pods that have waited for a minute.
    wait_until(bound, "the pod is bound")
    assert {name: claim.status.phase for name, claim in cluster.claims().items()} == {"a": "Bound", "b": "Bound"}


def test_a_pod_goes_where_its_volumes_fit_together(cluster: Cluster, tonnage: Installation, scheduler: str) -> None:
    cluster.add_nodes("n1", "n2", "n3")
    provisioner = Provisioner(cluster, n1="9Gi", n2="10Gi", n3="9Gi")
    tonnage.set_capacities(n1="9Gi", n2="10Gi", n3="9Gi")
    cluster.add_pod("pod", scheduler, a="6Gi", b="4Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("pod") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("pod"), provisioner.free["n2"]) == ("n2", 0)
    # A pod without volumes needs no capacity.
    tonnage.set_capacities(n1="0", n2="0", n3="0")
    cluster.add_pod("without", scheduler)
    wait_until(lambda: cluster.node_of("without") is not None, "the pod without volumes is bound")


def test_simultaneous_pods_do_not_get_the_same_space(cluster: Cluster, tonnage: Installation, sender: str) -> None:
    cluster.add_nodes("n1", "n2")
    provisioner = Provisioner(cluster, n1="10Gi", n2="10Gi")
    tonnage.set_capacities(n1="10Gi", n2="10Gi")
    pods = ["p1", "p2", "p3"]
    for pod in pods:
        cluster.add_pod(pod, sender, **{f"of-{pod}": "6Gi"})

    def waiting() -> list[str]:
        provisioner.run_once()
        return [pod for pod in pods if cluster.node_of(pod) is None]

    wait_until(lambda: len(waiting()) == 1, "two pods are bound")
    [left] = waiting()
    for node in ("n1", "n2"):
        reason = f"volume 'of-{left}' of 6Gi (storage class 'fast'): pool {node} has 4Gi left of 10Gi"
        wait_until(functools.partial(cluster.is_refused, left, reason), f"the reason for {node}")
    assert {cluster.node_of(pod) for pod in pods} == {"n1", "n2", None}
    # The driver had room for both volumes, and was not asked for a third.
    assert (set(provisioner.free.values()), provisioner.refused) == ({4 * 2**30}, 0)
    assert SELECTED_NODE not in (cluster.claims()[f"of-{left}"].metadata.annotations or {})


def test_pods_go_on_while_extenders_are_replaced_and_killed(cluster: Cluster, tonnage: Installation) -> None:
    cluster.add_nodes("n1", "n2")
    provisioner = Provisioner(cluster, n1="10Gi", n2="10Gi")
    tonnage.set_capacities(n1="10Gi", n2="10Gi")

    def bound(pod: str) -> bool:
        provisioner.run_once()
        return cluster.node_of(pod) is not None

    cluster.add_pod("first", a="6Gi")
    wait_until(functools.partial(bound, "first"), "a pod is bound with both extenders")
    tonnage.replace_extender()
    tonnage.extenders[0].kill()
    # The other extender, which is new, knows the claims of the first one.
    cluster.add_pod("second", b="6Gi")
    wait_until(functools.partial(bound, "second"), "a pod is bound with one extender")
    assert {cluster.node_of("first"), cluster.node_of("second")} == {"n1", "n2"}
    cluster.add_pod("third", c="6Gi")
    reason = "volume 'c' of 6Gi (storage class 'fast'): pool n1 has 4Gi left of 10Gi"
    wait_until(functools.partial(cluster.is_refused, "third", reason), "a pod without room is refused")
    assert (cluster.node_of("third"), provisioner.refused) == (None, 0)
    tonnage.extenders[0].start()
    tonnage.extenders[0].wait_until_ready()


def test_only_probes_are_answered_without_a_certificate(tonnage: Installation) -> None:
    for pod in tonnage.extenders:
        assert pod.request("POST", "/k8s/filter", "extender", "HTTPS") == 403
        assert pod.probe("readinessProbe")
