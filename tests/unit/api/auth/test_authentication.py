# SPDX-License-Identifier: Apache-2.0
"""Requests of pages of other origins."""

import falcon
import pytest
from falcon import testing

from tests.unit.api.cluster import Client
from tonnage.api.auth.authentication import Authentication, noauth
from tonnage.api.http import faults
from tonnage.api.http.http_request import Request

HORIZON = "https://horizon.example"
BODY = {"volume": {"size": 1}}


def status(client: Client, origin: str, host: str = "storage:8776", method: str = "POST") -> int:
    headers = {"Origin": origin, "Host": host}
    path = "/v3/scheduler-stats/explain"
    return client.simulate_request(method, path, headers=headers, json=BODY if method == "POST" else None).status_code


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://storage", "http://storage:8777", "storage:8776"]
)
def test_a_page_of_another_origin_changes_nothing(client: Client, origin: str) -> None:
    assert status(client, origin) == 403


@pytest.mark.parametrize("origin", ["http://storage:8776", "https://storage:8776", "http://STORAGE:8776"])
def test_a_page_of_the_same_origin_is_served(client: Client, origin: str) -> None:
    assert status(client, origin) == 200


def test_origins_that_cors_allows_are_served() -> None:
    def ask(allowed: list[str]) -> int:
        application: falcon.App[Request, falcon.Response] = falcon.App(
            request_type=Request, middleware=[Authentication(noauth, allowed)]
        )
        application.add_error_handler(faults.Forbidden, _forbid)
        return testing.TestClient(application).simulate_post("/", headers={"Origin": HORIZON}).status_code

    assert ask(["https://other.example"]) == 403
    assert ask(["https://other.example", HORIZON]) == 404, "there is no resource"
    assert ask(["*"]) == 404


def _forbid(req: falcon.Request, resp: falcon.Response, error: Exception, params: object) -> None:
    resp.status = falcon.HTTP_403


def test_reading_needs_no_origin(client: Client) -> None:
    assert client.simulate_get("/v3/types", headers={"Origin": "https://evil.example"}).status_code == 200


def test_a_form_is_refused(client: Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Host": "storage:8776"}
    sent = {"path": "/v3/scheduler-stats/explain", "body": b"size=1"}
    assert client.simulate_post(**sent, headers={**form, "Origin": "http://storage:8776"}).status_code == 415
    assert client.simulate_post(**sent, headers={**form, "Origin": "https://evil.example"}).status_code == 403
