# SPDX-License-Identifier: Apache-2.0
"""Admission of nodes for the volumes of pods, with a real kube-scheduler that asks no extender."""

import base64
import logging
import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
from kubernetes import client
from oslo_config import cfg

from tests.kubernetes import installation, manifests
from tests.kubernetes.cluster import CLASS, DRIVER, SELECTED_NODE, Cluster, wait_until
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.provisioner import Provisioner
from tests.kubernetes.servers import ApiServer
from tests.servers import ledger_schema
from tests.unit.extensions.kubernetes.extender.test_extender_server import certificate
from tonnage.api import options as api_options
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes import options as kubernetes_options
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.extender import extender_server
from tonnage.ledger.db import database

LOG = logging.getLogger(__name__)

pytestmark = pytest.mark.kubernetes

#: The webhook of the manifests.
_WEBHOOK = manifests.find("admission/webhook.yaml", "ValidatingWebhookConfiguration", "tonnage-admission")


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


@pytest.fixture
def set_capacities(ledger: database.Database) -> Callable[..., None]:
    """Return a function that sets the capacity of each node."""

    def change(**sizes: str) -> None:
        pools = [{"name": node, "nodeList": [node], "capacity": size} for node, size in sizes.items()]
        raw = {
            "spec": {"capacityTracking": True},
            "status": {"storage": [{"storageClassName": CLASS, "pools": pools}]},
        }
        ledger.run(
            driver_rows.patch, DRIVER, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
        )

    return change


@pytest.fixture
def extender(
    ledger: database.Database, api_server: ApiServer, cluster: Cluster, tmp_path: pathlib.Path
) -> Iterator[extender_server.ExtenderServer]:
    """An extender with the rights of the manifests, whose admission the API server asks."""
    certificate(tmp_path, "authority")
    certificate(tmp_path, "server", "authority")
    conf = cfg.ConfigOpts()
    api_options.register(conf)
    kubernetes_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    settings = {
        "kubeconfig": api_server.kubeconfig(cluster.token(manifests.EXTENDER)),
        "extender": True,
        "extender_reserves": True,
        "extender_wake_claim": "tonnage/tonnage-wake",
        "extender_listen_port": 0,
        "admission": True,
        "admission_listen_port": 0,
        "extender_cert_file": str(tmp_path / "server.pem"),
        "extender_key_file": str(tmp_path / "server.key"),
        "extender_ca_file": str(tmp_path / "authority.pem"),
    }
    for name, value in settings.items():
        conf.set_override(name, value, "kubernetes")
    server = extender_server.build(conf, ledger)
    assert isinstance(server, extender_server.ExtenderServer)
    server.start()
    assert server.admission is not None
    [webhook] = _WEBHOOK["webhooks"]
    bundle = base64.b64encode((tmp_path / "authority.pem").read_bytes()).decode()
    connection = {"url": f"{server.admission.url}/k8s/admit", "caBundle": bundle}
    body = {**_WEBHOOK, "webhooks": [{**webhook, "clientConfig": connection}]}
    api = client.AdmissionregistrationV1Api(cluster.api)
    api.create_validating_webhook_configuration(body)
    yield server
    api.delete_validating_webhook_configuration(_WEBHOOK["metadata"]["name"])
    server.stop()


@pytest.fixture
def plain(kubelet: Kubelet, extender: extender_server.ExtenderServer) -> Iterator[str]:
    """A kube-scheduler without extenders, by its name."""
    with installation.scheduler(kubelet, extenders=[], podMaxBackoffSeconds=1) as name:
        yield name


def selected(cluster: Cluster, claim: str) -> str | None:
    return (cluster.claims()[claim].metadata.annotations or {}).get(SELECTED_NODE)


def test_no_volume_of_a_pod_is_made_where_not_all_fit(
    cluster: Cluster, set_capacities: Callable[..., None], plain: str
) -> None:
    cluster.add_nodes("n1")
    set_capacities(n1="10Gi")
    provisioner = Provisioner(cluster, n1="12Gi")
    cluster.add_pod("pod", scheduler=plain, a="6Gi", b="6Gi")
    refusal = "together 12Gi, do not fit: pool n1 has 10Gi left"
    wait_until(lambda: cluster.is_refused("pod", refusal), "the pod is refused with the reason")
    provisioner.run_once()
    assert [selected(cluster, claim) for claim in "ab"] == [None, None]
    set_capacities(n1="12Gi")

    def bound() -> bool:
        provisioner.run_once()
        return cluster.node_of("pod") is not None

    began = time.monotonic()
    wait_until(bound, "the pod is bound")
    LOG.info("seconds from the figures to the bound pod: %.1f", time.monotonic() - began)
    assert provisioner.refused == 0


def test_exactly_the_pods_that_fit_get_volumes(
    cluster: Cluster, set_capacities: Callable[..., None], plain: str
) -> None:
    """Each of three nodes takes one volume. The scheduler has no figures, and two pods may get one node at once."""
    sizes = {f"n{number}": "10Gi" for number in range(3)}
    cluster.add_nodes(*sizes)
    set_capacities(**sizes)
    provisioner = Provisioner(cluster, **sizes)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        cluster.add_pod(name, scheduler=plain, **{name: "6Gi"})

    def bound() -> list[str]:
        provisioner.run_once()
        return [name for name in names if cluster.node_of(name)]

    wait_until(lambda: len(bound()) == 3, "three pods are bound")
    waiting = sorted(set(names) - set(bound()))
    wait_until(
        lambda: all(cluster.is_refused(name, "does not take the volumes of pod") for name in waiting),
        "the others wait with a reason",
    )
    assert len(bound()) == 3
    assert provisioner.refused == 0
