# SPDX-License-Identifier: Apache-2.0
"""What tonnage-publisher writes: a real kube-apiserver takes it, and a real kube-scheduler goes by it."""

import datetime
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.kubernetes import servers, tonnage
from tests.kubernetes.cluster import CLASS, HOSTNAME, NAMESPACE, Cluster, until
from tests.kubernetes.provisioner import Provisioner
from tests.kubernetes.servers import ApiServer, KubeScheduler
from tests.kubernetes.tonnage import Tonnage

pytestmark = pytest.mark.kubernetes

#: What kube-scheduler says by itself.
NO_ROOM = "node(s) did not have enough free storage"

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def told(api_server: ApiServer, cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[Tonnage]:
    # What the documentation says is enough.
    cluster.allow(
        servers.PUBLISHER,
        ("", "nodes", "list"),
        ("storage.k8s.io", "storageclasses", "list"),
        ("storage.k8s.io", "csistoragecapacities", "*"),
    )
    kubeconfig = api_server.kubeconfig(servers.PUBLISHER)
    with tonnage.running(tmp_path, kubeconfig) as one, tonnage.publishing(tmp_path, kubeconfig):
        yield one


def published(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the objects that there are, of the one version that Kubernetes 1.20 has of them."""
    found: list[dict[str, Any]] = client.CustomObjectsApi(cluster.api).list_namespaced_custom_object(
        "storage.k8s.io", "v1alpha1", NAMESPACE, "csistoragecapacities"
    )["items"]
    return sorted(found, key=lambda each: str(each["nodeTopology"]))


def pool(name: str, capacity: str, *expressions: tuple[str, str, *tuple[str, ...]], **more: Any) -> dict[str, Any]:
    """Return a pool as a driver's writer sends it, reached by nodes that match all expressions, if there are any."""
    asked = [{"key": key, "operator": how, "values": list(values)} for key, how, *values in expressions]
    topology = {"nodeSelectorTerms": [{"matchExpressions": asked}]} if asked else None
    return {"name": name, "capacity": capacity, "nodeTopology": topology, **more}


def test_what_is_published_is_taken_and_only_what_is_new_is_written(cluster: Cluster, told: Tonnage) -> None:
    def tell(*pools: dict[str, Any]) -> None:
        told.patch({"status": {"storage": [{"storageClassName": CLASS, "pools": list(pools)}]}})

    def capacities() -> list[str]:
        return [each["capacity"] for each in published(cluster)]

    cluster.add_nodes("n1", "n2")
    tell(
        pool("everywhere", "1.5Gi"),
        pool("zone", "2Gi", (ZONE, "In", "a", "b"), ("disks", "Exists")),
        pool("elsewhere", "3Gi", (ZONE, "NotIn", "a"), ("old", "DoesNotExist")),
        pool("many", "4Gi", ("disks", "Gt", "3")),
        pool("local", "5Gi", nodeList=["n1", "n2"], maximumVolumeSize="2Gi"),
    )
    until(lambda: len(published(cluster)) >= 4, "the objects are there")
    for each in published(cluster):
        assert each["storageClassName"] == CLASS
    topologies = [each["nodeTopology"].get("matchExpressions", []) for each in published(cluster)]
    assert sorted(topologies, key=str) == sorted(
        [
            [],
            [{"key": ZONE, "operator": "In", "values": ["a", "b"]}, {"key": "disks", "operator": "Exists"}],
            [{"key": ZONE, "operator": "NotIn", "values": ["a"]}, {"key": "old", "operator": "DoesNotExist"}],
            [{"key": HOSTNAME, "operator": "In", "values": ["n1", "n2"]}],
        ],
        key=str,
    )
    # This version knows no largest volume, and takes a volume that is no larger than the capacity.
    assert sorted(capacities()) == ["1536Mi", "2Gi", "2Gi", "3Gi"]

    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in published(cluster)}
    tell(pool("everywhere", "6Gi"))
    until(lambda: "6Gi" in capacities(), "what is new is written")
    after = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in published(cluster)}
    assert before.keys() == after.keys()
    assert len(before.items() - after.items()) == 1

    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    tell(pool("everywhere", "6Gi", expiryTime=soon.isoformat()))
    until(lambda: "6Gi" not in capacities(), "what has expired is deleted")
    told.patch({"spec": {"capacityTracking": False}})
    until(lambda: not published(cluster), "what is not tracked is deleted")


def test_by_itself_kube_scheduler_looks_at_each_claim_alone(
    api_server: ApiServer, cluster: Cluster, told: Tonnage
) -> None:
    """What Tonnage's extender is for: see what becomes of two claims of 6 Gi where there are 10."""
    cluster.add_driver()
    cluster.add_nodes("n1")
    made = Provisioner(cluster, n1="10Gi")
    told.tell(n1="10Gi")
    until(lambda: len(published(cluster)) == 1, "it is published")
    with KubeScheduler(api_server.kubeconfig(servers.SCHEDULER)):
        cluster.add_pod("large", c="11Gi")
        until(lambda: cluster.refused("large", NO_ROOM), "one that is too large is refused")

        cluster.add_pod("pod", a="6Gi", b="6Gi")

        def tried() -> bool:
            made.work()
            told.tell(n1=str(made.free["n1"]))
            return cluster.refused("pod", NO_ROOM)

        until(tried, "there is no room for the other volume")
        # The one that was made keeps the pod on this node.
        phases = {name: claim.status.phase for name, claim in cluster.claims().items() if name != "c"}
        assert sorted(phases.values()) == ["Bound", "Pending"]
        assert (cluster.node_of("pod"), made.refused > 0) == (None, True)
