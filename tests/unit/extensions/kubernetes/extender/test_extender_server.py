# SPDX-License-Identifier: Apache-2.0
"""The extender with replayed requests of kube-scheduler, over a real connection where that matters."""

import contextlib
import gc
import gzip
import pathlib
import socket
import ssl
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from falcon import testing
from prometheus_client import REGISTRY, parser

from tests.servers import ledger_schema
from tests.servers.kube_api import CLASSES, NODES, KubeApi
from tests.unit.api.cluster import configuration, wait_until
from tonnage.api.http.middleware import BodyLimit
from tonnage.api.http.server import Server
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.api.csi_metrics import ClaimSeries
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.extender import extender_server as extender_app
from tonnage.extensions.kubernetes.fit import capacity_claims, scoring_shape
from tonnage.extensions.kubernetes.fit.extender_protocol import Extender
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database

DRIVER = "disk.example.com"
KEYS = {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
LIMIT = 100_000
DURATION = "tonnage_extender_request_duration_seconds"


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        for number in (1, 2, 3):
            api.add_node(f"n{number}", zone="b" if number == 2 else "a")
        api.add_class("fast", DRIVER)
        api.add_class("now", DRIVER, "Immediate")
        for name, size in (("six", "6Gi"), ("also-six", "6Gi"), ("four", "4Gi")):
            api.add_claim(name, size, "fast")
        api.add_claim("bound", "600Gi", "fast", bound=True)
        api.add_claim("by-hand", "600Gi", None)
        api.add_claim("at-once", "600Gi", "now")
        api.add_claim("redis-scratch", "9Gi", "fast")
        add_copies(api)
        api.add_claim("old", "11Gi", None, annotations={"volume.beta.kubernetes.io/storage-class": "fast"})
        yield api


def add_copies(api: KubeApi) -> None:
    """Add claims of 1Gi that are copies, and their sources: "origin" is in zone b."""

    def of(kind: str, name: str, group: str | None = None) -> dict[str, Any]:
        return {"apiGroup": group, "kind": kind, "name": name}

    snapshots = "snapshot.storage.k8s.io"
    api.add_claim("origin", "1Gi", "fast", bound=True)
    api.add_volume("origin", zone="b")
    api.add_claim("anywhere", "1Gi", "fast", bound=True)
    api.add_volume("anywhere")
    api.add_claim("lost", "1Gi", "fast", bound=True)
    api.add_claim("waiting", "1Gi", "fast")
    api.add_snapshot("monday", "origin")
    api.add_snapshot("before", "origin", made="2026-11-19T12:00:00Z")
    api.add_snapshot("orphaned", "gone")
    api.add_snapshot("imported", None)
    for name, source in {
        "clone": of("PersistentVolumeClaim", "origin"),
        "free-clone": of("PersistentVolumeClaim", "anywhere"),
        "lost-clone": of("PersistentVolumeClaim", "lost"),
        "early-clone": of("PersistentVolumeClaim", "waiting"),
        "no-clone": of("PersistentVolumeClaim", "gone"),
        "restored": of("VolumeSnapshot", "monday", snapshots),
        "restored-before": of("VolumeSnapshot", "before", snapshots),
        "restored-orphan": of("VolumeSnapshot", "orphaned", snapshots),
        "restored-import": of("VolumeSnapshot", "imported", snapshots),
        "no-restore": of("VolumeSnapshot", "gone", snapshots),
        "populated": of("Populator", "p", "example.com"),
    }.items():
        api.add_claim(name, "1Gi", "fast", source=source)


@pytest.fixture(scope="module")
def cluster(kube: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> ClusterReader:
    return ClusterReader(kube.kubeconfig(tmp_path_factory.mktemp("kube")), timeout=60.0)


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    """A ledger with 10 Gi on n1, 12 Gi on n2 (by zone), none on n3, and 3 Gi for inline volumes on n1 and n2."""
    created = create_ledger("sqlite://")
    yield created
    created.close()


@pytest.fixture
def file_ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """The same ledger in a file, for several threads."""
    created = create_ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield created
    created.close()


def create_ledger(url: str) -> database.Database:
    engine = database.create_engine(url)
    ledger_schema.create(engine)
    created = database.Database(engine)
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    two = {"name": "two", "capacity": "12Gi", "nodeTopology": {"nodeSelectorTerms": [zone]}}
    status = {
        "storage": [
            {"storageClassName": "fast", "pools": [{"name": "one", "capacity": "10Gi", "nodeList": ["n1"]}, two]},
            {
                "storageClassName": "<ephemeral>",
                "pools": [{"name": "memory", "capacity": "3Gi", "nodeList": ["n1", "n2"]}],
            },
        ]
    }
    change = {"spec": {"capacityTracking": True}, "status": status}
    patch = type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    created.run(driver_rows.patch, DRIVER, patch)
    return created


def client(ledger: database.Database, cluster: ClusterReader, lease: float | None = None) -> testing.TestClient:
    return testing.TestClient(
        extender_app.application(Extender(NodeQueries(ledger), cluster, lease), BodyLimit(LIMIT, "limit"))
    )


def claim(name: str) -> dict[str, Any]:
    return {"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}}


def inline(size: str | None) -> dict[str, Any]:
    return {"name": "cache", "csi": {"driver": DRIVER, **({} if size is None else {"fsSize": size})}}


def generic(name: str, size: str) -> dict[str, Any]:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": spec}}}


def pod(*volumes: dict[str, Any], uid: str = "u1") -> dict[str, Any]:
    other = {"name": "token", "projected": {"sources": []}}
    metadata = {"name": "redis", "namespace": "default", "uid": uid, "creationTimestamp": None}
    return {"metadata": metadata, "spec": {"volumes": [*volumes, other], "containers": []}, "status": {}}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"capacity": {"cpu": "4"}}}


WHOLE = [node("n1", zone="a"), node("n2", zone="b"), node("n3")]


def send(tester: testing.TestClient, *volumes: dict[str, Any], verb: str = "filter", uid: str = "u1") -> Any:
    """Send a request with names of nodes, as with nodeCacheCapable: true."""
    body = {"Pod": pod(*volumes, uid=uid), "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}
    answer = tester.simulate_post(f"/k8s/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    if verb == "filter":
        assert answer.json.keys() == KEYS
    return answer.json


def test_all_claims_of_a_pod_are_packed_together(ledger: database.Database, cluster: ClusterReader) -> None:
    tester = client(ledger, cluster)
    answer = send(tester, claim("six"), claim("also-six"))
    # kube-scheduler shows reasons only if no node fits.
    empty: dict[str, str] = {}
    expected = {"Nodes": None, "FailedNodes": empty, "FailedAndUnresolvableNodes": empty, "Error": ""}
    assert answer == {**expected, "NodeNames": ["n2"]}
    assert send(tester, claim("six"), claim("four"))["NodeNames"] == ["n1", "n2"]
    # A claim that a pod has twice is one volume.
    assert send(tester, claim("six"), {**claim("six"), "name": "again"})["NodeNames"] == ["n1", "n2"]


def test_all_nodes_have_reasons_if_none_fits(ledger: database.Database, cluster: ClusterReader) -> None:
    answer = send(client(ledger, cluster), claim("six"), claim("also-six"), claim("four"))
    sizes = "volumes 'six' 6Gi + 'also-six' 6Gi + 'four' 4Gi, together 16Gi, do not fit"
    reasons = {
        "n1": f"{sizes}: pool one has 10Gi left",
        "n2": f"{sizes}: pool two has 12Gi left",
        "n3": f"no pool of {DRIVER} for storage class 'fast' is reached from this node",
    }
    # Evicting pods frees no room for claims. Schedulers before 1.21 read FailedNodes only.
    refused = {"FailedNodes": reasons, "FailedAndUnresolvableNodes": reasons}
    assert answer == {"Nodes": None, "NodeNames": [], **refused, "Error": ""}


def test_requests_are_counted_by_result_and_refused_nodes_by_code(
    ledger: database.Database, cluster: ClusterReader
) -> None:
    def counted() -> dict[str, float]:
        found = {
            " ".join(sample.labels.values()): sample.value
            for family in REGISTRY.collect()
            if family.name in ("tonnage_extender_pods", "tonnage_extender_refusals", DURATION)
            for sample in family.samples
            if sample.name.endswith("_total") or sample.name == f"{DURATION}_count"
        }
        return found

    tester, before = client(ledger, cluster), counted()
    send(tester, claim("six"), claim("also-six"))
    send(tester, inline("3.1Gi"))
    send(tester, claim("bound"))
    send(tester, claim("no-clone"))
    send(tester, claim("six"), verb="prioritize")
    after = counted()
    assert {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)} == {
        "fits": 1,
        "refused": 1,
        "no_volumes": 1,
        "error": 1,
        "NotTogether": 1,
        "Unreachable": 2,
        "TooLarge": 2,
        "filter": 4,
        "prioritize": 1,
    }


def test_whole_nodes_are_returned_unchanged(ledger: database.Database, cluster: ClusterReader) -> None:
    body = {"Pod": pod(claim("six"), claim("also-six")), "Nodes": {"metadata": {}, "items": WHOLE}, "NodeNames": None}
    answer = client(ledger, cluster).simulate_post("/k8s/filter", json=body).json
    assert answer["Nodes"] == {"items": [WHOLE[1]]}
    assert answer["NodeNames"] is None
    scores = client(ledger, cluster).simulate_post("/k8s/prioritize", json=body).json
    assert scores == [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 0}, {"Host": "n3", "Score": 0}]


@pytest.mark.parametrize(
    ("volumes", "fitting"),
    [
        ([], ["n1", "n2", "n3"]),
        ([claim("bound"), claim("by-hand"), claim("at-once")], ["n1", "n2", "n3"]),
        # This claim has its class in the annotation from before Kubernetes 1.6, which is still valid.
        ([claim("old")], ["n2"]),
        ([inline("3Gi")], ["n1", "n2"]),
        ([inline("3.1Gi")], []),
        ([inline(None)], ["n1", "n2", "n3"]),
        ([generic("data", "11Gi")], ["n2"]),
        ([generic("data", "4Gi"), claim("six"), inline("1Gi")], ["n1", "n2"]),
        # The claim exists already, with a size of its own.
        ([generic("scratch", "1Gi"), claim("four")], []),
    ],
)
def test_unprovisioned_volumes_are_checked(
    ledger: database.Database, cluster: ClusterReader, volumes: list[dict[str, Any]], fitting: list[str]
) -> None:
    assert send(client(ledger, cluster), *volumes)["NodeNames"] == fitting


@pytest.mark.parametrize(
    ("volumes", "fitting"),
    [
        (["clone"], ["n2"]),
        (["restored"], ["n2"]),
        (["clone", "four"], ["n2"]),
        (["free-clone"], ["n1", "n2"]),
        # Both volumes will be on the node of the pod.
        (["waiting", "early-clone"], ["n1", "n2"]),
        (["restored-before"], ["n1", "n2"]),
        (["restored-orphan"], ["n1", "n2"]),
        (["restored-import"], ["n1", "n2"]),
        (["populated"], ["n1", "n2"]),
    ],
)
def test_copies_go_where_their_sources_are(
    ledger: database.Database, cluster: ClusterReader, volumes: list[str], fitting: list[str]
) -> None:
    answer = send(client(ledger, cluster), *map(claim, volumes))
    assert (answer["NodeNames"], answer["Error"]) == (fitting, "")
    if fitting == ["n2"]:
        # On n2 there is no room for the other volume.
        refused = send(client(ledger, cluster), *map(claim, volumes), generic("large", "12Gi"))
        words = refused["FailedAndUnresolvableNodes"]["n1"]
        assert words.startswith(f"volume '{volumes[0]}' is a copy of ")
        assert words.endswith("claim origin, which is not reached from this node")


@pytest.mark.parametrize(
    ("volume", "unchecked"),
    [
        ("restored-before", "where snapshot before is was not checked: claim origin of its volume is gone"),
        ("restored-orphan", "where snapshot orphaned is was not checked: claim gone of its volume is gone"),
        ("restored-import", "where snapshot imported is was not checked: it was not made from a claim"),
        ("populated", "where Populator p is was not checked: Tonnage does not know objects of kind Populator"),
    ],
)
def test_a_source_that_cannot_be_checked_is_logged(
    ledger: database.Database,
    cluster: ClusterReader,
    caplog: pytest.LogCaptureFixture,
    volume: str,
    unchecked: str,
) -> None:
    with caplog.at_level("INFO"):
        send(client(ledger, cluster), claim(volume))
    assert unchecked in caplog.text


@pytest.mark.parametrize(
    ("volume", "error"),
    [
        ("no-clone", "claim default/gone, which claim no-clone is a copy of, is not there"),
        ("early-clone", "claim default/waiting, which claim early-clone is a copy of, has no volume yet"),
        ("lost-clone", "volume pv-lost, which is to be copied, is not there"),
        ("no-restore", "snapshot default/gone, which claim no-restore is a copy of, is not there"),
    ],
)
def test_a_missing_source_is_an_error(
    ledger: database.Database, cluster: ClusterReader, volume: str, error: str
) -> None:
    assert send(client(ledger, cluster), claim(volume))["Error"] == error


def test_only_names_and_labels_of_nodes_are_read_once(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    tester = client(ledger, cluster)
    for _ in range(2):
        send(tester, claim("six"))
    assert kube.accepted[NODES].startswith("application/json;as=PartialObjectMetadataList;")
    assert kube.asked.count(NODES) == kube.asked.count(f"{CLASSES}/fast") == 1


def test_the_first_request_after_the_start_reads_no_nodes(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, tmp_path: pathlib.Path
) -> None:
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0)
    extender = Extender(NodeQueries(ledger), reader, None)
    extender.warm_up()
    asked = kube.asked.count(NODES)
    tester = testing.TestClient(extender_app.application(extender, BodyLimit(LIMIT, "limit")))
    assert send(tester, claim("six"))["NodeNames"] == ["n1", "n2"]
    assert send(tester, inline("3Gi"))["NodeNames"] == ["n1", "n2"]
    assert kube.asked.count(NODES) == asked
    reader.api.close()


def test_a_start_without_an_api_server_is_no_error(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0)
    with caplog.at_level("INFO"):
        kube.failing["GET"] = 503
        try:
            Extender(NodeQueries(ledger), reader, None).warm_up()
        finally:
            del kube.failing["GET"]
    assert "The first pod takes longer: the API server of Kubernetes refused a look" in caplog.text
    reader.api.close()


def test_scores_are_the_remaining_fraction(ledger: database.Database, cluster: ClusterReader) -> None:
    scores = send(client(ledger, cluster), claim("six"), verb="prioritize")
    assert scores == [{"Host": "n1", "Score": 4}, {"Host": "n2", "Score": 5}, {"Host": "n3", "Score": 0}]
    assert {each["Score"] for each in send(client(ledger, cluster), verb="prioritize")} == {10}


@pytest.mark.parametrize(
    ("shape", "sizes", "chosen"),
    [
        *(("pack", sizes, "n10") for sizes in (["6Gi"], ["1Gi"], ["1Gi", "2Gi"])),
        *(("spread", sizes, "n30") for sizes in (["6Gi"], ["1Gi"], ["1Gi", "2Gi"])),
        ("0:0, 40:10, 100:0", ["3Gi", "5Gi"], "n20"),
    ],
)
def test_the_scoring_shape_chooses_the_node(
    kube: KubeApi, cluster: ClusterReader, shape: str, sizes: list[str], chosen: str
) -> None:
    """Nodes with 10, 20 and 30 Gi, in scores and with claims; the volumes of a pod count together."""
    ledger = database.Database(database.create_engine("sqlite://"))
    ledger_schema.create(ledger.engine)
    listed = [{"name": f"p{size}", "capacity": f"{size}Gi", "nodeList": [f"n{size}"]} for size in (20, 10, 30)]
    change = {
        "spec": {"capacityTracking": True},
        "status": {"storage": [{"storageClassName": "fast", "pools": listed}]},
    }
    ledger.run(
        driver_rows.patch, DRIVER, type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    )
    volumes = [generic(f"v{number}", size) for number, size in enumerate(sizes)]
    body = {"Pod": pod(*volumes), "Nodes": None, "NodeNames": ["n20", "n10", "n30", "n0"]}
    queries = NodeQueries(ledger, scoring_shape.parse(shape))
    for lease, verb in ((None, "prioritize"), (60.0, "filter")):
        tester = testing.TestClient(
            extender_app.application(Extender(queries, cluster, lease), BodyLimit(LIMIT, "limit"))
        )
        answer = tester.simulate_post(f"/k8s/{verb}", json=body).json
        if verb == "filter":
            assert answer["NodeNames"] == [chosen]
        else:
            scores = {each["Host"]: each["Score"] for each in answer}
            assert scores["n0"] == 0
            assert [name for name, score in scores.items() if score == max(scores.values())] == [chosen]
    ledger.close()


def test_with_a_lease_one_node_is_returned_and_claimed(ledger: database.Database, cluster: ClusterReader) -> None:
    tester = client(ledger, cluster, lease=60)
    first = send(tester, claim("six"), uid="a")
    assert first["NodeNames"] == ["n2"]
    assert first["FailedNodes"] == {}
    assert send(tester, claim("six"), uid="b")["NodeNames"] == ["n1"]
    assert send(tester, claim("six"), uid="c")["NodeNames"] == ["n2"]
    assert send(tester, claim("six"), uid="a")["NodeNames"] == ["n2"]
    refused = send(tester, claim("six"), uid="d")
    assert (refused["NodeNames"], refused["FailedNodes"]["n2"]) == (
        [],
        "volume 'six' of 6Gi (storage class 'fast'): pool two has 0 left of 12Gi",
    )
    with ledger.reading() as session:
        [kept] = capacity_claims.list_for_holder(session, "b")
    assert (kept.node, kept.volume, kept.pool) == ("n1", "six", "one")
    # A pod without unprovisioned volumes may go to any node.
    assert send(tester, claim("bound"), uid="e")["NodeNames"] == ["n1", "n2", "n3"]


def evictable(tester: testing.TestClient, victims: dict[str, list[str]], *volumes: dict[str, Any]) -> set[str]:
    """Return the nodes from which pods may be evicted, for both forms of the call."""
    meta = {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in victims.items()}
    whole = {node: {"Pods": [{"metadata": {"uid": uid}} for uid in uids]} for node, uids in victims.items()}
    answers = []
    for form, sent in (("NodeNameToMetaVictims", meta), ("NodeNameToVictims", whole)):
        answer = tester.simulate_post("/k8s/preempt", json={"Pod": pod(*volumes), form: sent})
        assert (answer.status_code, answer.json.keys()) == (200, {"NodeNameToMetaVictims"}), answer.text
        for node, kept in answer.json["NodeNameToMetaVictims"].items():
            assert kept == {**meta[node], "NumPDBViolations": 0}
        answers.append(set(answer.json["NodeNameToMetaVictims"]))
    assert answers[0] == answers[1]
    return answers[0]


def test_pods_are_evicted_only_where_the_volumes_fit(ledger: database.Database, cluster: ClusterReader) -> None:
    tester, victims = client(ledger, cluster, lease=60), {"n1": ["a"], "n2": ["b"], "n3": ["c"]}
    assert evictable(tester, victims, claim("six")) == {"n1", "n2"}
    assert evictable(tester, victims, claim("six"), claim("also-six")) == {"n2"}
    assert evictable(tester, victims, generic("large", "13Gi")) == set()
    assert evictable(tester, victims, claim("bound")) == {"n1", "n2", "n3"}
    # The claim of another pod counts, that of the pod itself does not.
    send(tester, generic("large", "11Gi"), uid="other")
    assert evictable(tester, victims, claim("six")) == {"n1"}
    send(tester, claim("six"), uid="u1")
    assert evictable(tester, victims, claim("six")) == {"n1"}
    # kube-scheduler before 1.21 sends nodes that the extender refused, without victims, and crashes at them.
    assert evictable(tester, {"n2": [], "n3": []}, claim("six")) == set()


def test_nothing_is_evicted_if_the_volumes_cannot_be_looked_up(
    ledger: database.Database, cluster: ClusterReader
) -> None:
    body = {"Pod": pod(claim("nobody")), "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "a"}]}}}
    answer = client(ledger, cluster).simulate_post("/k8s/preempt", json=body)
    # kube-scheduler reads the answer only with status 200.
    assert (answer.status_code, "NodeNameToMetaVictims" in answer.json) == (503, False)


def test_claims_held_for_pods_are_counted_until_they_are_released(
    ledger: database.Database, cluster: ClusterReader
) -> None:
    tester = client(ledger, cluster, lease=60)

    def held() -> tuple[float, float]:
        text = gzip.decompress(LedgerPage(ledger, 60, 10, 0, [ClaimSeries(10)]).compressed(None)).decode()
        values = {
            sample.name: sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels == {"driver": DRIVER}
        }
        return values["tonnage_csi_claims"], values["tonnage_csi_claimed_bytes"]

    assert held() == (0, 0)
    send(tester, claim("six"), uid="a")
    send(tester, claim("four"), uid="b")
    # A repeated request of a pod, one without volumes, and one that fits nowhere hold nothing more.
    send(tester, claim("six"), uid="a")
    send(tester, claim("bound"), uid="c")
    send(tester, claim("old"), uid="d")
    assert held() == (2, 10 * 2**30)
    ledger.run(capacity_claims.release, "a")
    assert held() == (1, 4 * 2**30)


def test_lookup_failures_are_reported(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, tmp_path: pathlib.Path
) -> None:
    kube.add_claim("strange", "6 Gi", "fast")
    strange = send(client(ledger, cluster), claim("strange"))["Error"]
    assert strange.startswith("the API server of Kubernetes sent no valid PersistentVolumeClaim: '6 Gi' is no quantity")
    answer = send(client(ledger, cluster), claim("nobody"))
    assert (answer["NodeNames"], answer["Error"]) == (None, "claim default/nobody is not there")
    with KubeApi() as gone:
        path = gone.kubeconfig(tmp_path)
    unreachable = client(ledger, ClusterReader(path))
    assert "the API server of Kubernetes does not answer" in send(unreachable, claim("six"))["Error"]
    assert {each["Score"] for each in send(unreachable, claim("six"), verb="prioritize")} == {0}


def test_database_details_do_not_appear_in_the_response(
    cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = database.Database(database.create_engine("postgresql+psycopg://tonnage:hush@127.0.0.1:1/ledger"), 0)
    answer = send(client(unreachable, cluster), claim("six"))
    assert (answer["NodeNames"], "log of tonnage-api" in answer["Error"]) == (None, True)
    assert "127.0.0.1" not in answer["Error"]
    assert "127.0.0.1" in caplog.text
    unreachable.close()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"\xff\xfe", 400),
        (b"[" * 60_000, 400),
        (b'{"Pod": null, "NodeNames": []}', 400),
        (b'{"Pod": {"metadata": {}}}', 400),
        (b'{"Pod": {"metadata": {"name": "a\\u0000"}}, "NodeNames": []}', 400),
        (b'{"Pod": {"metadata": {}}, "NodeNames": [7]}', 400),
        (b'{"Pod": {"metadata": {}}, "NodeNames": ["' + b"n" * 254 + b'"]}', 400),
        (b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{}]}}', 400),
        (b'{"Pod": {"metadata": {}, "spec": {"volumes": [{"name": "a", "csi": {"fsSize": "1K"}}]}}}', 400),
        (b'{"Pod": {"metadata": {}}, "NodeNames": []}', 200),
        (b'{"Pod": {"metadata": {}}, "Nodes": {"items": null}}', 200),
        (b'{"Pod": {"metadata": {}, "more": 1}, "NodeNames": ["a"], "More": {}}', 200),
        (b'{"Pod": {"metadata": {}}, "NodeNames": [], "x": "' + b"x" * LIMIT + b'"}', 413),
    ],
)
def test_malformed_and_huge_bodies_are_refused(
    ledger: database.Database, cluster: ClusterReader, raw: bytes, status: int
) -> None:
    tester = client(ledger, cluster)
    answer = tester.simulate_post("/k8s/filter", body=raw)
    assert answer.status_code == status, answer.text
    assert answer.json.keys() == KEYS
    assert bool(answer.json["Error"]) == (status != 200)
    assert tester.simulate_post("/k8s/prioritize", body=raw).status_code == status


