# SPDX-License-Identifier: Apache-2.0
"""Tests of the middleware of oslo.middleware."""

from typing import Any

import pytest
import webob

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http import request_context
from tonnage.capacity import errors

PAGE = "https://horizon.example.com"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "x-auth-token,content-type,openstack-api-version",
}


def ask(client: Client, headers: dict[str, str]) -> Any:
    """Send a preflight request as browsers do. The response has no content type, which falcon's client requires."""
    return webob.Request.blank("/v3/volumes", method="OPTIONS", headers=headers).get_response(client.app)


def reject_all(*_: object) -> None:
    raise request_context.Unauthenticated(request_context.REQUIRED, "Basic")


def client(
    cluster: Cluster, group: str, authenticator: authentication.Authenticator = authentication.noauth, **options: object
) -> Client:
    conf = configuration()
    for name, value in options.items():
        conf.set_override(name, value, group)
    return Client(app.build(conf, cluster.database, cluster.scheduler, authenticator))


def test_headers_of_proxies_are_used_if_the_option_is_set(cluster: Cluster) -> None:
    sent = {
        "Host": "storage:8776",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "cloud",
        "X-Forwarded-Prefix": "/v",
    }
    for believed, link in ((False, "http://storage:8776/v3/"), (True, "https://cloud/v/v3/")):
        made = client(cluster, "oslo_middleware", enable_proxy_headers_parsing=believed)
        assert made.simulate_get("/v3", headers=sent).json["versions"][0]["links"][0]["href"] == link


def test_pages_of_other_sites_get_no_cors_headers(cluster: Cluster) -> None:
    made = client(cluster, "cors")
    answers = [
        made.simulate_options("/v3/volumes", headers=PREFLIGHT),
        made.simulate_get("/v3", headers={"Origin": PAGE}),
    ]
    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_pages_of_allowed_origins_may_send_requests(cluster: Cluster) -> None:
    # A preflight request has no token.
    made = client(cluster, "cors", reject_all, allowed_origin=[PAGE])  # type: ignore[arg-type]
    answer = ask(made, PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert answer.headers["Access-Control-Allow-Headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    # A page must be able to read the error for a missing token.
    asked = made.simulate_get("/v3/volumes", headers={"Origin": PAGE})
    assert asked.status_code == 401
    assert asked.headers["Access-Control-Allow-Origin"] == PAGE
    assert "X-OpenStack-Request-ID" in asked.headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in {**answer.headers, **asked.headers}
    other = ask(made, {**PREFLIGHT, "Origin": "https://elsewhere.example.com"})
    assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize("origin", ["horizon.example.com", "https://horizon.example.com/", "ftp://x", "https://"])
def test_invalid_origins_are_rejected(cluster: Cluster, origin: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[cors\] allowed_origin"):
        client(cluster, "cors", allowed_origin=[PAGE, origin])


def test_the_global_request_id_is_used(cluster: Cluster) -> None:
    shared = "req-3f1e8a52-0d1c-4b7e-9a64-5c2f7e8d9b10"
    seen = []

    def asker(req: object, project_id: str | None) -> object:
        seen.append(authentication.noauth(req, project_id))  # type: ignore[arg-type]
        return seen[-1]

    made = client(cluster, "cors", asker)  # type: ignore[arg-type]
    answer = made.simulate_get("/v3/types", headers={"X-OpenStack-Request-Id": shared})
    assert (seen[0].global_request_id, seen[0].request_id) == (shared, answer.headers["x-openstack-request-id"])
