# SPDX-License-Identifier: Apache-2.0
"""The API with and without extensions."""

from collections.abc import Sequence

import falcon
import pytest
from falcon import testing
from oslo_config import cfg
from oslo_policy import policy

from tests.unit.api.cluster import Cluster
from tonnage import enabled_extensions, extension
from tonnage.api import extension_parts
from tonnage.api.auth import policies
from tonnage.api.extension_parts import ApiContext, ApiParts, PoolForecast
from tonnage.api.http.annotations import PublicResource
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors
from tonnage.extension import Extension


class RackOnFire(errors.Conflict):
    """An error of an extension, of a class that the core answers with 400."""


class Racks:
    """A resource of an extension."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        raise RackOnFire("the rack is on fire")


def build_racks(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    def pool_forecasts() -> dict[str, PoolForecast]:
        return {"rack": PoolForecast(text="cold", full_in_days=None)}

    return ApiParts(
        routes=[("/racks", Racks(), None)],
        unversioned_routes=[("/racks", Racks(), None)],
        statuses={RackOnFire: 409},
        pool_forecasts=pool_forecasts,
    )


def build_reader(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    class Forecasts(PublicResource):
        def on_get(self, req: Request, resp: falcon.Response) -> None:
            resp.media = {name: forecast.text for name, forecast in context.pool_forecasts().items()}

    return ApiParts(routes=[("/rack-forecasts", Forecasts(), None)])


def rules_of_racks() -> Sequence[policy.DocumentedRuleDefault]:
    return [policies.rule("rack:get", policies.ADMIN, "See racks.", "GET /racks")]


def rules_of_fires() -> Sequence[policy.DocumentedRuleDefault]:
    return [policies.rule("rack:get", policies.ADMIN, "See racks.", "GET /rack-fires")]


def rules_for_readers() -> Sequence[policy.DocumentedRuleDefault]:
    return [policies.rule("rack:get", policies.READER, "See racks.", "GET /rack-colors")]


@pytest.fixture
def with_racks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install two extensions, of which the first reads the forecasts of the second."""
    declarations = {
        "reader": Extension(summary="", api=f"{__name__}:build_reader", policies=f"{__name__}:rules_of_fires"),
        "racks": Extension(summary="", api=f"{__name__}:build_racks", policies=f"{__name__}:rules_of_racks"),
    }
    monkeypatch.setattr(enabled_extensions, "enabled", lambda conf: declarations)
    monkeypatch.setattr(extension, "installed", lambda: declarations)


def plain_client(cluster: Cluster) -> testing.TestClient:
    """Return a client that does not check the responses against the OpenAPI document."""
    return testing.TestClient(cluster.client().app)


def test_an_extension_adds_routes_and_the_statuses_of_its_errors(with_racks: None, cluster: Cluster) -> None:
    tester = plain_client(cluster)
    for path in ("/racks", "/v3/racks", "/v3/demo/racks"):
        assert tester.simulate_get(path).status_code == 200
    answer = tester.simulate_post("/v3/racks")
    assert (answer.status_code, answer.json["conflictingRequest"]["message"]) == (409, "the rack is on fire")


def test_an_extension_has_the_forecasts_of_extensions_that_are_built_later(with_racks: None, cluster: Cluster) -> None:
    assert plain_client(cluster).simulate_get("/v3/rack-forecasts").json == {"rack": "cold"}


def test_a_rule_of_two_extensions_is_one_rule_with_the_calls_of_both(with_racks: None) -> None:
    [rule] = [rule for rule in policies.list_rules() if rule.name == "rack:get"]
    assert isinstance(rule, policy.DocumentedRuleDefault)
    assert [operation["path"] for operation in rule.operations] == ["/rack-fires", "/racks"]


def test_extensions_do_not_redefine_the_rules_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    declarations = {
        name: Extension(summary="", policies=f"{__name__}:{name}") for name in ("rules_of_racks", "rules_for_readers")
    }
    monkeypatch.setattr(extension, "installed", lambda: declarations)
    with pytest.raises(errors.ConfigurationError, match="rack:get is declared twice"):
        policies.list_rules()


@pytest.mark.parametrize("path", ["capacity-overview", "capacity-overview/history", "csi-drivers", "csi-capacity/fit"])
def test_the_core_has_no_route_of_an_extension(cluster: Cluster, path: str) -> None:
    assert plain_client(cluster).simulate_get(f"/v3/{path}").status_code == 404


def test_the_core_has_no_rule_of_an_extension() -> None:
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("enabled_extensions", [])
    names = {str(rule.name) for rule in policies.enabled_rules(conf)}
    assert {name for name in names if name.startswith(("csi:", "capacity:"))} == set()
    assert {str(rule.name) for rule in policies.list_rules()} - names >= {"csi:fit", "capacity:overview"}


def test_without_extensions_there_are_no_parts() -> None:
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("enabled_extensions", [])
    assert extension_parts.load(conf, None, list) == {}  # type: ignore[arg-type]
