# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane, as far as scheduling needs it. These tests run with ``-m kubernetes`` only."""

import pathlib
from collections.abc import Iterator

import pytest

from tests import suites
from tests.kubernetes import servers
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.servers import ApiServer, Etcd, KubeScheduler

_HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect these tests unless they are requested."""
    if "kubernetes" in config.option.markexpr:
        return
    left_out = [item for item in items if item.path.is_relative_to(_HERE)]
    items[:] = [item for item in items if not item.path.is_relative_to(_HERE)]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """Run kube-apiserver with an etcd of its own."""
    for kind in (Etcd, ApiServer, KubeScheduler):
        if not kind.installed():
            suites.cannot_run("Kubernetes", f"{kind.name} is not there; run tools/install-kubernetes.sh")
    with Etcd() as etcd, ApiServer(etcd) as server:
        yield server


@pytest.fixture
def cluster(api_server: ApiServer) -> Iterator[Cluster]:
    """A cluster with a storage class, and without nodes, pods or volumes."""
    with Cluster(api_server.kubeconfig(servers.ADMIN)) as cluster:
        cluster.add_class()
        yield cluster
