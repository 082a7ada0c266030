# SPDX-License-Identifier: Apache-2.0
"""The motivating example of the Kubernetes proposal on storage capacity: Redis in node-local persistent memory.

The nodes have persistent memory, and disks for persistent volume claims. The tests send the requests of
kube-scheduler and of the driver's writers to the processes that an operator runs.
"""

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import requests

from tests.functional.deployment import Deployment, standalone, thin_and_thick
from tests.servers.base import free_port, wait_for
from tests.servers.kube_api import KubeApi
from tonnage.extensions.kubernetes.publication import agent_import
from tonnage.ledger.db import database

PMEM, DISK, AGENTS = "pmem.example.com", "disk.example.com", "agents.example.com"
NODES = ["n1", "n2", "n3"]


class Cluster:
    """A running Tonnage with three nodes."""

    def __init__(self, tonnage: Deployment, extender: str, kube: KubeApi) -> None:
        self._rest, self._extender, self._kube = f"{tonnage.rest.url}/v3", extender, kube
        self._database_url = tonnage.database_url

    def import_reports(self) -> int:
        """Import the reports of agents, as the publisher does, and return the number of drivers."""
        ledger = database.Database(database.create_engine(self._database_url))
        with contextlib.closing(ledger):
            return agent_import.AgentImporter(ledger, 600).import_reports()

    def set_capacity(
        self, driver: str, storage_class: str, node: str, capacity: str, expiry: str | None = None
    ) -> None:
        """Write the capacity of a node, as the driver's writer on the node does."""
        pool = {"name": node, "nodeList": [node], "capacity": capacity, "expiryTime": expiry}
        self.patch(driver, {"status": {"storage": [{"storageClassName": storage_class, "pools": [pool]}]}})

    def patch(self, driver: str, body: Any) -> None:
        answer = requests.patch(f"{self._rest}/csi-drivers/{driver}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text

    def filter(self, *volumes: dict[str, Any], nodes: Sequence[str] = tuple(NODES)) -> tuple[list[str], dict[str, str]]:
        """Filter nodes for a pod, as kube-scheduler does. Return those that fit or, if none fits, why they do not."""
        pod = {"metadata": {"name": "redis", "namespace": "default", "uid": "1"}, "spec": {"volumes": list(volumes)}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": nodes}
        [answer] = wait_for(lambda: self._answered(body), "the extender answers")
        assert (answer.status_code, answer.json()["Error"]) == (200, "")
        return answer.json()["NodeNames"], answer.json()["FailedNodes"]

    def _answered(self, body: Any) -> list[requests.Response]:
        """Send the request. The API server, which runs in this process, may answer the extender too late."""
        answer = requests.post(f"{self._extender}/k8s/filter", json=body, timeout=60)
        return [] if "does not answer" in answer.text else [answer]

    def add_claims(self, kind: str = "local", **sizes: str) -> list[dict[str, Any]]:
        """Create claims, and return the volumes of a pod with these claims."""
        for name, size in sizes.items():
            self._kube.add_claim(name, size, kind)
        return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sizes]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubeconfig")
    with contextlib.ExitStack() as stack:
        kube = stack.enter_context(KubeApi())
        for name in NODES:
            kube.add_node(name)
        kube.add_class("local", DISK)
        kube.add_class("agents", AGENTS)
        port = free_port()
        backends = thin_and_thick()
        backends["thick"] |= {"node_name": "n1", "provisioner": AGENTS, "storage_classes": "agents"}
        options = {"extender": True, "extender_listen_port": port, "kubeconfig": kube.kubeconfig(folder)}
        tonnage = stack.enter_context(standalone(backends, sections={"kubernetes": options}))
        cluster = Cluster(tonnage, f"http://127.0.0.1:{port}", kube)
        for driver in (PMEM, DISK, AGENTS):
            cluster.patch(driver, {"spec": {"capacityTracking": True}})
        yield cluster


def memory(size: str) -> dict[str, Any]:
    return {"name": "data", "csi": {"driver": PMEM, "fsSize": size}}


def test_a_pod_fits_only_the_node_with_capacity_for_all_its_volumes(cluster: Cluster) -> None:
    long_ago = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for node, pmem, disk in (("n1", "64Gi", "30Gi"), ("n2", "16Gi", "100Gi"), ("n3", "64Gi", "100Gi")):
        cluster.set_capacity(PMEM, "<ephemeral>", node, pmem)
        cluster.set_capacity(DISK, "local", node, disk)
    redis = [memory("32Gi"), *cluster.add_claims(log="20Gi", dump="20Gi")]
    assert cluster.filter(*redis) == (["n3"], {})
    assert cluster.filter(*redis, nodes=["n1", "n2"]) == (
        [],
        {
            "n1": "volumes 'log' 20Gi + 'dump' 20Gi, together 40Gi, do not fit: pool n1 has 30Gi left",
            "n2": "volume 'data (inline)' of 32Gi (inline ephemeral volumes): pool n2 has 16Gi left",
        },
    )
    # Each volume alone fits on the first node; Kubernetes itself checks no more.
    for volume in redis:
        assert "n1" in cluster.filter(volume)[0]

    cluster.set_capacity(PMEM, "<ephemeral>", "n3", "64Gi", long_ago)
    left, failed = cluster.filter(*redis)
    assert (left, failed["n3"]) == ([], f"inline ephemeral volumes: pool n3 expired at {long_ago}")
    cluster.set_capacity(PMEM, "<ephemeral>", "n3", "48Gi")
    assert cluster.filter(*redis)[0] == ["n3"]

    for driver in (PMEM, DISK):
        cluster.patch(driver, {"spec": {"capacityTracking": False}})
    assert cluster.filter(*redis) == (NODES, {})
    for driver in (PMEM, DISK):
        cluster.patch(driver, {"spec": {"capacityTracking": True}})


def test_claims_that_fit_alone_but_not_together_are_refused(cluster: Cluster) -> None:
    for node in NODES:
        cluster.set_capacity(DISK, "local", node, "10Gi")
    left, failed = cluster.filter(*cluster.add_claims(a="6Gi", b="6Gi"))
    why = "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool {} has 10Gi left"
    assert (left, failed) == ([], {node: why.format(node) for node in NODES})
    assert cluster.filter(*cluster.add_claims(a="6Gi", b="4Gi")) == (NODES, {})


def test_pools_of_agents_are_checked_as_well(cluster: Cluster) -> None:
    """An agent reports a file system of 2 GiB on one node; a CSI driver creates the volumes of pods there."""
    wait_for(lambda: cluster.import_reports() == 1, "the agent has reported")
    assert cluster.filter(*cluster.add_claims("agents", c="1Gi", d="1Gi"))[0] == ["n1"]
    left, failed = cluster.filter(*cluster.add_claims("agents", c="1Gi", d="1Gi", e="1Gi"))
    assert left == []
    assert failed == {
        "n1": "volumes 'c' 1Gi + 'd' 1Gi + 'e' 1Gi, together 3Gi, do not fit: pool box@thick#thick has 2Gi left",
        **dict.fromkeys(("n2", "n3"), f"no pool of {AGENTS} for storage class 'agents' is reached from this node"),
    }
