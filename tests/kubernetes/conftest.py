# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane, as far as scheduling needs it. These tests run with ``-m kubernetes`` only."""

import pathlib
from collections.abc import Iterator

import pytest

from tests import suites
from tests.kubernetes import installation
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.installation import Installation
from tests.kubernetes.kubelet import Kubelet, Machine
from tests.kubernetes.servers import ApiServer, Etcd
from tests.servers.postgresql import PostgreSQL

_HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect these tests unless they are requested."""
    if "kubernetes" in config.option.markexpr:
        return
    left_out = [item for item in items if item.path.is_relative_to(_HERE)]
    items[:] = [item for item in items if not item.path.is_relative_to(_HERE)]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """The machine of all pods."""
    if not Machine.installed():
        suites.cannot_run("Kubernetes", f"pods need root, network namespaces and the packages {Machine.packages}")
    with Machine(*installation.host_names()) as machine:
        yield machine


@pytest.fixture(scope="session")
def api_server(machine: Machine) -> Iterator[ApiServer]:
    """Run kube-apiserver with an etcd of its own."""
    for kind in (Etcd, ApiServer):
        if not kind.installed():
            suites.cannot_run("Kubernetes", f"{kind.name} is not there; run tools/install-kubernetes.sh")
    with Etcd() as etcd, ApiServer(etcd, machine.address) as server:
        yield server


@pytest.fixture(scope="session")
def installed(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster with the objects of the manifests, before any pod runs."""
    with Cluster(api_server.kubeconfig()) as cluster:
        installation.install(cluster, tmp_path_factory.mktemp("installation"))
        yield cluster


@pytest.fixture(scope="session")
def kubelet(
    machine: Machine, api_server: ApiServer, installed: Cluster, postgresql_server: PostgreSQL
) -> Iterator[Kubelet]:
    """Starts pods of the manifests; their database is empty."""
    with installation.database(postgresql_server, machine.address):
        yield Kubelet(machine, api_server, installed)


@pytest.fixture(scope="session")
def pods(kubelet: Kubelet, machine: Machine) -> Iterator[Installation]:
    """The pods of all manifests. A test that ends one starts it again."""
    with Installation(kubelet, machine.address) as running:
        yield running


@pytest.fixture
def cluster(api_server: ApiServer, installed: Cluster) -> Iterator[Cluster]:
    """A cluster with a storage class, and without nodes, pods or volumes."""
    with Cluster(api_server.kubeconfig()) as cluster:
        cluster.add_class()
        yield cluster


@pytest.fixture
def tonnage(pods: Installation, cluster: Cluster) -> Iterator[Installation]:
    """The pods of all manifests, and a driver in the ledger, without figures."""
    pods.patch({"spec": {"capacityTracking": True}})
    yield pods
    pods.remove_driver()
