# SPDX-License-Identifier: Apache-2.0
"""Tests of the behaviour of all requests: versions, errors, identities."""

import json

import pytest
from falcon import testing

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.capacity import errors


@pytest.mark.parametrize(
    ("asked", "echoed"),
    [
        (None, "volume 3.0"),
        ("volume 3.71", "volume 3.71"),
        ("volume latest", "volume 3.73"),
        ("compute 2.1,volume 3.5", "volume 3.5"),
        ("compute 2.99", "volume 3.0"),
    ],
)
def test_microversions(client: Client, asked: str | None, echoed: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": asked} if asked else {})
    assert answer.status_code == 200
    assert answer.headers["OpenStack-API-Version"] == echoed
    assert "OpenStack-API-Version" in answer.headers["Vary"]


@pytest.mark.parametrize("version", ["3.74", "4.0", "2.0", "3.999"])
def test_unsupported_versions(client: Client, version: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": f"volume {version}"})
    assert answer.status_code == 406
    assert answer.json == {
        "computeFault": {
            "code": 406,
            "message": f"Version {version} is not supported by the API. Minimum is 3.0 and maximum is 3.73.",
        }
    }


@pytest.mark.parametrize("version", ["x", "3", "3.x", "3.1.2", "-1.0.0"])
def test_malformed_versions(client: Client, version: str) -> None:
    answer = client.simulate_get("/v3/types", headers={"OpenStack-API-Version": f"volume {version}"})
    assert (answer.status_code, list(answer.json)) == (400, ["badRequest"])


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


def test_each_request_has_its_own_id(client: Client) -> None:
    ids = {client.simulate_get("/v3/types").headers["x-openstack-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_every_route_exists_with_and_without_a_project(client: Client) -> None:
    for path in ("volumes", "volumes/detail", "types", "os-services", "messages", "scheduler-stats/get_pools"):
        bodies = [client.simulate_get(f"{prefix}/{path}") for prefix in ("/v3", "/v3/demo")]
        assert [body.status_code for body in bodies] == [200, 200]
        assert json.loads(bodies[0].text).keys() == json.loads(bodies[1].text).keys()
