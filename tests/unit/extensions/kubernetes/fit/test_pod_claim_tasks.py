# SPDX-License-Identifier: Apache-2.0
"""The background tasks for the claims of pods."""

import pathlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.servers import ledger_schema
from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.fit.pod_claim_tasks import PodClaimTasks
from tonnage.ledger.db import database

GI = 2**30


DRIVER = "disk.example.com"


LEASE = 3600.0


def write(ledger: database.Database, capacity: str = "10Gi") -> None:
    """Write figures of n1's pools, for claims and for inline volumes, and of a pool that n1 and n2 can use."""
    here = {"name": "p", "capacity": capacity, "nodeList": ["n1"]}
    status = {
        "storage": [
            {"storageClassName": "fast", "pools": [here]},
            {"storageClassName": "<ephemeral>", "pools": [here]},
            {"storageClassName": "shared", "pools": [{"name": "s", "capacity": capacity, "nodeList": ["n1", "n2"]}]},
        ]
    }
    change = {"spec": {"capacityTracking": True}, "status": status}
    ledger.run(
        driver_rows.patch, DRIVER, type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    )


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    created = database.Database(engine)
    write(created)
    yield created
    created.close()


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        for name in ("n1", "n2"):
            api.add_node(name)
        yield api


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[ClusterReader]:
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0, cache_time=3600.0)
    yield reader
    reader.api.close()


def claim_for_pod(
    ledger: database.Database, name: str, kind: str | None = "fast", holder: str = "u1", lease: float = LEASE
) -> None:
    """Claim capacity for a volume on n1, as the extender does for a pod."""
    volume = Volume(name, DRIVER, kind, 6 * GI)
    _, node_claim = NodeQueries(ledger).claim([volume], Nodes([Node("n1", {})]), holder, lease, pod="default/redis")
    assert node_claim is not None


def claims_of(ledger: database.Database, holder: str = "u1") -> list[capacity_claims.Claim]:
    with ledger.reading() as session:
        return capacity_claims.list_for_holder(session, holder)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


def test_the_watch_triggers_the_release_of_a_deleted_pods_claim(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    tasks = PodClaimTasks(ledger, cluster, LEASE)
    tasks.start()
    try:
        until(lambda: "/api/v1/namespaces/default/pods/redis" in kube.asked and bool(kube.watched))
        assert len(claims_of(ledger)) == 1
        kube.remove_pod("redis")
        until(lambda: not claims_of(ledger))
    finally:
        tasks.stop()
        # A second call has no effect.
        tasks.stop()


def test_waiting_pods_are_woken_when_a_claim_is_released(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    tasks = PodClaimTasks(ledger, cluster, LEASE, wake_claim=WakeClaim(cluster.api, "default/wake"))
    tasks.start()
    try:
        until(lambda: caplog.text.count("Pods that wait for room are tried late: claim default/wake") == 1)
        kube.add_claim("wake", "1", "none")
        assert kube.written == []
        kube.remove_pod("redis")
        until(lambda: kube.written == [("PATCH", "wake")])
        assert not claims_of(ledger)
    finally:
        tasks.stop()


def test_a_wake_that_failed_is_tried_again(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = PodClaimTasks(ledger, cluster, LEASE, wake_claim=WakeClaim(cluster.api, "default/wake"))
    tasks.start()
    try:
        until(lambda: "Pods that wait for room are tried late: claim default/wake" in caplog.text)
        assert kube.written == []
        kube.add_claim("wake", "1", "none")
        until(lambda: kube.written == [("PATCH", "wake")], 20.0)
    finally:
        tasks.stop()
