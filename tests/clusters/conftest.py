# SPDX-License-Identifier: Apache-2.0
"""Clusters of real servers. These tests run with ``-m clusters`` only."""

import pathlib
from collections.abc import Iterator

import pytest

from tests import servers, suites

_HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark these tests, and deselect them unless they are requested."""
    here = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in here:
        item.add_marker(pytest.mark.clusters)
    if "clusters" in config.option.markexpr:
        return
    items[:] = [item for item in items if not item.path.is_relative_to(_HERE)]
    config.hook.pytest_deselected(items=here)


@pytest.fixture(scope="module")
def galera() -> Iterator[servers.Galera]:
    """A Galera cluster behind HAProxy, whose nodes all run; a test that disturbs a node restores it."""
    _require(servers.Galera)
    with servers.Galera() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def patroni() -> Iterator[servers.Patroni]:
    """Three PostgreSQL nodes with a synchronous standby; a test that disturbs a node restores it."""
    _require(servers.Patroni)
    with servers.Patroni() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def brokers() -> Iterator[servers.RabbitMQCluster]:
    """Three RabbitMQ nodes; a test that disturbs a node restores it."""
    _require(servers.RabbitMQCluster)
    with servers.RabbitMQCluster() as cluster:
        yield cluster


def _require(kind: type[servers.Server]) -> None:
    if not kind.installed():
        suites.cannot_run(
            kind.name, f"{kind.name} needs root, network namespaces and the packages {kind.packages} on this machine"
        )
