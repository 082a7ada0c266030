# SPDX-License-Identifier: Apache-2.0
"""The connection to the Cinder of a cloud."""

import json
import pathlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from openstack import config

from tests.unit.extensions.relocation.cloud_api import PROJECT
from tests.unit.extensions.relocation.conftest import Served
from tonnage.capacity import errors
from tonnage.extensions.relocation import cloud_connection

#: openstacksdk warns of a part of itself.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


def test_the_account_is_that_of_the_environment(cloud: Served) -> None:
    client, project, user = cloud_connection.connect(None)
    assert (client.cloud, project, user) == (cloud.url.removesuffix(f"/v3/{PROJECT}"), "", "")
    assert len(client.pools()) == 3
    assert client._session.timeout == 120


def test_the_account_is_an_entry_of_clouds_yaml(
    cloud: Served, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OS_AUTH_TYPE", "OS_ENDPOINT", "OS_TOKEN"):
        monkeypatch.delenv(name)
    account = {"auth_type": "admin_token", "auth": {"endpoint": cloud.url, "token": "secret"}}
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": {"mine": account}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    client, _, _ = cloud_connection.connect("mine")
    assert len(client.pools()) == 3
    with pytest.raises(errors.ConfigurationError, match="the cloud yours cannot be used: Cloud yours was not found"):
        cloud_connection.connect("yours")


@contextmanager
def endpoint(monkeypatch: pytest.MonkeyPatch, url: str | None, project: str | None = None) -> Iterator[None]:
    """Let the catalog have this endpoint, and the account this project."""
    session = SimpleNamespace(
        timeout=None, get_endpoint=lambda **_: url, get_project_id=lambda: project, get_user_id=lambda: "user"
    )
    region = SimpleNamespace(
        get_session=lambda: session,
        get_endpoint=lambda _: None,
        get_interface=lambda _: None,
        get_region_name=lambda: "",
    )
    with monkeypatch.context() as patch:
        patch.setattr(config, "OpenStackConfig", lambda: SimpleNamespace(get_one=lambda cloud: region))
        yield


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://c/v3/p1", "/v3/p1"),
        ("http://c/volume/v3/", "/volume/v3/p1"),
        ("http://c/volume", "/volume/v3/p1"),
    ],
)
def test_an_endpoint_gets_the_version_and_the_project(url: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(monkeypatch, url, "p1"):
        client, project, user = cloud_connection.connect(None)
    assert (client._url, project, user) == (f"http://c{path}", "p1", "user")


def test_a_catalog_without_cinder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        endpoint(monkeypatch, None),
        pytest.raises(errors.ConfigurationError, match="has no endpoint of the type block-storage"),
    ):
        cloud_connection.connect(None)


def test_a_keystone_that_is_away_or_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from keystoneauth1 import exceptions

    for failure, error in (
        (exceptions.ConnectFailure("no route"), errors.Unavailable),
        (exceptions.Unauthorized("wrong password"), errors.ConfigurationError),
    ):

        def fail(cloud: str | None, failure: Exception = failure) -> Any:
            raise failure

        monkeypatch.setattr(config, "OpenStackConfig", lambda fail=fail: SimpleNamespace(get_one=fail))
        with pytest.raises(error, match=re.escape(str(failure))):
            cloud_connection.connect(None)


def test_without_openstacksdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openstack", None)
    with pytest.raises(errors.ConfigurationError, match=r"\[clouds\]"):
        cloud_connection.connect("mine")