@pytest.mark.parametrize(("method", "path"), [("POST", "/k8s/nowhere"), ("PUT", "/k8s/filter")])
def test_huge_bodies_are_refused_on_all_paths(
    ledger: database.Database, cluster: ClusterReader, method: str, path: str
) -> None:
    answer = client(ledger, cluster).simulate_request(method, path, body=b"x" * 2 * LIMIT)
    assert (answer.status_code, answer.json.keys()) == (413, KEYS)


def test_huge_bodies_get_a_response_over_a_real_connection(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    """A client that is still sending receives the response, and other clients are served."""
    server = build(file_ledger, kube, tmp_path, extender=True, extender_max_request_body_size=LIMIT)
    assert server is not None
    server.start()
    try:
        url = f"{server.url}/k8s/filter"
        huge = b'{"Pod": {"metadata": {}}, "NodeNames": ["' + b"n" * 10 * LIMIT + b'"]}'
        with requests.Session() as session:
            for body in (huge, iter([huge[:LIMIT], huge[LIMIT:]])):
                answer = session.post(url, data=body, timeout=20)
                assert (answer.status_code, answer.json().keys()) == (413, KEYS)
                assert "extender_max_request_body_size" in answer.json()["Error"]
            served = session.post(url, json={"Pod": pod(), "NodeNames": ["n1"]}, timeout=20)
            assert served.json()["NodeNames"] == ["n1"]
    finally:
        server.stop()


def test_an_incomplete_body_is_no_request(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = build(file_ledger, kube, tmp_path, extender=True)
    assert server is not None
    server.start()
    try:
        host, _, port = server.url.removeprefix("http://").partition(":")
        for sent in (b"Content-Length: 99999999999\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\nfff\r\n{"):
            with socket.create_connection((host, int(port)), timeout=20) as connected:
                connected.sendall(b"POST /k8s/filter HTTP/1.1\r\nHost: x\r\n" + sent)
                connected.shutdown(socket.SHUT_WR)
                assert connected.makefile("rb").read() == b""
    finally:
        server.stop()
    assert not [each for each in caplog.records if each.exc_info and each.name.startswith("tonnage.api")]


def test_other_paths_and_methods_are_refused(ledger: database.Database, cluster: ClusterReader) -> None:
    tester = client(ledger, cluster)
    assert (tester.simulate_get("/k8s/filter").status_code, tester.simulate_post("/k8s/bind").status_code) == (
        405,
        404,
    )


def test_unexpected_errors_are_logged_and_reported(
    ledger: database.Database,
    cluster: ClusterReader,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**options: object) -> None:
        raise RuntimeError("a mistake of the program")

    monkeypatch.setattr(ledger, "reading", fail)
    tester = client(ledger, cluster)
    answer = tester.simulate_post("/k8s/filter", json={"Pod": pod(claim("six")), "NodeNames": ["n1"]})
    assert (answer.status_code, answer.json.keys()) == (500, KEYS)
    assert "log of tonnage-api" in answer.json["Error"]
    assert "POST /k8s/filter failed" in caplog.text


def build(ledger: database.Database, kube: KubeApi, folder: pathlib.Path, **options: Any) -> Server | None:
    conf = configuration(enabled_extensions=["kubernetes"])
    for name, value in {"kubeconfig": kube.kubeconfig(folder), "extender_listen_port": 0, **options}.items():
        conf.set_override(name, value, "kubernetes")
    return extender_app.build(conf, ledger, timeout=60.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extender_listen": "192.0.2.1"}, "may be reached from other machines"),
        ({"extender_cert_file": "/nowhere"}, "extender_key_file is not set"),
        (
            {f"extender_{name}_file": "/nowhere" for name in ("cert", "key", "ca")},
            "extender_cert_file = /nowhere: this file cannot be read",
        ),
        ({"kubeconfig": "/nowhere"}, "kubeconfig = /nowhere"),
        ({"kubeconfig": None}, "kubeconfig is not set, and this is no pod"),
    ],
)
def test_an_unusable_configuration_is_refused_at_start(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        build(ledger, kube, tmp_path, extender=True, **options)
    assert build(ledger, kube, tmp_path, **options) is None


def certificate(folder: pathlib.Path, name: str, authority: str | None = None) -> None:
    """Create a key and a certificate, signed by an authority that was created before, or by itself."""
    more = [] if authority is None else ["-CA", folder / f"{authority}.pem", "-CAkey", folder / f"{authority}.key"]
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ),
            *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"),
            *more,
        ],
        check=True,
        capture_output=True,
    )


