# SPDX-License-Identifier: Apache-2.0
"""Built-in servers for tests, and connections with them."""

import http.client
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from tests.unit.api.cluster import Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer, Listener, Server
from tonnage.api.http.wsgi_server import ServerLimits

AnyServer = TypeVar("AnyServer", bound=Server)


def start(application: Any, **settings: Any) -> ApiServer:
    """Start a server of an application on a free port."""
    return started(ApiServer(configuration(osapi_volume_listen_port=0, **settings), application))


def start_limited(application: Any, **limits: Any) -> Server:
    """Start a server of an application with these limits on a free port."""
    listener = Listener(name="test", host="127.0.0.1", port=0, options=("host", "port"))
    given = {"threads": 2, "client_timeout": 60, "stop_timeout": 60, "max_body_size": 2**20}
    return started(Server(listener, application, ServerLimits(**given | limits)))


def started(server: AnyServer) -> AnyServer:
    """Start a server, and stop it at the end of the test."""
    server.start()
    _started.append(server)
    return server


#: The servers that the current test started.
_started: list[Server] = []


@pytest.fixture(autouse=True)
def _stop_servers() -> Iterator[None]:
    yield
    while _started:
        _started.pop().stop()


@pytest.fixture
def server(cluster: Cluster) -> ApiServer:
    """A server of the REST API."""
    return start(app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth))


def address(server: Server) -> tuple[str, int]:
    """Return the IPv4 address of a server."""
    return "127.0.0.1", int(server.url.rpartition(":")[2])


def connection(server: Server) -> http.client.HTTPConnection:
    """Return a connection that is made at its first request."""
    return http.client.HTTPConnection(*address(server), timeout=20)


def kept_connection(server: Server) -> http.client.HTTPConnection:
    """Return a connection that is idle after a response."""
    made = connection(server)
    made.request("GET", "/v3/")
    made.getresponse().read()
    return made
