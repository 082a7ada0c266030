# SPDX-License-Identifier: Apache-2.0
"""A database server that takes no writes: a standby, or a primary that has become one."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.functional.conftest import Deploy
from tests.servers import database as servers
from tests.servers.base import wait_for

BACKENDS = {"one": {"filesystem_size_limit_gb": 10}}


@contextlib.contextmanager
def read_only(server: servers.DatabaseServer) -> Iterator[None]:
    """Let the server refuse writes."""
    postgresql = server.name == "PostgreSQL"
    on, off = (
        ("ALTER SYSTEM SET default_transaction_read_only = on", "ALTER SYSTEM RESET default_transaction_read_only")
        if postgresql
        else ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0")
    )
    reload = ["SELECT pg_reload_conf()"] if postgresql else []
    server.execute(on, *reload)
    try:
        yield
    finally:
        server.execute("SET default_transaction_read_only = off", off, *reload) if postgresql else server.execute(off)


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module")
def test_a_read_only_server_counts_as_away(deploy: Deploy, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["deploy"]
    server: servers.DatabaseServer = request.getfixturevalue(f"{kind}_server")
    with deploy(BACKENDS) as tonnage:
        rest = tonnage.start().rest
        rest.wait_until_available(rest.create(1))
        with read_only(server):
            wait_for(lambda: not rest.is_healthy(), "the health check fails", seconds=4)
            assert rest.request_volume(1).status_code == 503
            time.sleep(3)
            assert rest.request_volume(1).status_code == 503
            assert not rest.is_healthy()
        wait_for(rest.is_healthy, "the health check succeeds", seconds=5)
        wait_for(lambda: rest.request_volume(1).status_code == 202, "requests are accepted", seconds=10)
        for name, process in tonnage.processes.items():
            lines = [line for line in process.log.read_text().splitlines() if "database" in line.lower()]
            assert len(lines) <= 8, (name, lines)
        tonnage.check_at_rest()
