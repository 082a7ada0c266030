# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import contextlib
import pathlib
import uuid
from collections.abc import Iterator, Mapping

import pytest

from tests.unit.api.cluster import Client, Cluster
from tests.unit.rpc import bus as memory_bus
from tests.unit.rpc import patience
from tonnage.scheduler.extension_parts import PartsBuilder


@contextlib.contextmanager
def running_cluster(folder: pathlib.Path, builders: Mapping[str, PartsBuilder] | None = None) -> Iterator[Cluster]:
    """Run the services. ``builders`` make the parts of extensions in the scheduler."""
    with memory_bus.memory_transport(response_timeout=60) as bus, pytest.MonkeyPatch.context() as patched:
        patience.with_schedulers(patched)
        services = Cluster(folder, bus, builders)
        services.start()
        yield services
        services.stop()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The services behind the API, once for the folder, as oslo.messaging takes a second to stop a server."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="package")
def enabled_extensions() -> list[str]:
    """The names of the extensions of the API."""
    return []


@pytest.fixture(scope="package")
def client(cluster: Cluster, enabled_extensions: list[str]) -> Client:
    """A client with noauth, which is an administrator. An application takes longer to build than most tests."""
    return cluster.client(enabled_extensions=enabled_extensions)


@pytest.fixture
def project() -> str:
    """A project that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def member(cluster: Cluster, enabled_extensions: list[str], project: str) -> Client:
    """A client with the role of a member of the project."""
    return cluster.client("member", "reader", project=project, enabled_extensions=enabled_extensions)
