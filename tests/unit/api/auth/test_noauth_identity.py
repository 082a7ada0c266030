# SPDX-License-Identifier: Apache-2.0
"""Tests of the minimal Identity service for clients without Keystone."""

from typing import Any

import pytest
from falcon import testing

from tests.unit.api.cluster import Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication


@pytest.fixture(scope="module")
def identity(cluster: Cluster) -> testing.TestClient:
    made = app.build(configuration(), cluster.database, cluster.scheduler, authentication.noauth)
    return testing.TestClient(made)


def login(identity: testing.TestClient, **fields: Any) -> testing.Result:
    password = {"user": {"name": "ada", "domain": {"name": "Default"}, "password": "any"}}
    sent = {"identity": {"methods": ["password"], "password": password}, **fields}
    return identity.simulate_post("/identity/v3/auth/tokens", json={"auth": sent})


def test_a_token_has_the_user_and_the_project(identity: testing.TestClient) -> None:
    answer = login(identity, scope={"project": {"name": "solar", "domain": {"name": "Default"}}})
    assert answer.status_code == 201
    token = answer.headers["X-Subject-Token"]
    assert (answer.json["token"]["user"]["id"], answer.json["token"]["project"]["name"]) == ("ada", "solar")
    endpoints = {each["type"]: each["endpoints"][0]["url"] for each in answer.json["token"]["catalog"]}
    here = "http://falconframework.org"
    assert endpoints == {"block-storage": f"{here}/v3", "identity": f"{here}/identity/v3"}
    again = identity.simulate_get("/identity/v3/auth/tokens", headers={"X-Subject-Token": token})
    assert again.json["token"]["project"] == answer.json["token"]["project"]
    rescoped = identity.simulate_post(
        "/identity/v3/auth/tokens",
        json={
            "auth": {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": {"project": {"id": "sea"}}}
        },
    )
    assert rescoped.headers["X-Subject-Token"] == "ada:sea"
    headers = {"X-Auth-Token": token}
    made = identity.simulate_post("/v3/volumes", json={"volume": {"size": 1}}, headers=headers).json["volume"]
    shown = identity.simulate_get(f"/v3/volumes/{made['id']}", headers=headers).json["volume"]
    assert (shown["os-vol-tenant-attr:tenant_id"], shown["user_id"]) == ("solar", "ada")


def test_a_login_without_a_scope_uses_the_default_project(identity: testing.TestClient) -> None:
    for scope in ({}, {"scope": "unscoped"}, {"scope": None}, {"scope": {}}):
        assert login(identity, **scope).headers["X-Subject-Token"] == "ada:demo"


def test_every_user_and_project_exists(identity: testing.TestClient) -> None:
    assert identity.simulate_get("/identity/v3/projects/sea").json["project"]["id"] == "sea"
    assert identity.simulate_get("/identity/v3/projects?name=sea").json["projects"][0]["name"] == "sea"
    assert identity.simulate_get("/identity/v3/projects").json["projects"][0]["name"] == "demo"
    assert identity.simulate_get("/identity/v3/auth/projects").json["projects"][0]["name"] == "demo"
    # `openstack --os-auth-type none --os-endpoint .../v3` has one address for all services.
    assert identity.simulate_get("/v3/projects/sea").json["project"]["id"] == "sea"
    assert identity.simulate_get("/v3/projects?name=sea").json["projects"][0]["name"] == "sea"
    assert identity.simulate_get("/v3/sea/volumes").json == {"volumes": []}
    assert identity.simulate_get("/identity/v3/users/ada").json["user"]["name"] == "ada"
    assert identity.simulate_get("/identity/v3/domains/default").json["domain"]["name"] == "Default"
    assert identity.simulate_get("/identity/v3/domains/other").status_code == 404
    assert identity.simulate_get("/identity/v3").json["version"]["links"][0]["href"].endswith("/identity/v3/")
    assert identity.simulate_get("/identity").status_code == 300


@pytest.mark.parametrize("name", ["\u0444", "a\r\nb", "a\x7f", "a" * 256, "a:b"])
def test_names_that_do_not_fit_into_a_header_are_rejected(identity: testing.TestClient, name: str) -> None:
    sent = {"identity": {"password": {"user": {"name": name}}}}
    answer = identity.simulate_post("/identity/v3/auth/tokens", json={"auth": sent})
    assert (answer.status_code, list(answer.json)) == (400, ["badRequest"])
    if name != "a:b":
        assert login(identity, scope={"project": {"id": name}}).status_code == 400


@pytest.mark.parametrize(
    "body", [None, {}, {"auth": {}}, {"auth": {"identity": {"password": {"user": {"name": "a:b"}}}}}, {"auth": 1}]
)
def test_malformed_logins_are_rejected(identity: testing.TestClient, body: Any) -> None:
    answer = identity.simulate_post("/identity/v3/auth/tokens", json=body)
    assert (answer.status_code, list(answer.json)) == (400, ["badRequest"])


@pytest.mark.parametrize("strategy", ["keystone", "http_basic"])
def test_an_api_with_authentication_has_no_identity_service(cluster: Cluster, strategy: str) -> None:
    conf = configuration(auth_strategy=strategy)
    made = testing.TestClient(app.build(conf, cluster.database, cluster.scheduler, authentication.noauth))
    assert made.simulate_get("/identity/v3").status_code == 404
    assert made.simulate_get("/v3/projects").status_code == 404
