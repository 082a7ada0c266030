# SPDX-License-Identifier: Apache-2.0
"""Entries for kube-scheduler, and the publisher that writes them."""

import datetime
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from kubernetes import client

from tests.servers import ledger_schema
from tests.servers.kube_api import NODES, KubeApi
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.capacity import capacity_objects, driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.publication import template_capacities
from tonnage.extensions.kubernetes.publication.capacity_publisher import Publisher
from tonnage.ledger.db import database

NAME = "disk.example.com"
ZONE = "topology.example.com/zone"
Patch: TypeAlias = Callable[..., None]


@pytest.fixture
def cluster() -> Iterator[KubeApi]:
    with KubeApi() as cluster:
        for name, driver in (("fast", NAME), ("slow", NAME), ("other", "somebody.else")):
            cluster.add_class(name, driver)
        cluster.nodes = {
            "n1": {"kubernetes.io/hostname": "n1.example.com", ZONE: "a", "disks": "2"},
            "n2": {"kubernetes.io/hostname": "n2", ZONE: "b", "disks": "8"},
        }
        yield cluster


@pytest.fixture
def patch(ledger: database.Database) -> Patch:
    def apply(*storage: dict[str, Any], name: str = NAME, **raw: Any) -> None:
        change = {"status": {"storage": list(storage)}, **raw} if storage else raw
        ledger.run(
            driver_rows.patch,
            name,
            type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value)),
        )

    apply(spec={"capacityTracking": True})
    return apply


@pytest.fixture
def publish(cluster: KubeApi, ledger: database.Database) -> Iterator[Callable[[], str]]:
    settings = client.Configuration(host=cluster.url)
    settings.retries = False
    with client.ApiClient(settings) as api:
        one = Publisher(ledger, api, "storage", page_size=2)
        yield lambda: str(one.publish())


def storage(of: str, *pools: dict[str, Any]) -> dict[str, Any]:
    return {"storageClassName": of, "pools": list(pools)}


def published(cluster: KubeApi) -> list[tuple[Any, ...]]:
    """Return class, topology, capacity and largest volume of each object."""
    return sorted(
        (
            each["storageClassName"],
            [
                (one["key"], one["operator"], *one.get("values", []))
                for one in each["nodeTopology"].get("matchExpressions", [])
            ],
            each["capacity"],
            each.get("maximumVolumeSize"),
        )
        for each in cluster.capacities.values()
    )


def expressions(*listed: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": values} if values else {})}
            for key, operator, *values in listed
        ]
    }


def test_entries_have_the_sizes_and_nodes_of_pools(cluster: KubeApi, patch: Patch, publish: Callable[[], str]) -> None:
    patch(
        storage(
            "fast",
            {"name": "everywhere", "capacity": "1.5Gi", "maximumVolumeSize": "1Gi"},
            {"name": "listed", "nodeList": ["n2", "n1", "n9"], "capacity": "2Gi"},
            {"name": "unknown"},
        )
    )
    assert publish() == "2 made, 0 changed, 0 deleted, 0 failed"
    assert published(cluster) == [
        ("fast", [], "1536Mi", "1Gi"),
        ("fast", [("kubernetes.io/hostname", "In", "n1.example.com", "n2", "n9")], "2Gi", None),
    ]
    [labels] = {tuple(sorted(each["metadata"]["labels"].items())) for each in cluster.capacities.values()}
    assert labels == ((capacity_objects.DRIVER_LABEL, NAME), (capacity_objects.MANAGER_LABEL, "tonnage"))


def test_the_largest_volume_is_limited_by_the_capacity(
    cluster: KubeApi, patch: Patch, publish: Callable[[], str]
) -> None:
    """kube-scheduler ignores the capacity if there is a largest volume, and plug-ins report one even when full."""
    patch(storage("fast", {"name": "p", "capacity": "1Gi", "maximumVolumeSize": "2Ti"}))
    publish()
    assert published(cluster) == [("fast", [], "1Gi", "1Gi")]
    patch(storage("fast", {"name": "p", "capacity": "3Ti"}))
    assert publish() == "0 made, 1 changed, 0 deleted, 0 failed"
    assert published(cluster) == [("fast", [], "3Ti", "2Ti")]


