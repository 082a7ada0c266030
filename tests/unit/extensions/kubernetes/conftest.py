# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API, with the extension enabled."""

import functools
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.unit.api.cluster import Client, Cluster
from tests.unit.api.conftest import project, running_cluster  # noqa: F401
from tonnage.extensions.kubernetes import scheduler_parts

EXTENSIONS = ["kubernetes"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The services behind the API, with a scheduler that knows the storage of clusters."""
    builders = {"kubernetes": functools.partial(scheduler_parts.build, cfg.ConfigOpts())}
    with running_cluster(tmp_path_factory.mktemp("cluster"), builders) as running:
        yield running


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Client:
    """A client with noauth, which is an administrator."""
    return cluster.client(enabled_extensions=EXTENSIONS)


@pytest.fixture
def member(cluster: Cluster, project: str) -> Client:  # noqa: F811
    """A client with the role of a member of the project."""
    return cluster.client("member", "reader", project=project, enabled_extensions=EXTENSIONS)
