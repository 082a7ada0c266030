# SPDX-License-Identifier: Apache-2.0
"""The admission webhook over HTTPS, beside the extender."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from falcon import testing
from oslo_config import cfg

from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.extender.test_extender_server import certificate
from tests.unit.extensions.kubernetes.fit import figures
from tonnage.api import options as api_options
from tonnage.capacity import errors
from tonnage.extensions.kubernetes import options as kubernetes_options
from tonnage.extensions.kubernetes.admission import admission_server
from tonnage.extensions.kubernetes.admission.volume_admission import VolumeAdmission
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.extender import extender_server
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    """A cluster with a pod that waits for a claim."""
    with KubeApi() as kube:
        kube.add_node("n1")
        kube.add_class("fast", figures.DRIVER)
        kube.add_claim("data", "6Gi", "fast")
        kube.add_pod("redis", "u1", claims=["data"])
        yield kube


@pytest.fixture
def certificates(tmp_path: pathlib.Path) -> dict[str, str]:
    """The options of TLS, with a certificate for this machine."""
    certificate(tmp_path, "authority")
    certificate(tmp_path, "server", "authority")
    files = {"cert": "server.pem", "key": "server.key", "ca": "authority.pem"}
    return {f"extender_{name}_file": str(tmp_path / file) for name, file in files.items()}


def configured(kube: KubeApi, folder: pathlib.Path, **options: Any) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    api_options.register(conf)
    kubernetes_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    ports = {"extender_listen_port": 0, "admission_listen_port": 0}
    settings = {"extender": True, "admission": True, "extender_reserves": True, **ports, **options}
    for name, value in {"kubeconfig": kube.kubeconfig(folder), **settings}.items():
        conf.set_override(name, value, "kubernetes")
    return conf


def call(size: str = "6Gi") -> dict[str, Any]:
    """Return the call of the API server for a claim that gets a node."""
    claim = {
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        },
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": size}}},
    }
    before = {**claim, "metadata": {"name": "data", "namespace": "default"}}
    request = {"uid": "r1", "operation": "UPDATE", "object": claim, "oldObject": before}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_caller_without_a_certificate_is_answered_here_alone(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, certificates: dict[str, str]
) -> None:
    figures.write(ledger)
    server = extender_server.build(configured(kube, tmp_path, **certificates), ledger, timeout=60.0)
    assert isinstance(server, extender_server.ExtenderServer)
    server.start()
    try:
        assert server.admission is not None
        authority = certificates["extender_ca_file"]
        answer = requests.post(f"{server.admission.url}/k8s/admit", json=call(), verify=authority, timeout=60)
        assert answer.json() == {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": "r1", "allowed": True},
        }
        for url, status in ((f"{server.admission.url}/k8s/filter", 404), (f"{server.url}/k8s/admit", 403)):
            assert requests.post(url, json=call(), verify=authority, timeout=60).status_code == status
        assert [claim.volume for claim in figures.claims_of(ledger)] == ["data"]
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"extender_reserves": False}, "set extender_reserves = true"), ({}, "needs a certificate")],
)
def test_an_admission_that_cannot_work_is_refused_at_the_start(
    ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        extender_server.build(configured(kube, tmp_path, **options), ledger)


@pytest.fixture
def app(ledger: database.Database, kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[testing.TestClient]:
    figures.write(ledger, "5Gi")
    cluster = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0)
    admission = VolumeAdmission(NodeQueries(ledger), cluster, 600.0, lambda: None)
    yield testing.TestClient(admission_server.application(admission))
    cluster.api.close()


def test_the_reason_of_a_refusal_is_the_error_of_the_change(app: testing.TestClient) -> None:
    answer = app.simulate_post(admission_server.PATH, body=json.dumps(call()))
    assert (answer.status_code, answer.json["response"]) == (
        200,
        {
            "uid": "r1",
            "allowed": False,
            "status": {
                "message": "node n1 does not take the volumes of pod default/redis: volume 'data' of 6Gi (storage "
                "class 'fast'): pool p has 5Gi left"
            },
        },
    )


def test_what_cannot_be_decided_has_a_status_for_the_failure_policy(
    app: testing.TestClient, kube: KubeApi, caplog: pytest.LogCaptureFixture
) -> None:
    kube.failing["GET"] = 503
    answer = app.simulate_post(admission_server.PATH, body=json.dumps(call()))
    assert answer.status_code == 503
    assert "the API server of Kubernetes refused a look" in answer.text
    assert "failurePolicy" in caplog.text


@pytest.mark.parametrize(
    ("body", "status"), [("{", 400), ('"\\u0000"', 400), ("{}", 400), ("x" * (4 * 2**20 + 1), 413)]
)
def test_a_malformed_call_has_a_status(app: testing.TestClient, body: str, status: int) -> None:
    assert app.simulate_post(admission_server.PATH, body=body).status_code == status


def test_a_failure_of_the_ledger_is_not_shown(kube: KubeApi, tmp_path: pathlib.Path) -> None:
    gone = database.Database(database.create_engine("postgresql+psycopg://tonnage:hush@127.0.0.1:1/ledger"), 0)
    cluster = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0)
    admission = VolumeAdmission(NodeQueries(gone), cluster, 600.0, lambda: None)
    answer = testing.TestClient(admission_server.application(admission)).simulate_post(
        admission_server.PATH, body=json.dumps(call())
    )
    assert answer.status_code == 503
    assert answer.text == "Tonnage cannot look up its figures now: the log of tonnage-api has more"
    cluster.api.close()
    gone.close()
