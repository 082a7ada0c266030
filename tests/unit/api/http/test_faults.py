# SPDX-License-Identifier: Apache-2.0
"""Error responses: their bodies, and what they tell of a fault."""

import logging
import socket
from collections.abc import Iterator
from typing import Any

import falcon
import pytest

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.capacity import errors
from tonnage.ledger.db import database


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "itemNotFound"),
        ("GET", "/v3/nowhere", 404, "itemNotFound"),
        ("GET", "/v3/demo/volumes/x/y/z", 404, "itemNotFound"),
        ("GET", "/v3/types/%00", 404, "itemNotFound"),
        ("PATCH", "/v3/volumes", 405, "computeFault"),
        ("POST", "/v3/os-services", 405, "computeFault"),
    ],
)
def test_every_error_is_json(client: Client, method: str, path: str, status: int, name: str) -> None:
    answer = client.simulate_request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.json[name]["code"] == status
    assert answer.headers["x-openstack-request-id"].startswith("req-")


class Broken:
    """A scheduler client that raises an unexpected error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, method: str) -> Any:
        def fail(*_: Any) -> None:
            raise self._error

        return fail


def broken(cluster: Cluster, error: Exception) -> Client:
    return Client(app.build(configuration(), cluster.database, Broken(error), authentication.noauth))  # type: ignore[arg-type]


def test_an_unexpected_error_reveals_no_internals(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    answer = broken(cluster, ValueError("password=hunter2")).simulate_get("/v3/scheduler-stats/get_pools")
    assert answer.status_code == 500
    assert answer.json["computeFault"]["code"] == 500
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text
    assert "hunter2" in caplog.text


def test_without_a_scheduler_the_status_is_503(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    error = errors.Unavailable("rabbit://user:secret@bus is gone")
    with caplog.at_level(logging.WARNING):
        answer = broken(cluster, error).simulate_post("/v3/volumes", json={"volume": {"size": 1}})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "secret" not in answer.text
    assert answer.json["serviceUnavailable"]["code"] == 503
    assert "is gone" in caplog.text


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (errors.Unavailable("no scheduler"), "does not answer. Try again later; the request may have been accepted."),
        (errors.LedgerRefusal("full"), "so nothing was done. Try again later. The cause: full"),
    ],
)
def test_an_answer_of_503_tells_whether_the_request_can_have_taken_effect(
    cluster: Cluster, error: Exception, end: str
) -> None:
    client = broken(cluster, error)
    written = client.simulate_post("/v3/volumes", json={"volume": {"size": 1}})
    assert written.json["serviceUnavailable"]["message"].endswith(end)
    read = client.simulate_get("/v3/scheduler-stats/get_pools")
    assert "does not answer. Try again later." in read.json["serviceUnavailable"]["message"]


def test_an_absent_database_is_not_logged_for_each_request(
    cluster: Cluster, unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = database.create_engine(f"postgresql+psycopg://t@127.0.0.1:{unused_port}/t")
    away = database.Database(engine, max_retries=1, retry_interval=0)
    client = Client(app.build(configuration(), away, cluster.scheduler, authentication.noauth))
    assert [client.simulate_get("/v3/volumes").status_code for _ in range(3)] == [503] * 3
    [said] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert said.getMessage().startswith("The database cannot be reached")
    away.close()


def test_an_unsupported_method_is_answered_with_the_supported_ones(client: Client) -> None:
    answer = client.simulate_patch("/v3/volumes")
    assert "GET" in answer.json["computeFault"]["message"]
    assert answer.status == falcon.HTTP_405
