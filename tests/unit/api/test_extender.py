# SPDX-License-Identifier: Apache-2.0
"""The extender as kube-scheduler talks to it: conversations replayed, over a real listener where that matters."""

import contextlib
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

from tests.servers.kube_api import CLASSES, NODES, KubeApi
from tests.unit.api.cluster import configuration, wait_until
from tonnage.api import extender as extender_app
from tonnage.api.auth import mutual_tls
from tonnage.api.http.request_limits import Limit
from tonnage.api.http.server import Server
from tonnage.capacity import errors, type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.k8s.cluster.cluster_reader import Cluster
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.extender_protocol import Extender
from tonnage.k8s.fit.node_queries import Capacity
from tonnage.ledger import models
from tonnage.ledger.db import database

DRIVER = "disk.example.com"
KEYS = {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
LIMIT = 100_000


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
        api.add_claim("old", "11Gi", None, annotations={"volume.beta.kubernetes.io/storage-class": "fast"})
        yield api


@pytest.fixture(scope="module")
def cluster(kube: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(kube.kubeconfig(tmp_path_factory.mktemp("kube")))


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    """A ledger where n1 has 10 Gi, n2 12 Gi (by its zone), n3 nothing; and inline volumes of 3 Gi on n1 and n2."""
    made = stocked("sqlite://")
    yield made
    made.close()


@pytest.fixture
def lasting(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """The same, for several threads at a time."""
    made = stocked(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield made
    made.close()


def stocked(url: str) -> database.Database:
    engine = database.create_engine(url)
    models.Base.metadata.create_all(engine)
    made = database.Database(engine)
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
    made.run(driver_rows.patch, DRIVER, patch)
    return made


def client(ledger: database.Database, cluster: Cluster, lease: float | None = None) -> testing.TestClient:
    return testing.TestClient(
        extender_app.application(Extender(Capacity(ledger), cluster, lease), Limit(LIMIT, "limit"))
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


def ask(asked: testing.TestClient, *volumes: dict[str, Any], verb: str = "filter", uid: str = "u1") -> Any:
    """Ask by names, as with nodeCacheCapable: true."""
    body = {"Pod": pod(*volumes, uid=uid), "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}
    answer = asked.simulate_post(f"/k8s/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    if verb == "filter":
        assert answer.json.keys() == KEYS
    return answer.json


def test_all_claims_of_a_pod_are_fitted_together(ledger: database.Database, cluster: Cluster) -> None:
    asked = client(ledger, cluster)
    answer = ask(asked, claim("six"), claim("also-six"))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {
            "n1": "volumes 'six' 6Gi + 'also-six' 6Gi, together 12Gi, do not fit: pool one has 10Gi left",
            "n3": (away := f"no pool of {DRIVER} for storage class 'fast' is reached from this node"),
        },
        # No pod that is evicted makes room there. Before 1.21 only the former is read.
        "FailedAndUnresolvableNodes": {"n3": away},
        "Error": "",
    }
    assert ask(asked, claim("six"), claim("four"))["NodeNames"] == ["n1", "n2"]
    # The same claim twice in a pod is one volume.
    assert ask(asked, claim("six"), {**claim("six"), "name": "again"})["NodeNames"] == ["n1", "n2"]


def test_whole_nodes_come_back_as_they_were_sent(ledger: database.Database, cluster: Cluster) -> None:
    body = {"Pod": pod(claim("six"), claim("also-six")), "Nodes": {"metadata": {}, "items": WHOLE}, "NodeNames": None}
    answer = client(ledger, cluster).simulate_post("/k8s/filter", json=body).json
    assert answer["Nodes"] == {"items": [WHOLE[1]]}
    assert answer["NodeNames"] is None
    assert sorted(answer["FailedNodes"]) == ["n1", "n3"]
    scores = client(ledger, cluster).simulate_post("/k8s/prioritize", json=body).json
    assert scores == [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 0}, {"Host": "n3", "Score": 0}]


@pytest.mark.parametrize(
    ("volumes", "taking"),
    [
        ([], ["n1", "n2", "n3"]),
        ([claim("bound"), claim("by-hand"), claim("at-once")], ["n1", "n2", "n3"]),
        # Its class is said the way it was before 1.6, which counts to this day.
        ([claim("old")], ["n2"]),
        ([inline("3Gi")], ["n1", "n2"]),
        ([inline("3.1Gi")], []),
        ([inline(None)], ["n1", "n2", "n3"]),
        ([generic("data", "11Gi")], ["n2"]),
        ([generic("data", "4Gi"), claim("six"), inline("1Gi")], ["n1", "n2"]),
        # Its claim is there already, with a size of its own.
        ([generic("scratch", "1Gi"), claim("four")], []),
    ],
)
def test_which_volumes_count(
    ledger: database.Database, cluster: Cluster, volumes: list[dict[str, Any]], taking: list[str]
) -> None:
    assert ask(client(ledger, cluster), *volumes)["NodeNames"] == taking


def test_of_nodes_no_more_is_read_than_is_needed(ledger: database.Database, kube: KubeApi, cluster: Cluster) -> None:
    asked = client(ledger, cluster)
    for _ in range(2):
        ask(asked, claim("six"))
    assert kube.accepted[NODES].startswith("application/json;as=PartialObjectMetadataList;")
    assert kube.asked.count(NODES) == kube.asked.count(f"{CLASSES}/fast") == 1


def test_scores_are_what_is_left(ledger: database.Database, cluster: Cluster) -> None:
    scores = ask(client(ledger, cluster), claim("six"), verb="prioritize")
    assert scores == [{"Host": "n1", "Score": 4}, {"Host": "n2", "Score": 5}, {"Host": "n3", "Score": 0}]
    assert {each["Score"] for each in ask(client(ledger, cluster), verb="prioritize")} == {10}


def test_in_reserving_mode_one_node_is_left_and_held(ledger: database.Database, cluster: Cluster) -> None:
    asked = client(ledger, cluster, lease=60)
    first = ask(asked, claim("six"), uid="a")
    assert first["NodeNames"] == ["n2"]
    assert first["FailedNodes"]["n1"] == "what the pod needs is held for it on n2"
    assert ask(asked, claim("six"), uid="b")["NodeNames"] == ["n1"]
    assert ask(asked, claim("six"), uid="c")["NodeNames"] == ["n2"]
    assert ask(asked, claim("six"), uid="a")["NodeNames"] == ["n2"]
    refused = ask(asked, claim("six"), uid="d")
    assert (refused["NodeNames"], refused["FailedNodes"]["n2"]) == (
        [],
        "volume 'six' of 6Gi (storage class 'fast'): pool two has 0 left of 12Gi",
    )
    with ledger.reading() as session:
        [kept] = capacity_claims.of_holder(session, "b")
    assert (kept.node, kept.volume, kept.pool) == ("n1", "six", "one")
    # What needs nothing is not sent anywhere.
    assert ask(asked, claim("bound"), uid="e")["NodeNames"] == ["n1", "n2", "n3"]


def test_what_cannot_be_looked_up_is_said(
    ledger: database.Database, kube: KubeApi, cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    kube.add_claim("strange", "6 Gi", "fast")
    strange = ask(client(ledger, cluster), claim("strange"))["Error"]
    assert strange.startswith(
        "the API server of Kubernetes sent what is no PersistentVolumeClaim: '6 Gi' is no quantity"
    )
    answer = ask(client(ledger, cluster), claim("nobody"))
    assert (answer["NodeNames"], answer["Error"]) == (None, "claim default/nobody is not there")
    with KubeApi() as gone:
        path = gone.kubeconfig(tmp_path)
    away = client(ledger, Cluster(path))
    assert "the API server of Kubernetes does not answer" in ask(away, claim("six"))["Error"]
    assert {each["Score"] for each in ask(away, claim("six"), verb="prioritize")} == {0}


def test_of_the_database_nothing_is_told_to_those_who_see_a_pods_events(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    away = database.Database(database.create_engine("postgresql+psycopg://tonnage:hush@127.0.0.1:1/ledger"), 0)
    answer = ask(client(away, cluster), claim("six"))
    assert (answer["NodeNames"], "log of tonnage-api" in answer["Error"]) == (None, True)
    assert "127.0.0.1" not in answer["Error"]
    assert "127.0.0.1" in caplog.text
    away.close()


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
def test_wrong_and_huge_bodies(ledger: database.Database, cluster: Cluster, raw: bytes, status: int) -> None:
    asked = client(ledger, cluster)
    answer = asked.simulate_post("/k8s/filter", body=raw)
    assert answer.status_code == status, answer.text
    assert answer.json.keys() == KEYS
    assert bool(answer.json["Error"]) == (status != 200)
    assert asked.simulate_post("/k8s/prioritize", body=raw).status_code == status


@pytest.mark.parametrize(("method", "path"), [("POST", "/k8s/nowhere"), ("PUT", "/k8s/filter")])
def test_huge_bodies_are_refused_wherever_they_go(
    ledger: database.Database, cluster: Cluster, method: str, path: str
) -> None:
    answer = client(ledger, cluster).simulate_request(method, path, body=b"x" * 2 * LIMIT)
    assert (answer.status_code, answer.json.keys()) == (413, KEYS)


def test_bodies_that_are_too_large_are_answered_over_the_wire(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path
) -> None:
    """Whoever is still sending has to get to read why nobody listens, and the others are served."""
    server = build(ledger, kube, tmp_path, extender=True, extender_max_request_body_size=LIMIT)
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


def test_a_body_that_does_not_come_is_no_failure_of_the_server(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = build(ledger, kube, tmp_path, extender=True)
    assert server is not None
    server.start()
    try:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connected:
            connected.sendall(b"POST /k8s/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{")
            connected.shutdown(socket.SHUT_WR)
            answer = connected.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 413 "), answer
        with socket.create_connection((host, int(port)), timeout=20) as connected:
            connected.sendall(b"POST /k8s/filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n{")
            connected.shutdown(socket.SHUT_WR)
            answer = connected.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 400 "), answer
    finally:
        server.stop()
    assert "Traceback" not in caplog.text


def test_other_paths_and_methods(ledger: database.Database, cluster: Cluster) -> None:
    asked = client(ledger, cluster)
    assert (asked.simulate_get("/k8s/filter").status_code, asked.simulate_post("/k8s/preempt").status_code) == (
        405,
        404,
    )


def test_what_nobody_thought_of_is_logged_and_answered(
    ledger: database.Database, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.close()
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE gone (a INT)")
    asked = client(ledger, cluster)
    answer = asked.simulate_post("/k8s/filter", json={"Pod": pod(claim("six")), "NodeNames": ["n1"]})
    assert (answer.status_code, answer.json.keys()) == (500, KEYS)
    assert "log of tonnage-api" in answer.json["Error"]
    assert "POST /k8s/filter failed" in caplog.text


def build(ledger: database.Database, kube: KubeApi, folder: pathlib.Path, **options: Any) -> Server | None:
    conf = configuration()
    for name, value in {"kubeconfig": kube.kubeconfig(folder), "extender_listen_port": 0, **options}.items():
        conf.set_override(name, value, "kubernetes")
    return extender_app.build(conf, ledger)


@pytest.mark.parametrize(
    ("options", "words"),
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
def test_what_cannot_work_is_refused_at_start(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=words):
        build(ledger, kube, tmp_path, extender=True, **options)
    assert build(ledger, kube, tmp_path, **options) is None


def certificate(folder: pathlib.Path, name: str, authority: str | None = None) -> None:
    """Make a key and a certificate, signed by an authority that was made before, or by itself."""
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


def test_with_certificates_only_their_authoritys_clients_are_let_in(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutual_tls, "_PATIENCE", 300.0)
    certificate(tmp_path, "authority")
    for name in ("server", "scheduler"):
        certificate(tmp_path, name, "authority")
    certificate(tmp_path, "stranger")
    files = {
        "extender_cert_file": str(tmp_path / "server.pem"),
        "extender_key_file": str(tmp_path / "server.key"),
        "extender_ca_file": str(tmp_path / "authority.pem"),
    }
    server = build(ledger, kube, tmp_path, extender=True, **files)
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
        with contextlib.closing(socket.create_connection((str(address.hostname), int(address.port or 0)))):
            # Whoever says nothing keeps nobody waiting.
            assert post("scheduler").json()["NodeNames"] == ["n1"]
        for name in ("stranger", None):
            with pytest.raises((requests.ConnectionError, ssl.SSLError)):
                post(name)
    finally:
        server.stop()


def test_what_is_held_for_a_pod_ends_with_it(lasting: database.Database, kube: KubeApi, tmp_path: pathlib.Path) -> None:
    server = build(lasting, kube, tmp_path, extender=True, extender_reserves=True)
    assert server is not None
    server.start()
    try:
        kube.add_pod("redis", "given-by-the-server")

        def held() -> list[capacity_claims.Claim]:
            with lasting.reading() as session:
                return capacity_claims.of_holder(session, "default:redis")

        # Of those who send no uid it is known by its name.
        body = {"Pod": pod(claim("six"), uid=""), "NodeNames": ["n1"]}
        assert requests.post(f"{server.url}/k8s/filter", json=body, timeout=20).json()["NodeNames"] == ["n1"]
        wait_until(lambda: "/api/v1/namespaces/default/pods/redis" in kube.asked and bool(kube.watched))
        assert [each.volume for each in held()] == ["six"]
        kube.remove_pod("redis")
        wait_until(lambda: not held())
    finally:
        server.stop()
