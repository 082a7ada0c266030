# SPDX-License-Identifier: Apache-2.0
"""What oslo.middleware does before the application."""

from typing import Any

import pytest
import webob

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication, request_context
from tonnage.capacity import errors

PAGE = "https://horizon.example.com"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "x-auth-token,content-type,openstack-api-version",
}


def ask(client: Client, headers: dict[str, str]) -> Any:
    """Ask whether a request may be sent, as browsers do. The answer has no type, which falcon's client would want."""
    return webob.Request.blank("/v3/volumes", method="OPTIONS", headers=headers).get_response(client.app)


def stranger(*_: object) -> None:
    raise request_context.Unauthenticated(request_context.REQUIRED, "Basic")


def client(
    cluster: Cluster, group: str, authenticator: authentication.Authenticator = authentication.noauth, **options: object
) -> Client:
    conf = configuration()
    for name, value in options.items():
        conf.set_override(name, value, group)
    return Client(app.build(conf, cluster.database, cluster.scheduler, authenticator))


def test_what_proxies_say_is_believed_where_that_is_asked_for(cluster: Cluster) -> None:
    sent = {
        "Host": "storage:8776",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "cloud",
        "X-Forwarded-Prefix": "/v",
    }
    for believed, link in ((False, "http://storage:8776/v3/"), (True, "https://cloud/v/v3/")):
        made = client(cluster, "oslo_middleware", enable_proxy_headers_parsing=believed)
        assert made.simulate_get("/v3", headers=sent).json["versions"][0]["links"][0]["href"] == link


def test_pages_of_other_sites_are_told_nothing(cluster: Cluster) -> None:
    made = client(cluster, "cors")
    answers = [
        made.simulate_options("/v3/volumes", headers=PREFLIGHT),
        made.simulate_get("/v3", headers={"Origin": PAGE}),
    ]
    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_pages_that_are_named_may_ask_like_anybody(cluster: Cluster) -> None:
    # Whoever asks whether he may ask has no token to show yet.
    made = client(cluster, "cors", stranger, allowed_origin=[PAGE])  # type: ignore[arg-type]
    answer = ask(made, PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert answer.headers["Access-Control-Allow-Headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    # A page has to be able to read that it has no token.
    asked = made.simulate_get("/v3/volumes", headers={"Origin": PAGE})
    assert asked.status_code == 401
    assert asked.headers["Access-Control-Allow-Origin"] == PAGE
    assert "X-OpenStack-Request-ID" in asked.headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in {**answer.headers, **asked.headers}
    other = ask(made, {**PREFLIGHT, "Origin": "https://elsewhere.example.com"})
    assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize("origin", ["horizon.example.com", "https://horizon.example.com/", "ftp://x", "https://"])
def test_origins_that_no_page_has_are_refused(cluster: Cluster, origin: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[cors\] allowed_origin"):
        client(cluster, "cors", allowed_origin=[PAGE, origin])


def test_the_id_that_services_share_is_known(cluster: Cluster) -> None:
    shared = "req-3f1e8a52-0d1c-4b7e-9a64-5c2f7e8d9b10"
    seen = []

    def asker(req: object, project_id: str | None) -> object:
        seen.append(authentication.noauth(req, project_id))  # type: ignore[arg-type]
        return seen[-1]

    made = client(cluster, "cors", asker)  # type: ignore[arg-type]
    answer = made.simulate_get("/v3/types", headers={"X-OpenStack-Request-Id": shared})
    assert (seen[0].global_request_id, seen[0].request_id) == (shared, answer.headers["x-openstack-request-id"])
