# SPDX-License-Identifier: Apache-2.0
"""What the extender holds for pods ends with their need, by what a real kube-apiserver tells of them."""

import itertools
import pathlib
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.kubernetes import servers
from tests.kubernetes.cluster import CLASS, DRIVER, NAMESPACE, SELECTED_NODE, Cluster
from tests.kubernetes.servers import ApiServer
from tests.servers import base
from tonnage.capacity import type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.k8s.cluster import cluster_reader as k8s_cluster
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.node_decision import Volume
from tonnage.k8s.fit.node_queries import Capacity
from tonnage.k8s.fit.pod_claim_tasks import PodClaims
from tonnage.ledger import models
from tonnage.ledger.db import database

pytestmark = pytest.mark.kubernetes

GI = 2**30
#: So long that nothing ends, or is looked at, by itself while a test runs.
LEASE = 3600.0


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    models.Base.metadata.create_all(engine)
    made = database.Database(engine)
    write(made, 100)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def looked_after(ledger: database.Database, api_server: ApiServer, cluster: Cluster) -> Iterator[None]:
    cluster.allow(
        servers.EXTENDER,
        ("", "persistentvolumeclaims", "get"),
        ("", "nodes", "list"),
        ("", "pods", "get,list,watch"),
    )
    reader = k8s_cluster.Cluster(api_server.kubeconfig(servers.EXTENDER))
    looking = PodClaims(ledger, reader, LEASE)
    looking.start()
    yield
    looking.stop()
    reader.api.close()


def write(ledger: database.Database, size: int) -> None:
    pools = [{"name": "n1", "nodeList": ["n1"], "capacity": f"{size}Gi"}]
    raw = {
        "spec": {"capacityTracking": True},
        "status": {"storage": [{"storageClassName": CLASS, "pools": pools}]},
    }
    ledger.run(
        driver_rows.patch, DRIVER, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
    )


def hold(ledger: database.Database, cluster: Cluster, pod: str) -> str:
    """Claim for a pod, which has a claim of the same name, what the extender would; return who holds it."""
    uid: str = cluster.core.read_namespaced_pod(pod, NAMESPACE).metadata.uid
    wanted = [Volume(pod, DRIVER, CLASS, GI)]
    Capacity(ledger).claim(wanted, Nodes([Node("n1", {})]), uid, LEASE, pod=f"{NAMESPACE}/{pod}")
    return uid


def is_held(ledger: database.Database, holder: str) -> bool:
    with ledger.reading() as session:
        return bool(capacity_claims.of_holder(session, holder))


def test_pods_that_do_not_come_give_back_what_is_held_for_them(ledger: database.Database, cluster: Cluster) -> None:
    for pod in ("first", "second"):
        # Nobody schedules here.
        cluster.add_pod(pod, **{pod: "1Gi"})
    first, second = (hold(ledger, cluster, pod) for pod in ("first", "second"))
    for pod, holder in (("first", first), ("second", second)):
        assert is_held(ledger, holder)
        cluster.core.delete_namespaced_pod(pod, NAMESPACE, grace_period_seconds=0)
        base.wait_for(lambda holder=holder: not is_held(ledger, holder), f"what {pod} held is given back")


def test_a_pod_that_runs_gives_back_when_the_figures_contain_its_volume(
    ledger: database.Database, cluster: Cluster
) -> None:
    cluster.add_nodes("n1")
    cluster.add_pod("pod", pod="1Gi")
    holder = hold(ledger, cluster, "pod")
    change = {"metadata": {"annotations": {SELECTED_NODE: "n1"}}, "spec": {"volumeName": "made"}}
    cluster.core.patch_namespaced_persistent_volume_claim("pod", NAMESPACE, change)
    target = client.V1ObjectReference(kind="Node", api_version="v1", name="n1")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="pod"), target=target)
    cluster.core.create_namespaced_binding(NAMESPACE, binding, _preload_content=False)
    cluster.core.patch_namespaced_pod_status("pod", NAMESPACE, {"status": {"phase": "Running"}})
    sizes = itertools.cycle((9, 8))

    def given_back() -> bool:
        # Each writes other figures than the one before.
        write(ledger, next(sizes))
        return not is_held(ledger, holder)

    assert is_held(ledger, holder)
    base.wait_for(given_back, "what the pod held is given back")
