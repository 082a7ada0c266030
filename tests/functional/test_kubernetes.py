# SPDX-License-Identifier: Apache-2.0
"""The story that the proposal on storage capacity begins with: Redis in persistent memory that is local to nodes.

Nodes have such memory, and disks for claims. kube-scheduler's part is played by the requests that it sends, the rest is
what an operator runs: the ledger, the REST API that the driver's writers use, and the extender.
"""

import contextlib
import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.functional.deployment import until
from tests.functional.standalone import Standalone, standalone, wait_until
from tests.servers.base import free_port
from tests.servers.kube_api import KubeApi
from tonnage.k8s.capacity import agent_import
from tonnage.ledger.db import database

PMEM, DISK, AGENTS = "pmem.example.com", "disk.example.com", "agents.example.com"
NODES = ["n1", "n2", "n3"]

CONF = """
[kubernetes]
extender = true
extender_listen_port = {port}
kubeconfig = {kubeconfig}

[thick]
node_name = n1
provisioner = agents.example.com
storage_classes = agents
"""


class Story:
    """A running Tonnage with three nodes."""

    def __init__(self, running: Standalone, extender: str, kube: KubeApi) -> None:
        self._rest, self._extender, self._kube = f"{running.url}/v3", extender, kube
        self._ledger = f"sqlite:///{running.folder}/tonnage.sqlite"

    def feed(self) -> int:
        """Do what the publisher does from time to time."""
        ledger = database.Database(database.create_engine(self._ledger))
        with contextlib.closing(ledger):
            return agent_import.AgentImporter(ledger, 600).import_reports()

    def tell(self, driver: str, storage_class: str, node: str, capacity: str, expiry: str | None = None) -> None:
        """Do what the driver's writer on a node does."""
        pool = {"name": node, "nodeList": [node], "capacity": capacity, "expiryTime": expiry}
        self.patch(driver, {"status": {"storage": [{"storageClassName": storage_class, "pools": [pool]}]}})

    def patch(self, driver: str, body: Any) -> None:
        answer = requests.patch(f"{self._rest}/csi-drivers/{driver}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text

    def filter(self, *volumes: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        """Do what kube-scheduler does with a pod: which nodes are left, and what the others say."""
        pod = {"metadata": {"name": "redis", "namespace": "default", "uid": "1"}, "spec": {"volumes": list(volumes)}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": NODES}
        [answer] = until(lambda: self._answered(body), "the extender has read the claims")
        assert (answer.status_code, answer.json()["Error"]) == (200, "")
        return answer.json()["NodeNames"], answer.json()["FailedNodes"]

    def _answered(self, body: Any) -> list[requests.Response]:
        """Ask; the API server is in this process, and not waited for any longer than a pod can wait."""
        answer = requests.post(f"{self._extender}/k8s/filter", json=body, timeout=60)
        return [] if "does not answer" in answer.text else [answer]

    def claims(self, kind: str = "local", **sizes: str) -> list[dict[str, Any]]:
        """Make claims, and return the volumes of a pod that has them."""
        for name, size in sizes.items():
            self._kube.add_claim(name, size, kind)
        return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sizes]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    with contextlib.ExitStack() as stack:
        kube = stack.enter_context(KubeApi())
        for name in NODES:
            kube.add_node(name)
        kube.add_class("local", DISK)
        kube.add_class("agents", AGENTS)
        port = free_port()
        extra = CONF.format(port=port, kubeconfig=kube.kubeconfig(folder))
        running = stack.enter_context(standalone(folder, extra))
        story = Story(running, f"http://127.0.0.1:{port}", kube)
        for driver in (PMEM, DISK, AGENTS):
            story.patch(driver, {"spec": {"capacityTracking": True}})
        yield story


def memory(size: str) -> dict[str, Any]:
    return {"name": "data", "csi": {"driver": PMEM, "fsSize": size}}


def test_redis_goes_to_the_node_with_room_and_the_others_say_why(story: Story) -> None:
    long_ago = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for node, pmem, disk in (("n1", "64Gi", "30Gi"), ("n2", "16Gi", "100Gi"), ("n3", "64Gi", "100Gi")):
        story.tell(PMEM, "<ephemeral>", node, pmem)
        story.tell(DISK, "local", node, disk)
    redis = [memory("32Gi"), *story.claims(log="20Gi", dump="20Gi")]
    assert story.filter(*redis) == (
        ["n3"],
        {
            "n1": "volumes 'log' 20Gi + 'dump' 20Gi, together 40Gi, do not fit: pool n1 has 30Gi left",
            "n2": "volume 'data (inline)' of 32Gi (inline ephemeral volumes): pool n2 has 16Gi left",
        },
    )
    # Each alone fits on the first, which is all that Kubernetes looks at.
    for volume in redis:
        assert "n1" in story.filter(volume)[0]

    story.tell(PMEM, "<ephemeral>", "n3", "64Gi", long_ago)
    left, failed = story.filter(*redis)
    assert (left, failed["n3"]) == ([], f"inline ephemeral volumes: pool n3 expired at {long_ago}")
    story.tell(PMEM, "<ephemeral>", "n3", "48Gi")
    assert story.filter(*redis)[0] == ["n3"]

    for driver in (PMEM, DISK):
        story.patch(driver, {"spec": {"capacityTracking": False}})
    assert story.filter(*redis) == (NODES, {})
    for driver in (PMEM, DISK):
        story.patch(driver, {"spec": {"capacityTracking": True}})


def test_two_claims_of_6_are_refused_where_there_are_10_and_6_and_4_are_not(story: Story) -> None:
    for node in NODES:
        story.tell(DISK, "local", node, "10Gi")
    left, failed = story.filter(*story.claims(a="6Gi", b="6Gi"))
    why = "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool {} has 10Gi left"
    assert (left, failed) == ([], {node: why.format(node) for node in NODES})
    assert story.filter(*story.claims(a="6Gi", b="4Gi")) == (NODES, {})


def test_what_ordinary_agents_report_is_found_too(story: Story) -> None:
    """Of a file system of 2 GiB on one node, whose volumes somebody else makes for pods."""
    wait_until(lambda: story.feed() == 1, 60)
    assert story.filter(*story.claims("agents", c="1Gi", d="1Gi"))[0] == ["n1"]
    left, failed = story.filter(*story.claims("agents", c="1Gi", d="1Gi", e="1Gi"))
    assert left == []
    assert failed == {
        "n1": "volumes 'c' 1Gi + 'd' 1Gi + 'e' 1Gi, together 3Gi, do not fit: pool box@thick#thick has 2Gi left",
        **dict.fromkeys(("n2", "n3"), f"no pool of {AGENTS} for storage class 'agents' is reached from this node"),
    }
