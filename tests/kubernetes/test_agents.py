# SPDX-License-Identifier: Apache-2.0
"""Agents of the chart as pods, with the scheduler of the chart, a message bus and a CSI plug-in of the node."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from kubernetes import client

from tests.kubernetes import manifests, test_chart
from tests.kubernetes.cluster import Cluster, wait_until
from tests.kubernetes.installation import Installation
from tests.kubernetes.kubelet import NODE, Kubelet, Machine, Pod
from tests.kubernetes.service import Service
from tests.servers.base import free_port
from tests.servers.csi_plugin import CsiPlugin, Settings
from tests.servers.rabbitmq import RabbitMQ
from tonnage.extensions.kubernetes.cluster import quantities

pytestmark = pytest.mark.kubernetes

_DRIVER, _CLASS, _GIB = "folders.csi.test", "folders", 2**30

_AGENT = f"""\
[DEFAULT]
enabled_backends = disks
backend_stats_polling_interval = 2
[disks]
volume_driver = csi
csi_endpoint = unix:///csi/csi.sock
csi_state_file = /tmp/disks.db
csi_storage_classes = {_CLASS}
csi_topology = node
"""


@pytest.fixture
def plugin(tmp_path: pathlib.Path) -> Iterator[CsiPlugin]:
    with CsiPlugin(tmp_path, Settings(sizes={"": 12 * _GIB})) as plugin:
        yield plugin


@pytest.fixture
def bus(machine: Machine, rabbitmq_server: RabbitMQ, rabbitmq_url: str) -> Iterator[str]:
    """The URL of a message bus for pods."""
    url, port = sa.make_url(rabbitmq_url), free_port()
    with Service((machine.address, port), lambda: [(str(url.host), int(url.port or 0))]):
        yield url.set(host=machine.address, port=port).render_as_string(hide_password=False)


@pytest.fixture
def agent_pods(
    cluster: Cluster, tonnage: Installation, kubelet: Kubelet, plugin: CsiPlugin, bus: str
) -> Iterator[list[Pod]]:
    """The scheduler of the chart, and an agent on a node."""
    secret = f"[DEFAULT]\ntransport_url = {bus}\n"
    folder = plugin.endpoint.removeprefix("unix://").rpartition("/")[0]
    objects = test_chart.render(
        scheduler={"enabled": True},
        agents={"local": {"configuration": _AGENT, "hostPaths": {"/csi": folder}}},
        agentSecret={"text": secret},
        **test_chart.PLAIN,
    )
    made = [objects["Secret", "tonnage-agent"], objects["ConfigMap", "tonnage-agent-local"]]
    cluster.create(*made)
    [data] = [body["data"] for body in manifests.load("configuration.yaml")]
    configuration = {"tonnage": {**data, "values.conf": secret}}
    running = [
        kubelet.run(objects["Deployment", "tonnage-scheduler"], configuration),
        kubelet.run(objects["DaemonSet", "tonnage-agent-local"]),
    ]
    yield running
    for pod in running:
        pod.terminate()
    endings = [(pod.name, pod.wait(), "Traceback" in pod.log) for pod in running]
    cluster.core.delete_namespaced_secret("tonnage-agent", manifests.NAMESPACE)
    cluster.core.delete_namespaced_config_map("tonnage-agent-local", manifests.NAMESPACE)
    assert [ending[1:] for ending in endings] == [(0, False)] * 2, [pod.log for pod in running]


def test_an_agent_as_a_pod_publishes_the_capacity_of_its_plug_in(
    cluster: Cluster, tonnage: Installation, agent_pods: list[Pod], plugin: CsiPlugin
) -> None:
    cluster.add_nodes(NODE)
    cluster.storage.create_storage_class(
        client.V1StorageClass(
            metadata=client.V1ObjectMeta(name=_CLASS),
            provisioner=_DRIVER,
            volume_binding_mode="WaitForFirstConsumer",
        )
    )
    tonnage.patch({"spec": {"capacityTracking": True}}, _DRIVER)

    def published() -> list[tuple[str, int]]:
        listed: Any = client.CustomObjectsApi(cluster.api).list_namespaced_custom_object(
            "storage.k8s.io", "v1alpha1", manifests.NAMESPACE, "csistoragecapacities"
        )
        return [
            (body["nodeTopology"]["matchExpressions"][0]["values"][0], quantities.parse(body["capacity"]))
            for body in listed["items"]
            if body["storageClassName"] == _CLASS
        ]

    try:
        wait_until(lambda: published() == [(NODE, 12 * _GIB)], "the capacity of the node is published")
    except TimeoutError as error:
        raise AssertionError([pod.log[-3000:] for pod in agent_pods]) from error
    assert plugin.asked("GetCapacity")
    tonnage.remove_driver(_DRIVER)
