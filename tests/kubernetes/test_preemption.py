# SPDX-License-Identifier: Apache-2.0
"""Evictions for pods of a high priority, with a real kube-scheduler: nobody has to go for nothing.

kube-scheduler 1.20.2 as it is asks no extender about evictions, so most tests use one with the fix of 1.20.10. With the
other one the pods whose volumes need room have a class that never preempts.
"""

import time
from collections.abc import Iterator

import pytest

from tests.kubernetes import images, installation, manifests
from tests.kubernetes.cluster import NAMESPACE, Cluster, wait_until
from tests.kubernetes.installation import Installation
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.provisioner import Provisioner

pytestmark = pytest.mark.kubernetes

NODES = ["n1", "n2", "n3"]

#: Seconds in which kube-scheduler tries a pod several times: it waits for 1, 2, 4 and 8 seconds.
_PATIENCE = 15.0


@pytest.fixture(params=["names", "nodes"])
def scheduler(
    request: pytest.FixtureRequest, kubelet: Kubelet, cluster: Cluster, tonnage: Installation
) -> Iterator[str]:
    """A kube-scheduler that sends uids of victims, or whole pods; it still runs at the end."""
    [extender] = manifests.scheduler_configuration()["extenders"]
    cluster.add_priority("low", 10)
    cluster.add_priority("high", 1000)
    is_capable = request.param == "names"
    extenders = [{**extender, "nodeCacheCapable": is_capable}]
    with installation.scheduler(kubelet, images.FIXED_SCHEDULER, extenders=extenders) as name:
        yield name
        still_decides(cluster, name, "high")


@pytest.fixture
def unfixed_scheduler(kubelet: Kubelet, cluster: Cluster, tonnage: Installation) -> Iterator[str]:
    """kube-scheduler 1.20.2 as it is; it still runs at the end."""
    cluster.add_priority("low", 10)
    cluster.add_priority("high", 1000, "Never")
    with installation.scheduler(kubelet) as name:
        yield name
        still_decides(cluster, name, "high")


def still_decides(cluster: Cluster, scheduler: str, priority: str) -> None:
    """Wait until a kube-scheduler has placed one more pod: it has not ended by a panic."""
    cluster.add_pod("last", scheduler, priority=priority)
    wait_until(lambda: cluster.node_of("last") is not None, "the last pod is bound")


def fill(cluster: Cluster, scheduler: str, *nodes: str, cpu: str, grace_seconds: int = 0) -> set[str]:
    """Fill nodes of 2 processors with two pods of a low priority, which request ``cpu`` each; return their names."""
    cluster.add_nodes(*nodes, cpu="2")
    names = {f"low-{number}" for number in range(2 * len(nodes))}
    for name in sorted(names):
        cluster.add_pod(name, scheduler, priority="low", cpu=cpu, grace_seconds=grace_seconds)
    wait_until(lambda: all(map(cluster.node_of, names)), "the nodes are full")
    return names


def tried_for_a_while(cluster: Cluster, pod: str) -> None:
    """Wait until kube-scheduler has tried a pod several times, and make it try by changes of the cluster."""
    wait_until(lambda: cluster.scheduling_failures(pod), "the pod is refused")
    ends = time.monotonic() + _PATIENCE
    number = 0
    while time.monotonic() < ends:
        cluster.core.patch_node("n1", {"metadata": {"labels": {"turn": str(number)}}})
        number += 1
        time.sleep(1)


@pytest.mark.parametrize("cpu", ["1", "100m"])
def test_nobody_is_evicted_for_volumes_that_fit_nowhere(
    cluster: Cluster, tonnage: Installation, scheduler: str, cpu: str
) -> None:
    """On full nodes, and on nodes with free processors, where kube-scheduler 1.20 would end by a panic."""
    lower = fill(cluster, scheduler, *NODES, cpu=cpu)
    tonnage.set_capacities(**dict.fromkeys(NODES, "1Gi"))
    cluster.add_pod("high", scheduler, priority="high", cpu="1", data="6Gi")
    tried_for_a_while(cluster, "high")
    assert (cluster.pods(), cluster.node_of("high")) == ({*lower, "high"}, None)


