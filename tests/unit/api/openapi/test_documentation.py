# SPDX-License-Identifier: Apache-2.0
"""Tests that the documentation and the OpenAPI document describe the whole API."""

import json
import pathlib
import re
from typing import Any

import msgspec
import openapi_spec_validator
import pytest

from tests.unit.api.cluster import configuration, parts
from tonnage import extension
from tonnage.api import app
from tonnage.api.auth import policies
from tonnage.api.http.annotations import Route
from tonnage.api.openapi import document as openapi_document
from tonnage.api.resources import discovery
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import capacity_factors
from tonnage.capacity.pools.pool_table import Pool

DOCS = pathlib.Path(__file__).parents[4] / "docs"


INSTALLED = sorted(extension.installed())


def routes(*names: str) -> list[Route]:
    """Return the routes of the core and of the named extensions."""
    return app.documented_routes(parts(*names))


def document_of(*names: str) -> Any:
    """Return the OpenAPI document with the named extensions."""
    return app.openapi(configuration(enabled_extensions=names), parts(*names)).document


EACH_SELECTION = pytest.mark.parametrize("names", [(), tuple(INSTALLED)], ids=["core", "all extensions"])


def test_every_route_is_documented() -> None:
    page = (DOCS / "api.rst").read_text()
    assert not [path for path, _, _ in routes(*INSTALLED) if f"``{path.removeprefix('/v3') or path}``" not in page]


@EACH_SELECTION
def test_every_operation_is_in_the_openapi_document(names: tuple[str, ...]) -> None:
    assert openapi_document.undocumented(routes(*names)) == []
    document = document_of(*names)
    openapi_spec_validator.OpenAPIV31SpecValidator(msgspec.json.decode(msgspec.json.encode(document))).validate()
    assert set(document["paths"]) == {path for path, _, _ in routes(*names)} | {discovery.PATH}
    # msgspec adds the module and a dot to the name of a type if two types have the same name.
    assert not [name for name in document["components"]["schemas"] if "." in name]
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


@EACH_SELECTION
def test_policy_rules_apply_to_existing_operations(names: tuple[str, ...]) -> None:
    rules = policies.enabled_rules(configuration(enabled_extensions=names))
    rules_by_call = {
        (method.upper(), path.removeprefix("/v3")): operation.get("x-policies", [])
        for path, methods in document_of(*names)["paths"].items()
        for method, operation in methods.items()
    }
    assert set(policies.by_operation(rules)) <= set(rules_by_call)
    assert policies.VOLUME_CREATE in rules_by_call["POST", "/volumes"]
    open_to_everybody = {"", "/", "/healthcheck", "/extensions", "/openapi.json", "/resource_filters"}
    assert {path for (_, path), rules in rules_by_call.items() if not rules} == {
        *open_to_everybody,
        "/group_types/default",
    }


def test_the_openapi_document_has_the_required_authentication() -> None:
    secured = {}
    public = {"/", "/v3", "/healthcheck"}
    for strategy in ("noauth", "keystone", "http_basic"):
        document = openapi_document.document(routes(), [], strategy)
        operations = [
            (path, operation) for path, methods in document["paths"].items() for operation in methods.values()
        ]
        secured[strategy] = {path for path, operation in operations if "security" in operation}
        assert {path for path, operation in operations if "401" not in operation["responses"]} == public
        assert {
            scheme for _, operation in operations for names in operation.get("security", ()) for scheme in names
        } == set(document["components"]["securitySchemes"])
    assert secured["noauth"] == set()
    assert secured["keystone"] == secured["http_basic"] == set(document["paths"]) - public


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
