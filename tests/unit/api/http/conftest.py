# SPDX-License-Identifier: Apache-2.0
"""Built-in servers for tests, and connections with them."""

import http.client
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.cluster import Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer


def start(application: Any, **settings: Any) -> ApiServer:
    """Start a server of an application on a free port."""
    server = ApiServer(configuration(osapi_volume_listen_port=0, **settings), application)
    server.start()
    _started.append(server)
    return server


#: The servers that the current test started.
_started: list[ApiServer] = []


@pytest.fixture(autouse=True)
def _stop_servers() -> Iterator[None]:
    yield
    while _started:
        _started.pop().stop()


@pytest.fixture
def server(cluster: Cluster) -> ApiServer:
    """A server of the REST API."""
    return start(app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth))


def address(server: ApiServer) -> tuple[str, int]:
    """Return the IPv4 address of a server."""
    return "127.0.0.1", int(server.url.rpartition(":")[2])


def connection(server: ApiServer) -> http.client.HTTPConnection:
    """Return a connection that is made at its first request."""
    return http.client.HTTPConnection(*address(server), timeout=20)


def kept_connection(server: ApiServer) -> http.client.HTTPConnection:
    """Return a connection that is idle after a response."""
    made = connection(server)
    made.request("GET", "/v3/")
    made.getresponse().read()
    return made
