# SPDX-License-Identifier: Apache-2.0
"""Tests of errors of Placement. The functional tests with a real Placement cover successful requests."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import exceptions

from tonnage.extensions.placement.client import PlacementClient, PlacementRefused, PlacementUnavailable


def client_answering(status: int, body: object) -> PlacementClient:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    adapter: Any = SimpleNamespace(request=lambda *args, **kwargs: SimpleNamespace(status_code=status, content=content))
    return PlacementClient(adapter, 5)


PROBLEM = {"errors": [{"status": 0, "detail": "Something\n is wrong.", "code": "placement.undefined_code"}]}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"does not let the account of the section \[placement\] do this"),
        (403, r"does not let the account"),
        (406, r"is too old: it takes microversion 1\.38"),
        (500, r"OpenStack Placement fails: GET /usages answered 500: Something is wrong\."),
        (503, r"answered 503"),
    ],
)
def test_server_and_authentication_errors_mean_unavailable(status: int, message: str) -> None:
    with pytest.raises(PlacementUnavailable, match=message):
        client_answering(status, PROBLEM).usage("p")


def test_a_refusal_has_the_error_message() -> None:
    with pytest.raises(
        PlacementRefused, match=r"refuses: POST /resource_providers answered 409: Something is wrong\."
    ) as found:
        client_answering(409, PROBLEM).create_provider("n", "id")
    assert found.value.status == 409


@pytest.mark.parametrize("body", [b"<html>It works!</html>", {"usages": 3}, b"\xff"])
def test_an_unexpected_body_means_unavailable(body: object) -> None:
    with pytest.raises(PlacementUnavailable, match="the server is not OpenStack Placement"):
        client_answering(200, body).usage("p")
    with pytest.raises(PlacementRefused, match="answered 404"):
        client_answering(404, body).usage("p")


def test_an_error_of_keystone_means_unavailable() -> None:
    def request(*args: Any, **kwargs: Any) -> None:
        raise exceptions.EndpointNotFound("placement service for RegionOne\nregion not found")

    adapter: Any = SimpleNamespace(request=request)
    with pytest.raises(PlacementUnavailable, match="cannot be asked: placement service for RegionOne region not found"):
        PlacementClient(adapter, 5).providers()


def test_a_project_without_usage_uses_nothing() -> None:
    assert client_answering(200, {"usages": {}}).usage("p") == 0