def test_only_clients_with_a_certificate_of_the_authority_are_accepted(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    certificate(tmp_path, "authority")
    for name in ("server", "scheduler"):
        certificate(tmp_path, name, "authority")
    certificate(tmp_path, "stranger")
    files = {
        "extender_cert_file": str(tmp_path / "server.pem"),
        "extender_key_file": str(tmp_path / "server.key"),
        "extender_ca_file": str(tmp_path / "authority.pem"),
    }
    server = build(file_ledger, kube, tmp_path, extender=True, **files)
    assert server is not None
    server.start()
    try:
        assert server.url.startswith("https://")
        body = {"Pod": pod(), "NodeNames": ["n1"]}

        def post(name: str | None) -> requests.Response:
            cert = None if name is None else (str(tmp_path / f"{name}.pem"), str(tmp_path / f"{name}.key"))
            authority = str(tmp_path / "authority.pem")
            return requests.post(f"{server.url}/k8s/filter", json=body, cert=cert, verify=authority, timeout=60)

        address = urlsplit(server.url)
        with contextlib.ExitStack() as slow:
            # Clients that do not complete a handshake block no others.
            for begun in (b"", b"\x16\x03\x01\x02\x00") * 500:
                one = slow.enter_context(socket.create_connection((str(address.hostname), int(address.port or 0))))
                one.sendall(begun)
            assert post("scheduler").json()["NodeNames"] == ["n1"]
        with pytest.raises((requests.ConnectionError, ssl.SSLError)):
            post("stranger")
        assert post(None).status_code == 403
        # Probes have no certificate.
        for path in ("healthz", "readyz"):
            answer = requests.get(f"{server.url}/{path}", verify=files["extender_ca_file"], timeout=60)
            assert (answer.status_code, answer.text) == (200, "ok")
        large = requests.post(f"{server.url}/healthz", data="x", verify=files["extender_ca_file"], timeout=60)
        assert large.status_code == 403
    finally:
        server.stop()


def test_it_is_ready_while_the_ledger_and_the_cluster_answer(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, tmp_path: pathlib.Path
) -> None:
    def status(tester: testing.TestClient, path: str) -> tuple[int, str]:
        answer = tester.simulate_get(path)
        return answer.status_code, answer.text

    assert status(client(ledger, cluster), "/readyz") == (200, "ok")
    gone = database.Database(database.create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    with KubeApi() as other:
        absent = ClusterReader(other.kubeconfig(tmp_path))
    tester = client(gone, absent)
    assert status(tester, "/readyz") == (
        503,
        "the database of the ledger does not answer; the API server of Kubernetes does not answer",
    )
    assert status(tester, "/healthz") == (200, "ok")
    gone.close()


def test_what_is_read_before_the_first_pod_is_no_garbage_to_search(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    server = build(file_ledger, kube, tmp_path, extender=True)
    assert server is not None
    gc.unfreeze()
    server.start()
    try:
        wait_until(lambda: gc.get_freeze_count() > 0)
        assert requests.get(f"{server.url}/readyz", timeout=20).status_code == 200
    finally:
        server.stop()


def test_the_claims_of_a_deleted_pod_are_released(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    server = build(file_ledger, kube, tmp_path, extender=True, extender_reserves=True)
    assert server is not None
    server.start()
    try:
        kube.add_pod("redis", "given-by-the-server")

        def claims_for_pod() -> list[capacity_claims.Claim]:
            with file_ledger.reading() as session:
                return capacity_claims.list_for_holder(session, "default:redis")

        # The pod has no uid in the request, so its name is the holder.
        body = {"Pod": pod(claim("six"), uid=""), "NodeNames": ["n1"]}
        assert requests.post(f"{server.url}/k8s/filter", json=body, timeout=20).json()["NodeNames"] == ["n1"]
        wait_until(lambda: "/api/v1/namespaces/default/pods/redis" in kube.asked and bool(kube.watched))
        assert [each.volume for each in claims_for_pod()] == ["six"]
        kube.remove_pod("redis")
        wait_until(lambda: not claims_for_pod())
    finally:
        server.stop()


def test_the_capacity_that_provisioners_publish_is_taken_over(
    file_ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    kube.add_class("published", "hostpath.csi.k8s.io")
    body = {
        "metadata": {"name": "csisc-1", "namespace": "default", "labels": {}},
        "storageClassName": "published",
        "nodeTopology": {"matchLabels": {"node": "n1"}},
        "capacity": "10Gi",
    }
    kube.add_capacity(body)
    server = build(file_ledger, kube, tmp_path, extender=True, read_capacity_objects=True)
    assert server is not None
    server.start()
    try:

        def pools() -> list[str]:
            with file_ledger.reading() as session:
                names = [stored.name for stored in driver_rows.list_all(session)]
                if "hostpath.csi.k8s.io" not in names:
                    return []
                storage = driver_rows.find(session, "hostpath.csi.k8s.io").storage
                return [pool.name for part in storage for pool in part.pools]

        wait_until(lambda: pools() == ["node = n1"])
    finally:
        server.stop()
