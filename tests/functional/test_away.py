# SPDX-License-Identifier: Apache-2.0
"""Requests during an outage of the database or the bus: short waits, clear answers and one log line."""

import time
from collections.abc import Iterator

import pytest
import requests

from tests.functional.deployment import Addresses, Deployment
from tests.servers import fixtures, rabbitmq
from tests.servers.base import wait_for
from tests.servers.database import DatabaseServer

#: Seconds until an answer: the waits of the default options of [database], and some for a loaded machine.
_FIRST = 15.0
_OTHERS = 5.0


@pytest.fixture
def own_broker() -> Iterator[rabbitmq.RabbitMQ]:
    """A broker that only this test uses and kills."""
    yield from fixtures.run(rabbitmq.RabbitMQ)


def ask(tonnage: Deployment) -> tuple[requests.Response, float]:
    began = time.monotonic()
    return tonnage.rest.request_volume(1), time.monotonic() - began


def reasons(tonnage: Deployment) -> list[str]:
    answer = requests.get(f"{tonnage.rest.url}/healthcheck", timeout=10)
    assert answer.status_code == (503 if answer.json()["reasons"] else 200)
    return list(answer.json()["reasons"])


def lines(tonnage: Deployment, process: str, text: str) -> list[str]:
    return [line for line in tonnage.processes[process].log.read_text().splitlines() if text in line]


@pytest.mark.heavy
@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_requests_get_503_during_an_outage_of_the_database_or_the_bus(
    server: str, own_broker: rabbitmq.RabbitMQ, request: pytest.FixtureRequest
) -> None:
    running: DatabaseServer = request.getfixturevalue(server)
    backends = {"one": {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 2}}
    with (
        running.database() as url,
        own_broker.virtual_host() as bus,
        Deployment(Addresses(url, bus), backends, rpc_response_timeout=60) as tonnage,
    ):
        tonnage.start()
        tonnage.rest.wait_until_available(tonnage.rest.create(1))
        running.kill()
        try:
            answers = [ask(tonnage) for _ in range(4)]
            assert tonnage.rest.request("GET", "volumes").status_code == 503
            assert reasons(tonnage) == ["the database does not answer"]
            wait_for(
                lambda: lines(tonnage, "scheduler", "The database cannot be reached"), "the scheduler logs the outage"
            )
        finally:
            running.start()
        tonnage.close_connections()
        (_, first), *others = answers
        assert first < _FIRST
        assert min(seconds for _, seconds in others) < _OTHERS  # the machine may pause during one
        for answer, _ in answers:
            assert answer.status_code == 503
            assert answer.headers["Retry-After"]
            message = answer.json()["serviceUnavailable"]["message"]
            assert "the database" in message
            assert "SELECT" not in message
        tonnage.rest.wait_until_available(str(wait_for(lambda: created(tonnage), "volumes are created again")))
        for process in ("api", "scheduler"):
            assert len(lines(tonnage, process, "The database cannot be reached")) == 1
            assert len(lines(tonnage, process, "The database can be reached again")) == 1
            assert not lines(tonnage, process, "no scheduler answered")
            assert not lines(tonnage, process, "Traceback")
        own_broker.kill()
        try:
            wait_for(
                lambda: reasons(tonnage) == ["the message bus does not take messages"],
                "the health check names the bus",
                20,
            )
            answer, seconds = ask(tonnage)
            assert answer.status_code == 503
            assert seconds < _FIRST
        finally:
            own_broker.start()
        wait_for(lambda: reasons(tonnage) == [], "the health check passes")
        assert tonnage.sql_value("SELECT COUNT(*) FROM volumes") == len(tonnage.rest.volumes())
        tonnage.check_counters()


def created(tonnage: Deployment) -> str | None:
    answer, _ = ask(tonnage)
    return str(answer.json()["volume"]["id"]) if answer.status_code == 202 else None
