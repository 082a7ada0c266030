# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster, configuration
from tests.unit.api.conftest import running_cluster
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors
from tonnage.cli.simulation import scheduler_query
from tonnage.rpc.messages import SimulationResult


class Asked:
    """The questions to schedulers, which answer with ``outlooks`` or ``error``."""

    def __init__(self) -> None:
        self.questions: list[dict[str, Any]] = []
        self.outlooks: list[SimulationResult] = []
        self.error: errors.TonnageError | None = None

    def query(
        self, conf: object, question: dict[str, Any], target: scheduler_query.QueryTarget
    ) -> list[SimulationResult]:
        """Answer a question."""
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        return self.outlooks


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Schedulers that can be asked."""
    asked = Asked()
    monkeypatch.setattr(scheduler_query, "query", asked.query)
    return asked


@pytest.fixture
def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that makes standard output a terminal of the kind xterm, with colours."""

    def use_terminal() -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    return use_terminal


@dataclass(frozen=True)
class RestApi:
    """A REST API with noauth that listens at ``url``; it has a volume."""

    cluster: Cluster
    client: Client
    url: str
    volume_id: str


@pytest.fixture(scope="module")
def rest_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestApi]:
    """A REST API, once for a module: some of them add backends."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        conf = configuration(osapi_volume_listen_port=0)
        authenticator = authentication.select(conf, "127.0.0.1")
        server = ApiServer(conf, app.build(conf, cluster.database, cluster.scheduler, authenticator))
        server.start()
        client = cluster.client()
        volume = client.create(2, name="first")
        client.wait_until_settled(volume["id"])
        client.simulate_post("/v3/volumes", json={"volume": {"size": 99999}})
        yield RestApi(cluster, client, server.url, volume["id"])
        server.stop()
