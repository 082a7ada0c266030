# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

from collections.abc import Iterator

import pytest

from tests.functional.page_server import no_shared_results
from tests.servers import ledger_schema
from tests.unit.api.cluster import Client, Cluster
from tests.unit.api.conftest import cluster, project  # noqa: F401
from tonnage.ledger.db import database

EXTENSIONS = ["history", "page"]


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Client:  # noqa: F811
    """A client with noauth of an application that computes the page's results anew for each request."""
    with no_shared_results():
        return cluster.client(enabled_extensions=EXTENSIONS)


@pytest.fixture
def member(cluster: Cluster, project: str) -> Client:  # noqa: F811
    """A client with the role of a member of the project."""
    return cluster.client("member", "reader", project=project, enabled_extensions=EXTENSIONS)


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    """An empty ledger."""
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    yield database.Database(engine)
    engine.dispose()
