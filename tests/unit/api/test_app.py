# SPDX-License-Identifier: Apache-2.0
"""Tests of the behaviour of all requests: versions, errors, identities."""

import json
import logging
import pathlib
import socket
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import falcon
import pytest
from falcon import testing

from tests.servers import ledger_schema
from tests.unit.api.cluster import Client, Cluster, configuration
from tests.unit.ledger import faults
from tests.unit.rpc import bus as memory_bus
from tonnage.api import app
from tonnage.api.auth import authentication, policies
from tonnage.capacity import errors
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.clients.scheduler_client import SchedulerClient


@pytest.mark.parametrize(("path", "status"), [("/", 300), ("/v3", 200), ("/v3/", 200)])
def test_version_discovery(client: Client, path: str, status: int) -> None:
    answer = client.simulate_get(path, headers={"Host": "storage:8776"})
    assert answer.status_code == status
    version = answer.json["versions"][0]
    assert (version["id"], version["status"]) == ("v3.0", "CURRENT")
    assert (version["min_version"], version["version"]) == ("3.0", "3.72")
    assert version["links"] == [{"rel": "self", "href": "http://storage:8776/v3/"}]


@pytest.mark.parametrize(
    ("asked", "echoed"),
    [
        (None, "volume 3.0"),
        ("volume 3.71", "volume 3.71"),
        ("volume latest", "volume 3.72"),
        ("compute 2.1,volume 3.5", "volume 3.5"),
        ("compute 2.99", "volume 3.0"),
    ],
)
def test_microversions(client: Client, asked: str | None, echoed: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": asked} if asked else {})
    assert answer.status_code == 200
    assert answer.headers["OpenStack-API-Version"] == echoed
    assert "OpenStack-API-Version" in answer.headers["Vary"]


@pytest.mark.parametrize("version", ["3.73", "4.0", "2.0", "3.999"])
def test_unsupported_versions(client: Client, version: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": f"volume {version}"})
    assert answer.status_code == 406
    assert answer.json == {
        "computeFault": {
            "code": 406,
            "message": f"Version {version} is not supported by the API. Minimum is 3.0 and maximum is 3.72.",
        }
    }


@pytest.mark.parametrize("version", ["x", "3", "3.x", "3.1.2", "-1.0.0"])
def test_malformed_versions(client: Client, version: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": f"volume {version}"})
    assert (answer.status_code, list(answer.json)) == (400, ["badRequest"])


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


BAD_BODIES: list[tuple[bytes, dict[str, str], int]] = [
    (b"", {}, 400),
    (b"{", {}, 400),
    (b"[]", {}, 400),
    (b"null", {}, 400),
    (b"\xff\xfe", {}, 400),
    (b"[" * 90000, {}, 400),
    (b'{"volume": {"size": 1e999}}', {}, 400),
    (b'{"volume": {"size": 1, "name": "a\\u0000b"}}', {}, 400),
    (b'{"volume": {"size": 1, "name": "\\ud800 alone"}}', {}, 400),
    (b'{"volume": {"size": 1}}', {"Content-Type": "text/plain"}, 415),
    (b"size=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (b" " * 114689, {}, 413),
]


@pytest.mark.parametrize(("body", "headers", "status"), BAD_BODIES)
def test_malformed_bodies_are_rejected(client: Client, body: bytes, headers: dict[str, str], status: int) -> None:
    headers = {"Content-Type": "application/json", **headers}
    answer = client.simulate_post("/v3/volumes", body=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert len(answer.json) == 1


def test_an_escaped_backslash_is_not_nul(client: Client) -> None:
    body = b'{"volume": {"size": 1, "name": "a\\\\u0000b"}}'
    answer = client.simulate_post("/v3/volumes", body=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    assert answer.json["volume"]["name"] == "a\\u0000b"


def test_a_body_without_a_content_type_is_rejected(client: Client) -> None:
    answer = client.simulate_post("/v3/volumes", body=b'{"volume": {"size": 1}}', headers={})
    assert answer.status_code == 415
    assert "application/json" in answer.json["badMediaType"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "POST"])
def test_large_bodies_are_rejected_on_all_paths(client: Client, method: str) -> None:
    answer = client.simulate_request(method, "/v3/nowhere", body=b"x" * 200000)
    assert answer.status_code == 413
    assert "osapi_max_request_body_size" in answer.json["overLimit"]["message"]


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


@pytest.mark.parametrize(
    ("path", "headers", "project", "user"),
    [
        ("/v3/volumes", {}, "demo", "admin"),
        ("/v3/volumes", {"X-Auth-Token": "notused"}, "demo", "admin"),
        ("/v3/volumes", {"X-Auth-Token": "joe:site"}, "site", "joe"),
        ("/v3/volumes", {"X-Auth-Token": "joe:site", "X-User-Id": "jane", "X-Project-Id": "other"}, "other", "jane"),
        ("/v3/there/volumes", {"X-Auth-Token": "joe:site"}, "there", "joe"),
        ("/v3/a project-with.anything/volumes", {}, "a project-with.anything", "admin"),
    ],
)
def test_noauth(client: Client, path: str, headers: dict[str, str], project: str, user: str) -> None:
    answer = client.simulate_post(path, json={"volume": {"size": 1}}, headers=headers)
    assert answer.status_code == 202, answer.text
    volume = client.simulate_get(f"{path}/{answer.json['volume']['id']}", headers=headers).json["volume"]
    assert (volume["os-vol-tenant-attr:tenant_id"], volume["user_id"]) == (project, user)


@pytest.mark.parametrize("project", ["p" * 256, "a%0Ab"])
def test_malformed_project_ids_are_rejected(client: Client, project: str) -> None:
    assert client.simulate_get(f"/v3/{project}/volumes").status_code == 400


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
def test_noauth_is_rejected_on_other_addresses_than_loopback(address: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="noauth_on_any_address") as raised:
        authentication.select(configuration(), address)
    assert f"osapi_volume_listen = {address}" in raised.value.message
    assert "set osapi_volume_listen = 127.0.0.1" in raised.value.message
    assert authentication.select(configuration(noauth_on_any_address=True), address) is authentication.noauth


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_noauth_is_allowed_on_loopback(cluster: Cluster, address: str) -> None:
    authenticator = authentication.select(configuration(), address)
    client = Client(app.build(configuration(), cluster.database, cluster.scheduler, authenticator))
    host = f"[{address}]:8776" if ":" in address else f"{address}:8776"
    assert client.simulate_get("/v3/volumes", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8776", 200),
        ("[::1]:8776", 200),
        ("LocalHost", 200),
        ("localhost.:8776", 200),
        ("tonnage.localhost:9000", 200),
        ("Here:8776", 200),
        ("evil.example:8776", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("evillocalhost", 403),
        ("192.0.2.1:8776", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_a_request_to_another_host_name_is_rejected(cluster: Cluster, project: str, host: str, status: int) -> None:
    """Otherwise a browser on this machine would let any site act as an administrator (DNS rebinding)."""
    authenticator = authentication.local_noauth("here")
    made = app.build(configuration(), cluster.database, cluster.scheduler, authenticator)
    client = testing.TestClient(made)
    assert client.simulate_get(f"/v3/{project}/volumes", headers={"Host": host}).status_code == status
    answer = client.simulate_post(f"/v3/{project}/volumes", json={"volume": {"size": 1}}, headers={"Host": host})
    assert answer.status_code == (202 if status == 200 else 403)
    if status == 403:
        assert "noauth_on_any_address = true" in answer.json["forbidden"]["message"]
    login = client.simulate_post("/identity/v3/auth/tokens", json={"auth": {"identity": {}}}, headers={"Host": host})
    assert login.status_code == (201 if status == 200 else 403)


def test_noauth_is_rejected_if_the_address_is_unknown() -> None:
    with pytest.raises(errors.ConfigurationError, match="noauth_on_any_address"):
        authentication.select(configuration(), None)


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


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


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_only_administrators_see_why_the_ledger_does_not_work(
    cluster: Cluster, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [
        cluster.client(),
        cluster.client("member", "reader", project=project),
        cluster.client("admin", project=project),
    ]
    with faults.failing(cluster.database.engine, "", full_disk()):
        answers = [client.simulate_get("/v3/types") for client in clients for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503] * 6
    messages = [answer.json["serviceUnavailable"]["message"] for answer in answers]
    words = "The cause: the ledger cannot be written: database or disk is full"
    assert [message.endswith(words) for message in messages] == [True, True, False, False, True, True]
    assert not any("full" in message for message in messages[2:4])
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        f"The ledger in {cluster.database.engine.url} cannot be written: database or disk is full; requests that "
        "need it fail until it can"
    ]
    assert not any(record.exc_info for record in caplog.records)
    cluster.database.connectivity.quiet = 0.0
    cluster.database.run(lambda session: None)


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


def test_each_request_has_its_own_id(client: Client) -> None:
    ids = {client.simulate_get("/v3/types").headers["x-openstack-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_rules_are_documented_and_have_the_names_of_cinder() -> None:
    rules = {rule.name: rule for rule in policies.list_rules()}
    assert len(rules) == len(policies.list_rules())
    for name in (
        "scheduler_extension:scheduler_stats:get_pools",
        "volume_extension:services:index",
        "volume_extension:type_create",
        "volume_extension:types_extra_specs:create",
        "volume:create",
        "volume:extend",
        "volume:delete",
    ):
        assert name in rules
    assert all(rule.description for rule in rules.values())


def test_every_route_exists_with_and_without_a_project(client: Client) -> None:
    for path in ("volumes", "volumes/detail", "types", "os-services", "messages", "scheduler-stats/get_pools"):
        bodies = [client.simulate_get(f"{prefix}/{path}") for prefix in ("/v3", "/v3/demo")]
        assert [body.status_code for body in bodies] == [200, 200]
        assert json.loads(bodies[0].text).keys() == json.loads(bodies[1].text).keys()


def test_an_unsupported_method_is_answered_with_the_supported_ones(client: Client) -> None:
    answer = client.simulate_patch("/v3/volumes")
    assert "GET" in answer.json["computeFault"]["message"]
    assert answer.status == falcon.HTTP_405
