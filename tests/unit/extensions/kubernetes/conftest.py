# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API, with the extension enabled."""

import functools
import pathlib
import threading
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.servers import ledger_schema
from tests.unit.api.cluster import Cluster
from tests.unit.api.conftest import client, member, project, running_cluster  # noqa: F401
from tonnage.extensions.kubernetes import scheduler_parts
from tonnage.ledger.db import database

#: The names of the threads that follow a cluster.
_CLUSTER_THREADS = {"capacity-import", "capacity-watch", "node-watch", "pod-claims", "pod-watch"}


@pytest.fixture(autouse=True)
def no_cluster_threads_remain() -> Iterator[None]:
    """A test fails if it leaves a thread that follows a cluster, which would log after the end of the test."""
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name in _CLUSTER_THREADS] == []


@pytest.fixture(scope="package")
def enabled_extensions() -> list[str]:
    """The names of the extensions of the API."""
    return ["kubernetes"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The services behind the API, with a scheduler that knows the storage of clusters."""
    builders = {"kubernetes": functools.partial(scheduler_parts.build, cfg.ConfigOpts())}
    with running_cluster(tmp_path_factory.mktemp("cluster"), builders) as running:
        yield running


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """An empty ledger in a file, for several threads."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()
