# SPDX-License-Identifier: Apache-2.0
"""The counters of requests have few labels, whatever clients send."""

import uuid

import falcon
import pytest
from falcon import testing
from prometheus_client import REGISTRY

from tonnage.api.http.http_request import Request
from tonnage.api.monitoring.request_metrics import RequestMetrics


class Things:
    """A resource whose objects do not exist."""

    def on_get(self, req: Request, resp: falcon.Response, key: str) -> None:
        """Answer for one name alone."""
        if key == "broken":
            raise falcon.HTTPServiceUnavailable
        resp.status = falcon.HTTP_204


@pytest.fixture
def room() -> str:
    """A part of the path that no other test uses."""
    return f"r{uuid.uuid4().hex}"


@pytest.fixture
def client(room: str) -> testing.TestClient:
    app: falcon.App[Request, falcon.Response] = falcon.App(request_type=Request, middleware=[RequestMetrics()])
    app.add_route(f"/{room}/{{key:path}}", Things())
    return testing.TestClient(app)


def count(method: str, route: str, status: str) -> float:
    labels = {"method": method, "route": route, "code": status}
    return REGISTRY.get_sample_value("tonnage_api_requests_total", labels) or 0.0


def measured(route: str) -> float:
    return REGISTRY.get_sample_value("tonnage_api_request_duration_seconds_count", {"route": route}) or 0.0


def test_requests_for_different_objects_have_the_same_route(client: testing.TestClient, room: str) -> None:
    for key in ("a", "b/c", "broken"):
        client.simulate_get(f"/{room}/{key}")
    route = f"/{room}/{{key}}"
    assert (count("GET", route, "204"), count("GET", route, "503")) == (2, 1)
    assert measured(route) == 3


def test_an_unsupported_method_is_counted_with_its_route(client: testing.TestClient, room: str) -> None:
    client.simulate_delete(f"/{room}/a")
    assert count("DELETE", f"/{room}/{{key}}", "405") == 1


def test_paths_without_a_route_make_no_new_labels(client: testing.TestClient) -> None:
    before = count("GET", "none", "404")
    client.simulate_get(f"/{uuid.uuid4()}")
    assert count("GET", "none", "404") == before + 1


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_methods_that_http_does_not_have_make_no_new_labels(client: testing.TestClient, room: str) -> None:
    def by_method() -> dict[str, float]:
        numbers: dict[str, float] = {}
        for sample in (sample for family in REGISTRY.collect() for sample in family.samples):
            if sample.name == "tonnage_api_requests_total":
                numbers[sample.labels["method"]] = numbers.get(sample.labels["method"], 0.0) + sample.value
        return numbers

    before = by_method().get("other", 0.0)
    client.simulate_request(room.upper(), f"/{uuid.uuid4()}")
    assert by_method()["other"] == before + 1
    assert room.upper() not in by_method()
