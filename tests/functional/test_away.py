# SPDX-License-Identifier: Apache-2.0
"""What operators see while a part is away: short waits, clear answers, one line in the log of who is in trouble."""

import time
from collections.abc import Iterator

import pytest
import requests

from tests.functional.deployment import Addresses, Deployment, until
from tests.servers import fixtures, rabbitmq
from tests.servers.database import DatabaseServer

#: Seconds: those that the defaults of [database] make a request wait, and what a loaded machine takes for the rest.
_FIRST = 15.0
_OTHERS = 5.0


@pytest.fixture
def own_broker() -> Iterator[rabbitmq.RabbitMQ]:
    """One to be killed: nobody else has anything in it."""
    yield from fixtures._run(rabbitmq.RabbitMQ)


def ask(tonnage: Deployment) -> tuple[requests.Response, float]:
    began = time.monotonic()
    return tonnage.rest.ask(1), time.monotonic() - began


def reasons(tonnage: Deployment) -> list[str]:
    answer = requests.get(f"{tonnage.rest.root}/healthcheck", timeout=10)
    assert answer.status_code == (503 if answer.json()["reasons"] else 200)
    return list(answer.json()["reasons"])


def lines(tonnage: Deployment, process: str, text: str) -> list[str]:
    return [line for line in tonnage.processes[process].log.read_text().splitlines() if text in line]


@pytest.mark.heavy
@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_requests_while_a_part_is_away(
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
        tonnage.rest.made(tonnage.rest.create(1))
        running.kill()
        try:
            answers = [ask(tonnage) for _ in range(4)]
            assert tonnage.rest.call("GET", "volumes").status_code == 503
            assert reasons(tonnage) == ["the database does not answer"]
            until(lambda: lines(tonnage, "scheduler", "The database cannot be reached"), "the scheduler says so")
        finally:
            running.start()
        tonnage._engine.dispose()  # the test's own connections, of before
        (_, first), *others = answers
        assert first < _FIRST
        assert min(seconds for _, seconds in others) < _OTHERS  # the machine may stand still in one
        for answer, _ in answers:
            assert answer.status_code == 503
            assert answer.headers["Retry-After"]
            message = answer.json()["serviceUnavailable"]["message"]
            assert "the database" in message
            assert not any(
                word in message for word in ("127.0.0.1", "psycopg", "pymysql", "SELECT", "tonnage-scheduler")
            )
        tonnage.rest.made(str(until(lambda: made(tonnage), "volumes are made again")))
        for process in ("api", "scheduler"):
            assert len(lines(tonnage, process, "The database cannot be reached")) == 1
            assert len(lines(tonnage, process, "The database can be reached again")) == 1
            assert not lines(tonnage, process, "no scheduler answered")
            assert not lines(tonnage, process, "Traceback")
        own_broker.kill()
        try:
            until(lambda: reasons(tonnage) == ["the message bus does not take messages"], "the bus is missed", 20)
            answer, seconds = ask(tonnage)
            assert answer.status_code == 503
            assert seconds < _FIRST
        finally:
            own_broker.start()
        until(lambda: reasons(tonnage) == [], "all is well")
        assert tonnage.number("SELECT COUNT(*) FROM volumes") == len(tonnage.rest.volumes())
        tonnage.check_counters()


def made(tonnage: Deployment) -> str | None:
    answer, _ = ask(tonnage)
    return str(answer.json()["volume"]["id"]) if answer.status_code == 202 else None
