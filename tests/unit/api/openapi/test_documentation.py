# SPDX-License-Identifier: Apache-2.0
"""Tests that the documentation and the OpenAPI document describe the whole API."""

import json
import pathlib
import re

import msgspec
import openapi_spec_validator
import pytest

from tests.unit.api.cluster import configuration
from tonnage.api import app
from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import Route
from tonnage.api.openapi import document as openapi_document
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import capacity_factors
from tonnage.capacity.pools.pool_table import Pool

DOCS = pathlib.Path(__file__).parents[4] / "docs"


def routes() -> list[Route]:
    return app.all_routes(configuration(), ResourceContext(*[None] * 5))  # type: ignore[arg-type]


def test_every_route_is_documented() -> None:
    page = (DOCS / "api.rst").read_text()
    assert not [path for path, _, _ in routes() if f"``{path.removeprefix('/v3') or path}``" not in page]


def test_every_operation_is_in_the_openapi_document() -> None:
    assert openapi_document.undocumented(routes()) == []
    document = openapi_document.document(routes(), "keystone")
    openapi_spec_validator.OpenAPIV31SpecValidator(msgspec.json.decode(msgspec.json.encode(document))).validate()
    paths = {path for path, _, _ in routes()}
    assert set(document["paths"]) == paths
    # msgspec adds the module and a dot to the name of a type if two types have the same name.
    assert not [name for name in document["components"]["schemas"] if "." in name]
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))


def test_policy_rules_apply_to_existing_operations() -> None:
    ruled = {
        (method.upper(), path.removeprefix("/v3")): one.get("x-policies", [])
        for path, methods in openapi_document.document(routes(), "noauth")["paths"].items()
        for method, one in methods.items()
    }
    assert set(policies.by_operation()) <= set(ruled)
    assert policies.VOLUME_CREATE in ruled["POST", "/volumes"]
    open_to_everybody = {"", "/", "/healthcheck", "/extensions", "/resource_filters", "/group_types/default"}
    assert {path for (_, path), rules in ruled.items() if not rules} == open_to_everybody


def test_the_openapi_document_has_the_required_authentication() -> None:
    secured = {}
    for strategy in ("noauth", "keystone", "http_basic"):
        document = openapi_document.document(routes(), strategy)
        operations = [(path, one) for path, methods in document["paths"].items() for one in methods.values()]
        secured[strategy] = {path for path, one in operations if "security" in one}
        assert {path for path, one in operations if "401" not in one["responses"]} == {"/", "/v3", "/healthcheck"}
        assert {name for _, one in operations for each in one.get("security", ()) for name in each} == set(
            document["components"]["securitySchemes"]
        )
    assert secured["noauth"] == set()
    assert secured["keystone"] == secured["http_basic"] == set(document["paths"]) - {"/", "/v3", "/healthcheck"}


@pytest.mark.parametrize("name", capacity_factors.CapacityFactors._fields)
def test_every_capacity_factor_is_documented(name: str) -> None:
    assert f"``{name}``" in (DOCS / "capacity-factors.rst").read_text()


def test_the_documented_example_matches_the_result() -> None:
    page = (DOCS / "capacity-factors.rst").read_text()
    block = re.search(r"code-block:: json\n\n(.*?\n   \}\n)", page, re.DOTALL)
    assert block is not None
    pool = Pool(
        name="h@b#p",
        total=5120.0,
        free=4616.0,
        provisioned=500.0,
        allocated=500.0,
        reserved_percentage=20.0,
        thick=True,
    )
    found = capacity_factors.capacity_factors(pool, Calculation.CINDER)
    assert [one._asdict() for one in found] == [json.loads(block[1])]
