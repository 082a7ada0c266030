# SPDX-License-Identifier: Apache-2.0
"""The health check: what it calls healthy, and the reasons if it does not."""

import pathlib
import socket
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import ledger_schema
from tests.unit.api.cluster import Client, Cluster, configuration
from tests.unit.ledger import faults
from tests.unit.rpc import bus as memory_bus
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.clients.scheduler_client import SchedulerClient


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@pytest.fixture
def refusing(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """A ledger whose file is damaged in all tables but that of the schedulers, of which two are up."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine, patience=database.Patience(write_interval=0.0, quiet=0.0))
    for host in ("one", "two"):
        ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host=host))
    yield ledger
    ledger.close()


def test_health(cluster: Cluster, client: Client) -> None:
    answer = client.simulate_get("/healthcheck")
    assert (answer.status_code, answer.json) == (200, {"healthy": True, "reasons": []})
    assert client.simulate_head("/healthcheck").status_code == 200


def test_health_without_a_scheduler(cluster: Cluster, tmp_path: Any) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/empty.sqlite")
    ledger_schema.create(engine)
    empty = database.Database(engine)
    client = Client(app.build(configuration(), empty, cluster.scheduler, authentication.noauth))
    answer = client.simulate_get("/healthcheck")
    assert answer.status_code == 503
    [reason] = answer.json["reasons"]
    assert "no scheduler" in reason
    empty.close()


def test_health_reports_each_absent_part_and_logs_it_once(unused_port: int, caplog: pytest.LogCaptureFixture) -> None:
    away = database.Database(database.create_engine(f"postgresql+psycopg://t@127.0.0.1:{unused_port}/t"))
    with memory_bus.memory_transport(url=f"rabbit://guest:guest@127.0.0.1:{unused_port}/") as bus:
        client = Client(app.build(configuration(), away, SchedulerClient(bus), authentication.noauth))
        began = time.monotonic()
        answers = [client.simulate_get("/healthcheck") for _ in range(3)]
        assert time.monotonic() - began < 100
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json["reasons"] == ["the database does not answer", "the message bus does not take messages"]
    assert sum("healthcheck" in record.message for record in caplog.records) == 1
    away.close()


def test_health_tells_that_the_ledger_cannot_be_written(cluster: Cluster, refusing: database.Database) -> None:
    client = Client(app.build(configuration(), refusing, cluster.scheduler, authentication.noauth))
    assert client.simulate_get("/healthcheck").status_code == 200
    for statement in ("INSERT INTO write_probes", "SELECT services"):
        with faults.failing(refusing.engine, statement, full_disk()):
            answers = [client.simulate_get("/healthcheck") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [503, 503]
        assert [answer.json["reasons"] for answer in answers] == [["the ledger cannot be written"]] * 2
        assert client.simulate_get("/healthcheck").status_code == 200


def test_health_tells_that_all_schedulers_cannot_write_the_ledger(
    cluster: Cluster, refusing: database.Database
) -> None:
    """What a scheduler writes may need room where this process needs none."""
    client = Client(app.build(configuration(), refusing, cluster.scheduler, authentication.noauth))
    for host, status in (("one", 200), ("two", 503)):
        process = heartbeats.SchedulerProcess(
            binary=heartbeats.SCHEDULER, host=host, ledger_fault="could not extend file: No space left on device\0" * 9
        )
        refusing.run(heartbeats.heartbeat, process)
        answer = client.simulate_get("/healthcheck")
        assert answer.status_code == status
    assert answer.json["reasons"] == ["the ledger cannot be written"]


def test_health_of_a_server_out_of_service(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "out"
    conf = configuration()
    conf.set_override("disable_by_file_path", str(file), "healthcheck")
    client = Client(app.build(conf, cluster.database, cluster.scheduler, authentication.noauth))
    assert client.simulate_get("/healthcheck").status_code == 200
    file.touch()
    answer = client.simulate_get("/healthcheck")
    assert answer.status_code == 503
    assert "disable_by_file_path" in answer.json["reasons"][0]
    assert client.simulate_get("/v3/types").status_code == 200
