# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API, with the extension enabled."""

import pytest

from tests.unit.api.cluster import Client, Cluster
from tests.unit.api.conftest import cluster, project  # noqa: F401

EXTENSIONS = ["kubernetes"]


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Client:  # noqa: F811
    """A client with noauth, which is an administrator."""
    return cluster.client(enabled_extensions=EXTENSIONS)


@pytest.fixture
def member(cluster: Cluster, project: str) -> Client:  # noqa: F811
    """A client with the role of a member of the project."""
    return cluster.client("member", "reader", project=project, enabled_extensions=EXTENSIONS)
