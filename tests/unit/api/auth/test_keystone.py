# SPDX-License-Identifier: Apache-2.0
"""Tests of the section ``[keystone_authtoken]``. Tests in tests/functional validate tokens with a real Keystone."""

import pathlib

import pytest

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.auth.keystone import Keystone, list_library_opts
from tonnage.api.http import request_context
from tonnage.capacity import errors

#: No server listens on this address.
ADDRESS = "http://127.0.0.1:1/v3"

ACCOUNT = {
    "auth_type": "password",
    "auth_url": ADDRESS,
    "www_authenticate_uri": "https://identity.example.com/v3",
    "username": "tonnage",
    "password": "s3cret",
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
    "http_request_max_retries": "0",
}


def selected(folder: pathlib.Path, section: dict[str, str]) -> authentication.Authenticator:
    file = folder / "tonnage.conf"
    lines = [f"{key} = {value}\n" for key, value in section.items()]
    file.write_text("".join(["[DEFAULT]\nauth_strategy = keystone\n[keystone_authtoken]\n", *lines]))
    return authentication.select(configuration([str(file)]), None)


def test_keystone_is_allowed_on_any_address(tmp_path: pathlib.Path) -> None:
    assert isinstance(selected(tmp_path, ACCOUNT), Keystone)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"auth_type": ""}, "auth_type is not set"),
        ({"auth_type": "sorcery"}, "sorcery"),
        ({"auth_url": ""}, "auth_url"),
        ({"username": ""}, "username or user_id is not set"),
        ({"password": ""}, "password is not set"),
        ({"project_name": ""}, "project_name or project_id"),
        ({"auth_section": "nowhere"}, "nowhere"),
        ({"cafile": "/nowhere/ca.pem"}, "cafile is /nowhere/ca.pem, which cannot be read"),
        ({"token_cache_time": "soon"}, "token_cache_time"),
        ({"memcache_security_strategy": "ENCRYPT"}, "memcache_secret_key"),
        ({"memcached_servers": "127.0.0.1:1"}, "python-memcached"),
    ],
)
def test_an_unusable_section_is_rejected(tmp_path: pathlib.Path, changed: dict[str, str], problem: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[keystone_authtoken\]") as raised:
        selected(tmp_path, {name: value for name, value in {**ACCOUNT, **changed}.items() if value})
    assert problem in raised.value.message
    assert "s3cret" not in raised.value.message


@pytest.fixture
def anonymous(cluster: Cluster, tmp_path: pathlib.Path) -> Client:
    """A client of an application whose Keystone does not answer, with ``delay_auth_decision`` enabled."""
    keystone = selected(tmp_path, {**ACCOUNT, "delay_auth_decision": "true"})
    return Client(app.build(configuration(), cluster.database, cluster.scheduler, keystone))


def test_a_request_without_a_token_is_rejected(anonymous: Client) -> None:
    answer = anonymous.simulate_get("/v3/volumes", headers={"X-Identity-Status": "Confirmed", "X-User-Id": "me"})
    assert answer.status_code == 401
    assert answer.json["unauthorized"] == {"code": 401, "message": request_context.REQUIRED}
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="https://identity.example.com/v3"'
    assert anonymous.simulate_get("/v3").status_code == 200


def test_a_token_is_not_accepted_while_keystone_is_away(anonymous: Client) -> None:
    answer = anonymous.simulate_get("/v3/volumes", headers={"X-Auth-Token": "t"})
    assert (answer.status_code, list(answer.json)) == (503, ["serviceUnavailable"])
    assert "Keystone" in answer.json["serviceUnavailable"]["message"]


def test_secret_options_are_marked_as_secret() -> None:
    ((_, options),) = list_library_opts()
    secret = {option.dest for option in options if option.secret}
    assert secret >= {"password", "memcache_secret_key", "memcache_password", "application_credential_secret"}
