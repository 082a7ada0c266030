# SPDX-License-Identifier: Apache-2.0
"""Tests of credentials for a REST API."""

import os
import pathlib
import sys

import pytest

from tonnage.capacity import errors
from tonnage.cli.rest import credentials

BASIC, KEYSTONE = 'Basic realm="tonnage"', 'Keystone uri="https://identity.example.com"'


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    # Disables the password prompt.
    monkeypatch.setattr("sys.stdin", None)


@pytest.mark.parametrize(
    ("challenge", "missing"),
    [(BASIC, "OS_USERNAME and OS_PASSWORD"), (KEYSTONE, "OS_AUTH_URL, OS_USERNAME, OS_PROJECT_NAME and OS_PASSWORD")],
)
def test_missing_variables_are_named(challenge: str, missing: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"needs authentication: set OS_CLOUD, or .* {missing}$"):
        credentials.headers(challenge, None)


def test_user_names_and_passwords_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_USERNAME", "jane")
    monkeypatch.setenv("OS_PASSWORD", "secret")
    assert credentials.headers(BASIC, None) == {"Authorization": "Basic amFuZTpzZWNyZXQ="}


def test_an_existing_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_TOKEN", "t")
    assert credentials.headers(KEYSTONE, None) == {"X-Auth-Token": "t"}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_an_entry_of_clouds_yaml_is_used(tmp_path: pathlib.Path) -> None:
    auth = {"username": "jane", "password": "secret", "endpoint": "http://x"}
    (tmp_path / "clouds.yaml").write_text(f"clouds: {{c: {{auth_type: http_basic, auth: {auth}}}}}")
    assert credentials.headers(KEYSTONE, "c") == {"Authorization": "Basic amFuZTpzZWNyZXQ="}
    with pytest.raises(errors.ConfigurationError, match="Cloud other was not found"):
        credentials.headers(KEYSTONE, "other")


def test_clouds_require_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openstack", None)
    with pytest.raises(errors.ConfigurationError, match=r"without openstacksdk: set OS_AUTH_URL .* '\.\[clouds\]'"):
        credentials.headers(KEYSTONE, "c")


def test_an_unreachable_keystone_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "PROJECT_NAME"):
        monkeypatch.setenv(f"OS_{name}", "x")
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    with pytest.raises(errors.TonnageError) as caught:
        credentials.headers(KEYSTONE, None)
    assert "127.0.0.1:9" in caught.value.message
    assert "\n" not in caught.value.message


def test_an_unknown_auth_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_AUTH_TYPE", "moon")
    with pytest.raises(errors.ConfigurationError, match=r"OS_ variables cannot be used.* moon"):
        credentials.headers(KEYSTONE, None)