def test_alternatives_are_objects_of_their_own(cluster: KubeApi, patch: Patch, publish: Callable[[], str]) -> None:
    terms = [
        expressions((ZONE, "In", "a"), ("kubernetes.io/os", "Exists")),
        expressions((ZONE, "NotIn", "a")),
        {},
        expressions(("disks", "Gt", "4")),
        expressions(("disks", "Gt", "40")),
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    patch(storage("fast", {"name": "p", "capacity": "1Gi", "nodeTopology": {"nodeSelectorTerms": terms}}))
    publish()
    assert [topology for _, topology, _, _ in published(cluster)] == [
        [("kubernetes.io/hostname", "In", "n1.example.com")],
        [("kubernetes.io/hostname", "In", "n2")],
        [(ZONE, "In", "a"), ("kubernetes.io/os", "Exists")],
        [(ZONE, "NotIn", "a")],
    ]


def test_the_fallback_is_published_for_other_classes_and_ephemeral_storage_is_not(
    cluster: KubeApi, patch: Patch, publish: Callable[[], str]
) -> None:
    patch(
        storage("fast", {"name": "p", "capacity": "1Gi"}),
        storage("<fallback>", {"name": "p", "capacity": "2Gi"}),
        storage("<ephemeral>", {"name": "p", "capacity": "4Gi"}),
        storage("unheard-of", {"name": "p", "capacity": "8Gi"}),
    )
    patch(storage("other", {"name": "p", "capacity": "1Gi"}), name="gone.example.com", spec={"capacityTracking": True})
    publish()
    assert [(of, capacity) for of, _, capacity, _ in published(cluster)] == [("fast", "1Gi"), ("slow", "2Gi")]


def test_only_changed_objects_are_written(cluster: KubeApi, patch: Patch, publish: Callable[[], str]) -> None:
    patch(storage("fast", {"name": "p", "capacity": "1.5Gi"}, {"name": "q", "nodeList": ["n1"], "capacity": "1Gi"}))
    publish()
    cluster.written.clear()
    for each in cluster.capacities.values():
        each["capacity"] = {"1536Mi": "1572864Ki", "1Gi": "1073741824"}[each["capacity"]]
    assert publish() == "0 made, 0 changed, 0 deleted, 0 failed"
    assert cluster.written == []
    patch(storage("fast", {"name": "p", "capacity": "3Gi"}))
    assert publish() == "0 made, 1 changed, 0 deleted, 0 failed"
    # The class and topology of an object cannot change, so another object replaces it.
    patch(storage("fast", {"name": "q", "nodeList": ["n2"]}))
    assert publish() == "1 made, 0 changed, 1 deleted, 0 failed"
    assert [(topology[0][2:] if topology else (), capacity) for _, topology, capacity, _ in published(cluster)] == [
        ((), "3Gi"),
        (("n2",), "1Gi"),
    ]


def test_expired_and_untracked_pools_are_deleted(cluster: KubeApi, patch: Patch, publish: Callable[[], str]) -> None:
    past, future = (
        "2020-01-01T00:00:00Z",
        (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat(),
    )
    patch(
        storage("fast", {"name": "p", "capacity": "1Gi", "expiryTime": future}),
        storage("slow", {"name": "q", "capacity": "1Gi"}),
    )
    foreign = {
        "metadata": {"name": "theirs", "labels": {capacity_objects.MANAGER_LABEL: "external-provisioner"}},
        "storageClassName": "fast",
        "nodeTopology": {},
        "capacity": "1Gi",
    }
    cluster.add_capacity(foreign)
    assert publish() == "2 made, 0 changed, 0 deleted, 0 failed"
    patch(storage("fast", {"name": "p", "expiryTime": past}))
    assert publish() == "0 made, 0 changed, 1 deleted, 0 failed"
    patch(spec={"capacityTracking": False})
    assert publish() == "0 made, 0 changed, 1 deleted, 0 failed"
    assert list(cluster.capacities) == ["theirs"]


def test_conflicts_are_ignored_and_failures_are_logged_once(
    cluster: KubeApi, patch: Patch, publish: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    patch(storage("fast", {"name": "p", "capacity": "1Gi"}))
    cluster.failing["POST"] = 409
    assert publish() == "0 made, 0 changed, 0 deleted, 0 failed"
    cluster.failing["POST"] = 403
    assert [publish() for _ in range(2)] == ["0 made, 0 changed, 0 deleted, 1 failed"] * 2
    cluster.failing["POST"] = 422
    publish()
    # Each object's failure is logged once, until it is a different failure.
    assert [caplog.text.count(f"cannot be written: {status}") for status in (403, 422)] == [1, 1]
    del cluster.failing["POST"]
    publish()
    cluster.capacities.clear()
    cluster.failing["POST"] = 422
    publish()
    assert caplog.text.count("cannot be written: 422") == 2
    cluster.failing = {"GET": 403}
    with pytest.raises(errors.Unavailable, match="the API server of Kubernetes refused a look: 403"):
        publish()


@pytest.mark.parametrize(
    ("version", "sizes"), [("v1beta1", [("1Gi", None), ("4Gi", "2Gi")]), ("v1alpha1", [("1Gi", None), ("2Gi", None)])]
)
def test_older_api_versions_are_supported(
    cluster: KubeApi, patch: Patch, publish: Callable[[], str], version: str, sizes: list[tuple[str, str | None]]
) -> None:
    cluster.version = version
    patch(
        storage("fast", {"name": "p", "capacity": "1Gi"}),
        storage("slow", {"name": "p", "capacity": "4Gi", "maximumVolumeSize": "2Gi"}),
    )
    assert publish() == "2 made, 0 changed, 0 deleted, 0 failed"
    # The oldest version has no largest volume, so the capacity has its value.
    assert [(capacity, most) for _, _, capacity, most in published(cluster)] == sizes
    assert {each["apiVersion"] for each in cluster.capacities.values()} == {f"storage.k8s.io/{version}"}
    assert publish() == "0 made, 0 changed, 0 deleted, 0 failed"
    patch(storage("fast", {"name": "p", "capacity": "3Gi"}), storage("slow", {"name": "p", "capacity": None}))
    assert publish() == "0 made, 1 changed, 1 deleted, 0 failed"


def test_a_cluster_without_the_api_raises_unavailable(
    cluster: KubeApi, patch: Patch, publish: Callable[[], str]
) -> None:
    cluster.version = "v2"
    with pytest.raises(errors.Unavailable, match=r"the cluster has no CSIStorageCapacity objects: .* from 1\.24 on"):
        publish()


def test_lists_are_read_page_by_page(cluster: KubeApi, patch: Patch, publish: Callable[[], str]) -> None:
    cluster.nodes = {f"n{number}": {} for number in range(5)}
    names = sorted(cluster.nodes)
    patch(storage("fast", *({"name": name, "nodeList": [name], "capacity": "1Gi"} for name in names)))
    assert publish() == "5 made, 0 changed, 0 deleted, 0 failed"
    assert publish() == "0 made, 0 changed, 0 deleted, 0 failed"
    assert [topology[0][2] for _, topology, _, _ in published(cluster)] == names
    # Only names and labels of nodes are requested.
    assert cluster.accepted[NODES].startswith("application/json;as=PartialObjectMetadataList;")
    assert cluster.asked.count(NODES) == 6


@pytest.mark.parametrize("moment", ["csistoragecapacities", "storageclasses", "nodes", "write"])
@pytest.mark.parametrize(("published_before", "older"), [("1Gi", "2Gi"), ("1Gi", None), (None, "2Gi")])
def test_older_figures_never_replace_newer_ones(
    cluster: KubeApi, tmp_path: pathlib.Path, moment: str, published_before: str | None, older: str | None
) -> None:
    """Two publishers: the second one publishes newer figures at some moment of the round of the first one."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine)

    def set_capacity(size: str | None) -> None:
        pools = [] if size is None else [{"name": "p", "capacity": size}]
        gone = {"storageClassName": "fast", "$patch": "delete"}
        raw = {"spec": {"capacityTracking": True}, "status": {"storage": [storage("fast", *pools) if pools else gone]}}
        change = type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
        ledger.run(driver_rows.patch, NAME, change)

    settings = client.Configuration(host=cluster.url)
    settings.retries = False
    with client.ApiClient(settings) as api, client.ApiClient(settings) as other_api:
        first, second = Publisher(ledger, api, "storage"), Publisher(ledger, other_api, "storage")

        def publish_newer() -> None:
            cluster.before_read, cluster.before_write = lambda path: None, lambda: None
            set_capacity("3Gi")
            second.publish()

        if published_before is not None:
            set_capacity(published_before)
            first.publish()
        set_capacity(older)
        if moment == "write":
            cluster.before_write = publish_newer
        else:
            cluster.before_read = lambda path: publish_newer() if path.endswith(moment) else None
        assert first.publish().failed == 0
        assert [size for _, _, size, _ in published(cluster)] == ["3Gi"]
        assert str(second.publish()) == "0 made, 0 changed, 0 deleted, 0 failed", "nothing has to be mended"
    ledger.close()


@pytest.fixture
def api(cluster: KubeApi) -> Iterator[client.ApiClient]:
    settings = client.Configuration(host=cluster.url)
    settings.retries = False
    with client.ApiClient(settings) as api:
        yield api


def test_objects_show_the_capacity_less_the_claims(
    cluster: KubeApi, ledger: database.Database, patch: Patch, api: client.ApiClient
) -> None:
    patch(storage("fast", {"name": "p", "nodeList": ["n1"], "capacity": "10Gi"}))
    publisher = Publisher(ledger, api, "storage", subtracts_claims=True)
    publisher.publish()
    queries, nodes = NodeQueries(ledger), Nodes([Node("n1", {})])
    queries.claim([Volume("data", NAME, "fast", 6 * 2**30)], nodes, "u1", 60.0, pod="default/redis")
    assert str(publisher.publish()) == "0 made, 1 changed, 0 deleted, 0 failed"
    assert [capacity for _, _, capacity, _ in published(cluster)] == ["4Gi"]
    # kube-scheduler tries this pod again: its own claim must not keep it from the node.
    ledger.run(capacity_claims.set_published, "u1", False)
    publisher.publish()
    assert [capacity for _, _, capacity, _ in published(cluster)] == ["10Gi"]
    ledger.run(capacity_claims.set_published, "u1", True)
    publisher.publish()
    assert [capacity for _, _, capacity, _ in published(cluster)] == ["4Gi"]
    queries.release("u1")
    publisher.publish()
    assert [capacity for _, _, capacity, _ in published(cluster)] == ["10Gi"]


def test_objects_have_an_owner_beside_those_that_others_add(
    cluster: KubeApi, ledger: database.Database, patch: Patch, api: client.ApiClient
) -> None:
    patch(storage("fast", {"name": "p", "capacity": "10Gi"}))
    Publisher(ledger, api, "storage").publish()
    [body] = cluster.capacities.values()
    assert "ownerReferences" not in body["metadata"]
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u0"}
    body["metadata"]["ownerReferences"] = [foreign]
    owned = Publisher(ledger, api, "storage", owner="tonnage-publisher")
    with pytest.raises(
        errors.Unavailable, match="Deployment storage/tonnage-publisher, which owns the objects, cannot"
    ):
        owned.publish()
    cluster.add_object(
        "/apis/apps/v1/namespaces/storage/deployments/tonnage-publisher",
        metadata={"name": "tonnage-publisher", "uid": "u1"},
    )
    assert str(owned.publish()) == "0 made, 1 changed, 0 deleted, 0 failed"
    [body] = cluster.capacities.values()
    own = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "tonnage-publisher", "uid": "u1"}
    assert body["metadata"]["ownerReferences"] == [foreign, own]
    assert str(owned.publish()) == "0 made, 0 changed, 0 deleted, 0 failed"


def test_template_nodes_have_objects_of_their_own(
    cluster: KubeApi, ledger: database.Database, patch: Patch, api: client.ApiClient
) -> None:
    lines = ["fast 100Gi pool=a", "fast 200Gi pool=b", "nothing 1Gi"]
    Publisher(ledger, api, "storage", template_capacities=template_capacities.parse(lines)).publish()
    label = ("cluster-autoscaler.kubernetes.io/template-node", "In", "true")
    assert published(cluster) == [
        ("fast", [label, ("pool", "In", "a")], "100Gi", None),
        ("fast", [label, ("pool", "In", "b")], "200Gi", None),
    ]
