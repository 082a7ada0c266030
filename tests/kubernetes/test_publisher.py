# SPDX-License-Identifier: Apache-2.0
"""tonnage-publisher with a real kube-apiserver and a real kube-scheduler."""

import datetime
from typing import Any

import pytest
from kubernetes import client

from tests.kubernetes import installation, manifests
from tests.kubernetes.cluster import CLASS, HOSTNAME, Cluster, wait_until
from tests.kubernetes.installation import Installation
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.provisioner import Provisioner

pytestmark = pytest.mark.kubernetes

#: The reason that kube-scheduler gives by itself.
NO_ROOM = "node(s) did not have enough free storage"

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def tonnage(tonnage: Installation, cluster: Cluster) -> Installation:
    wait_until(lambda: not published(cluster), "the objects of the last test are deleted")
    return tonnage


def published(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the published objects, in the only API version of Kubernetes 1.20."""
    found: list[dict[str, Any]] = client.CustomObjectsApi(cluster.api).list_namespaced_custom_object(
        "storage.k8s.io", "v1alpha1", manifests.NAMESPACE, "csistoragecapacities"
    )["items"]
    return sorted(found, key=lambda each: str(each["nodeTopology"]))


def pool(name: str, capacity: str, *expressions: tuple[str, str, *tuple[str, ...]], **more: Any) -> dict[str, Any]:
    """Return a pool as a driver's writer sends it, for nodes that match all expressions."""
    asked = [{"key": key, "operator": how, "values": list(values)} for key, how, *values in expressions]
    topology = {"nodeSelectorTerms": [{"matchExpressions": asked}]} if asked else None
    return {"name": name, "capacity": capacity, "nodeTopology": topology, **more}


def test_published_objects_are_accepted_and_only_changes_are_written(cluster: Cluster, tonnage: Installation) -> None:
    def set_pools(*pools: dict[str, Any]) -> None:
        tonnage.patch({"status": {"storage": [{"storageClassName": CLASS, "pools": list(pools)}]}})

    def capacities() -> list[str]:
        return [each["capacity"] for each in published(cluster)]

    cluster.add_nodes("n1", "n2")
    set_pools(
        pool("everywhere", "1.5Gi"),
        pool("zone", "2Gi", (ZONE, "In", "a", "b"), ("disks", "Exists")),
        pool("elsewhere", "3Gi", (ZONE, "NotIn", "a"), ("old", "DoesNotExist")),
        pool("many", "4Gi", ("disks", "Gt", "3")),
        pool("local", "5Gi", nodeList=["n1", "n2"], maximumVolumeSize="2Gi"),
    )
    wait_until(lambda: len(published(cluster)) >= 4, "the objects are there")
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
    # This API version has no largest volume; its capacity is the largest volume.
    assert sorted(capacities()) == ["1536Mi", "2Gi", "2Gi", "3Gi"]

    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in published(cluster)}
    set_pools(pool("everywhere", "6Gi"))
    wait_until(lambda: "6Gi" in capacities(), "the new capacity is written")
    after = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in published(cluster)}
    assert before.keys() == after.keys()
    assert len(before.items() - after.items()) == 1

    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    set_pools(pool("everywhere", "6Gi", expiryTime=soon.isoformat()))
    wait_until(lambda: "6Gi" not in capacities(), "the expired object is deleted")
    tonnage.patch({"spec": {"capacityTracking": False}})
    wait_until(lambda: not published(cluster), "the objects of an untracked driver are deleted")


def test_kube_scheduler_without_the_extender_checks_each_claim_alone(
    kubelet: Kubelet, cluster: Cluster, tonnage: Installation
) -> None:
    """The problem that the extender solves, with two claims of 6 Gi and a node with 10 Gi."""
    cluster.add_driver()
    cluster.add_nodes("n1")
    provisioner = Provisioner(cluster, n1="10Gi")
    tonnage.set_capacities(n1="10Gi")
    wait_until(lambda: len(published(cluster)) == 1, "the capacity is published")
    with installation.scheduler(kubelet, extenders=[]) as without:
        cluster.add_pod("large", without, c="11Gi")
        wait_until(lambda: cluster.is_refused("large", NO_ROOM), "a claim that is too large is refused")

        cluster.add_pod("pod", without, a="6Gi", b="6Gi")

        def tried() -> bool:
            provisioner.run_once()
            tonnage.set_capacities(n1=str(provisioner.free["n1"]))
            return cluster.is_refused("pod", NO_ROOM)

        wait_until(tried, "there is no room for the other volume")
        # The provisioned volume keeps the pod on this node.
        phases = {name: claim.status.phase for name, claim in cluster.claims().items() if name != "c"}
        assert sorted(phases.values()) == ["Bound", "Pending"]
        assert (cluster.node_of("pod"), provisioner.refused > 0) == (None, True)


def test_publishers_are_alive_and_have_logged_no_warning(tonnage: Installation) -> None:
    for pod in tonnage.publishers:
        assert pod.probe("livenessProbe")
        assert pod.probe("readinessProbe")
        # The URL of the database in the manifests has no certificate.
        warnings = [line for line in pod.log.splitlines() if " WARNING " in line and "tls_verification" not in line]
        assert warnings == []
