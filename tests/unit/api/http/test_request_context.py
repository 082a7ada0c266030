# SPDX-License-Identifier: Apache-2.0
"""The context of a request of an administrator, and the ids of requests."""

from collections.abc import Callable
from typing import Any

import pytest
import webob
from falcon import testing
from oslo_middleware import request_id as middleware

from tonnage.api.http import request_context
from tonnage.api.http.http_request import Request

GLOBAL_ID = "req-3f1e8a52-0d1c-4b7e-9a64-5c2f7e8d9b10"


@pytest.fixture
def receive() -> Callable[..., Request]:
    """A function that returns a request as oslo.middleware hands it on."""

    def received(**headers: str) -> Request:
        requests: list[Request] = []

        def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            requests.append(Request(environ))
            start_response("200 OK", [])
            return []

        webob.Request.blank("/v3/types", headers=headers).get_response(middleware.RequestId(application))
        return requests[0]

    return received


@pytest.mark.parametrize(("project_id", "project"), [("p", "p"), (None, "demo"), ("", "demo")])
def test_an_administrator_has_all_roles_in_a_project(
    receive: Callable[..., Request], project_id: str | None, project: str
) -> None:
    context = request_context.administrator(receive(), user_id="u", project_id=project_id)
    assert (context.user_id, context.project_id, context.is_admin) == ("u", project, True)
    assert {"admin", "member", "reader"} == set(context.roles)


def test_a_context_has_the_ids_of_its_request(receive: Callable[..., Request]) -> None:
    received = receive(**{"X-OpenStack-Request-Id": GLOBAL_ID})
    context = request_context.administrator(received, user_id="u", project_id="p")
    assert context.request_id == request_context.request_id(received) != GLOBAL_ID
    assert str(context.request_id).startswith("req-")
    assert context.global_request_id == GLOBAL_ID


def test_a_request_that_did_not_pass_the_middleware_has_no_id() -> None:
    assert request_context.request_id(Request(testing.create_environ())) is None


def test_an_error_of_authentication_has_its_challenge() -> None:
    error = request_context.Unauthenticated(request_context.REQUIRED, 'Basic realm="x"')
    assert (error.message, error.challenge) == (request_context.REQUIRED, 'Basic realm="x"')
