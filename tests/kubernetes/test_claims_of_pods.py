# SPDX-License-Identifier: Apache-2.0
"""Release of the extender's claims for pods, with a real kube-apiserver."""

import itertools
import pathlib
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.kubernetes import manifests
from tests.kubernetes.cluster import CLASS, DRIVER, NAMESPACE, SELECTED_NODE, Cluster
from tests.kubernetes.servers import ApiServer
from tests.servers import base, ledger_schema
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster import cluster_reader
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.fit.pod_claim_tasks import PodClaimTasks
from tonnage.ledger.db import database

pytestmark = pytest.mark.kubernetes

GI = 2**30
#: So long that no claim expires or is checked without an event during a test.
LEASE = 3600.0


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    made = database.Database(engine)
    write(made, 100)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _claim_tasks(ledger: database.Database, api_server: ApiServer, cluster: Cluster) -> Iterator[None]:
    reader = cluster_reader.ClusterReader(api_server.kubeconfig(cluster.token(manifests.EXTENDER)))
    tasks = PodClaimTasks(ledger, reader, LEASE)
    tasks.start()
    yield
    tasks.stop()
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


def claim_for_pod(ledger: database.Database, cluster: Cluster, pod: str) -> str:
    """Claim capacity for a pod, which has a claim of the same name, as the extender does; return the holder."""
    uid: str = cluster.core.read_namespaced_pod(pod, NAMESPACE).metadata.uid
    wanted = [Volume(pod, DRIVER, CLASS, GI)]
    NodeQueries(ledger).claim(wanted, Nodes([Node("n1", {})]), uid, LEASE, pod=f"{NAMESPACE}/{pod}")
    return uid


def is_held(ledger: database.Database, holder: str) -> bool:
    with ledger.reading() as session:
        return bool(capacity_claims.list_for_holder(session, holder))


def test_claims_of_deleted_pods_are_released(ledger: database.Database, cluster: Cluster) -> None:
    for pod in ("first", "second"):
        # No scheduler runs.
        cluster.add_pod(pod, **{pod: "1Gi"})
    first, second = (claim_for_pod(ledger, cluster, pod) for pod in ("first", "second"))
    for pod, holder in (("first", first), ("second", second)):
        assert is_held(ledger, holder)
        cluster.core.delete_namespaced_pod(pod, NAMESPACE, grace_period_seconds=0)
        base.wait_for(lambda holder=holder: not is_held(ledger, holder), f"the claims of {pod} are released")


def test_claims_of_a_running_pod_are_released_when_the_figures_include_its_volume(
    ledger: database.Database, cluster: Cluster
) -> None:
    cluster.add_nodes("n1")
    cluster.add_pod("pod", pod="1Gi")
    holder = claim_for_pod(ledger, cluster, "pod")
    change = {"metadata": {"annotations": {SELECTED_NODE: "n1"}}, "spec": {"volumeName": "made"}}
    cluster.core.patch_namespaced_persistent_volume_claim("pod", NAMESPACE, change)
    target = client.V1ObjectReference(kind="Node", api_version="v1", name="n1")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="pod"), target=target)
    cluster.core.create_namespaced_binding(NAMESPACE, binding, _preload_content=False)
    cluster.core.patch_namespaced_pod_status("pod", NAMESPACE, {"status": {"phase": "Running"}})
    sizes = itertools.cycle((9, 8))

    def released() -> bool:
        # Each write changes the figures.
        write(ledger, next(sizes))
        return not is_held(ledger, holder)

    assert is_held(ledger, holder)
    base.wait_for(released, "the claims of the pod are released")