@pytest.mark.parametrize("cpu", ["1", "100m"])
def test_nobody_is_evicted_for_a_class_that_never_preempts(
    cluster: Cluster, tonnage: Installation, unfixed_scheduler: str, cpu: str
) -> None:
    lower = fill(cluster, unfixed_scheduler, *NODES, cpu=cpu)
    tonnage.set_capacities(**dict.fromkeys(NODES, "1Gi"))
    cluster.add_pod("high", unfixed_scheduler, priority="high", cpu="1", data="6Gi")
    tried_for_a_while(cluster, "high")
    assert (cluster.pods(), cluster.node_of("high")) == ({*lower, "high"}, None)
    # It is placed without an eviction.
    cluster.add_nodes("n4", cpu="2")
    provisioner = Provisioner(cluster, n4="10Gi")
    tonnage.set_capacities(n4="10Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("high") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("high"), cluster.pods()) == ("n4", {*lower, "high"})


def test_nobody_is_evicted_for_volumes_that_fit_only_one_by_one(
    cluster: Cluster, tonnage: Installation, scheduler: str
) -> None:
    lower = fill(cluster, scheduler, *NODES, cpu="1")
    tonnage.set_capacities(**dict.fromkeys(NODES, "10Gi"))
    cluster.add_pod("high", scheduler, priority="high", cpu="1", a="6Gi", b="6Gi")
    tried_for_a_while(cluster, "high")
    assert (cluster.pods(), cluster.node_of("high")) == ({*lower, "high"}, None)


def test_one_pod_is_evicted_where_the_volumes_fit(cluster: Cluster, tonnage: Installation, scheduler: str) -> None:
    lower = fill(cluster, scheduler, *NODES, cpu="1")
    provisioner = Provisioner(cluster, n1="1Gi", n2="10Gi", n3="1Gi")
    tonnage.set_capacities(n1="1Gi", n2="10Gi", n3="1Gi")
    on_n2 = {name for name in lower if cluster.node_of(name) == "n2"}
    cluster.add_pod("high", scheduler, priority="high", cpu="1", data="6Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("high") is not None

    wait_until(bound, "the pod is bound")
    [evicted] = lower - cluster.pods()
    assert (cluster.node_of("high"), evicted in on_n2, provisioner.refused) == ("n2", True, 0)


def test_nobody_is_evicted_if_another_node_has_room(cluster: Cluster, tonnage: Installation, scheduler: str) -> None:
    lower = fill(cluster, scheduler, *NODES, cpu="1")
    cluster.add_nodes("n4", cpu="2")
    provisioner = Provisioner(cluster, **dict.fromkeys([*NODES, "n4"], "10Gi"))
    tonnage.set_capacities(**dict.fromkeys([*NODES, "n4"], "10Gi"))
    cluster.add_pod("high", scheduler, priority="high", cpu="1", data="6Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("high") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("high"), cluster.pods()) == ("n4", {*lower, "high"})


def test_the_storage_waits_for_the_pod_until_its_victims_have_ended(
    cluster: Cluster, tonnage: Installation, scheduler: str
) -> None:
    """A later pod, which needs no processor, does not take the storage in the meantime."""
    lower = fill(cluster, scheduler, "n1", cpu="900m", grace_seconds=30)
    provisioner = Provisioner(cluster, n1="10Gi")
    tonnage.set_capacities(n1="10Gi")
    cluster.add_pod("high", scheduler, priority="high", cpu="1", data="6Gi")

    wait_until(cluster.victims, "a pod is being evicted")
    [victim] = cluster.victims()
    cluster.add_pod("late", scheduler, priority="low", more="6Gi")
    wait_until(lambda: cluster.is_refused("late", "pool n1 has 4Gi left of 10Gi"), "the later pod is refused")
    assert cluster.node_of("high") is None
    cluster.core.delete_namespaced_pod(victim, NAMESPACE, grace_period_seconds=0)

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("high") is not None

    wait_until(bound, "the pod is bound")
    assert (cluster.node_of("late"), provisioner.refused) == (None, 0)
    assert cluster.pods() == {*lower, "high", "late"} - {victim}
