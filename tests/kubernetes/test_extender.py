# SPDX-License-Identifier: Apache-2.0
"""The extender with a real kube-scheduler and a real API server. The provisioner is simulated."""

import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.kubernetes import manifests, servers, tonnage
from tests.kubernetes.cluster import SELECTED_NODE, Cluster, wait_until
from tests.kubernetes.provisioner import Provisioner
from tests.kubernetes.servers import ApiServer, KubeScheduler
from tests.kubernetes.tonnage import Tonnage

pytestmark = pytest.mark.kubernetes

#: Starts Tonnage and a kube-scheduler that uses it.
Start: TypeAlias = Callable[..., Tonnage]


@pytest.fixture
def start(api_server: ApiServer, cluster: Cluster) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def start_scheduler(*, reserves: bool = False, names_only: bool = True) -> Tonnage:
            without = () if reserves else (manifests.RESERVES,)
            cluster.grant(servers.EXTENDER, manifests.EXTENDER, without=without)
            kubeconfig = api_server.kubeconfig(servers.EXTENDER)
            one = stack.enter_context(tonnage.run(kubeconfig, reserves=reserves))
            kubeconfig = api_server.kubeconfig(servers.SCHEDULER)
            stack.enter_context(KubeScheduler(kubeconfig, one.extender, names_only=names_only))
            return one

        yield start_scheduler


def test_a_pod_waits_until_its_claims_fit_together(cluster: Cluster, start: Start) -> None:
    cluster.add_nodes("n1")
    deployment, provisioner = start(), Provisioner(cluster, n1="13Gi")
    deployment.set_capacities(n1="10Gi")
    cluster.add_pod("pod", a="6Gi", b="6Gi")
    reason = "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool n1 has 10Gi left"
    wait_until(lambda: cluster.is_refused("pod", f"0/1 nodes are available: 1 {reason}."), "the reason")
    assert cluster.node_of("pod") is None
    assert not any(SELECTED_NODE in (claim.metadata.annotations or {}) for claim in cluster.claims().values())

    deployment.set_capacities(n1="13Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("pod") == "n1"

    # kube-scheduler gets no event. Twice a minute it retries pods that have waited for a minute.
    wait_until(bound, "the pod is bound")
    assert {name: claim.status.phase for name, claim in cluster.claims().items()} == {"a": "Bound", "b": "Bound"}


def test_a_pod_goes_where_its_volumes_fit_together(cluster: Cluster, start: Start) -> None:
    cluster.add_nodes("n1", "n2", "n3")
    deployment, provisioner = start(), Provisioner(cluster, n1="9Gi", n2="10Gi", n3="9Gi")
    deployment.set_capacities(n1="9Gi", n2="10Gi", n3="9Gi")
    cluster.add_pod("pod", a="6Gi", b="4Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("pod") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("pod"), provisioner.free["n2"]) == ("n2", 0)
    # A pod without volumes needs no capacity.
    deployment.set_capacities(n1="0", n2="0", n3="0")
    cluster.add_pod("without")
    wait_until(lambda: cluster.node_of("without") is not None, "the pod without volumes is bound")


@pytest.mark.parametrize("names_only", [True, False], ids=["names", "nodes"])
def test_simultaneous_pods_do_not_get_the_same_space(cluster: Cluster, start: Start, names_only: bool) -> None:
    cluster.add_nodes("n1", "n2")
    deployment, provisioner = start(reserves=True, names_only=names_only), Provisioner(cluster, n1="10Gi", n2="10Gi")
    deployment.set_capacities(n1="10Gi", n2="10Gi")
    pods = ["p1", "p2", "p3"]
    for pod in pods:
        cluster.add_pod(pod, **{f"of-{pod}": "6Gi"})

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


def test_pods_go_on_when_one_of_two_extenders_is_killed(api_server: ApiServer, cluster: Cluster) -> None:
    cluster.grant(servers.EXTENDER, manifests.EXTENDER)
    cluster.add_nodes("n1", "n2")
    kubeconfig = api_server.kubeconfig(servers.EXTENDER)
    with tonnage.run_extenders(kubeconfig, 2) as (deployment, extenders):
        provisioner = Provisioner(cluster, n1="10Gi", n2="10Gi")
        deployment.set_capacities(n1="10Gi", n2="10Gi")

        def bound(pod: str) -> bool:
            provisioner.run_once()
            return cluster.node_of(pod) is not None

        with KubeScheduler(api_server.kubeconfig(servers.SCHEDULER), deployment.extender):
            cluster.add_pod("first", a="6Gi")
            wait_until(functools.partial(bound, "first"), "a pod is bound with both extenders")
            extenders[0].send(signal.SIGKILL)
            # The other extender knows the claims of the first one.
            cluster.add_pod("second", b="6Gi")
            wait_until(functools.partial(bound, "second"), "a pod is bound with one extender")
            assert {cluster.node_of("first"), cluster.node_of("second")} == {"n1", "n2"}
            cluster.add_pod("third", c="6Gi")
            reason = "volume 'c' of 6Gi (storage class 'fast'): pool n1 has 4Gi left of 10Gi"
            wait_until(functools.partial(cluster.is_refused, "third", reason), "a pod without room is refused")
            assert (cluster.node_of("third"), provisioner.refused) == (None, 0)
