# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of decisions and claims."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.fit import figures
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.ledger.db import database


@pytest.fixture
def written(ledger: database.Database) -> database.Database:
    """The ledger with the figures of :func:`figures.write`."""
    figures.write(ledger)
    return ledger


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    """A cluster with two nodes."""
    with KubeApi() as api:
        for name in ("n1", "n2"):
            api.add_node(name)
        yield api


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[ClusterReader]:
    """A reader of the cluster."""
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0, cache_time=3600.0)
    yield reader
    reader.api.close()
