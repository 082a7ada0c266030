# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document, generated from the resources."""

from typing import Any

import msgspec
import openapi_spec_validator
import pytest

from tests.unit.api.cluster import configuration, parts
from tonnage import extension
from tonnage.api import app
from tonnage.api.auth import policies
from tonnage.api.http.annotations import PublicResource, Route, operation
from tonnage.api.openapi import document as openapi_document
from tonnage.api.resources import discovery

INSTALLED = sorted(extension.installed())


def routes(*names: str) -> list[Route]:
    """Return the routes of the core and of the named extensions."""
    return app.documented_routes(parts(*names))


EACH_SELECTION = pytest.mark.parametrize("names", [(), tuple(INSTALLED)], ids=["core", "all extensions"])


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


def document_of(*names: str) -> Any:
    """Return the OpenAPI document with the named extensions."""
    return app.openapi(configuration(enabled_extensions=names), parts(*names)).document


class Thing(msgspec.Struct):
    """A thing."""

    id: str


class OneThing(msgspec.Struct):
    """One thing."""

    thing: Thing


class Things:
    """A resource with a method for each sort of operation."""

    @operation({202: OneThing}, bodies=(OneThing,), errors=(409,))
    def on_post(self) -> None:
        """Create a thing.

        It has more text.
        """

    @operation({200: OneThing}, names={"thing_id": "^[a-z]+$"})
    def on_get_thing(self) -> None:
        """Show a thing."""

    def on_delete_thing(self) -> None:
        """Delete a thing, without an annotation."""


class PublicThings(PublicResource):
    """A resource without authentication."""

    @operation({200: OneThing})
    def on_get(self) -> None:
        """List things."""


THINGS: list[Route] = [
    ("/v3/things", Things(), None),
    ("/v3/things/{thing_id}", Things(), "thing"),
    ("/things", PublicThings(), None),
]


@pytest.fixture
def things() -> Any:
    """The paths of a document about things."""
    rules = [policies.rule("thing:create", policies.ADMIN, "Create a thing.", "POST /things")]
    return openapi_document.document(THINGS, rules, "keystone")["paths"]


def test_a_method_without_an_annotation_is_reported_and_not_documented(things: Any) -> None:
    assert openapi_document.undocumented(THINGS) == ["DELETE /v3/things/{thing_id}"]
    assert set(things["/v3/things/{thing_id}"]) == {"get"}


def test_the_docstring_is_a_summary_and_a_description(things: Any) -> None:
    created = things["/v3/things"]["post"]
    assert (created["summary"], created["description"]) == ("Create a thing.", "It has more text.")
    assert "description" not in things["/things"]["get"]
    assert (created["operationId"], created["tags"]) == ("post_v3_things", ["things"])


def test_errors_are_those_that_the_operation_can_have(things: Any) -> None:
    def statuses(path: str, method: str) -> set[int]:
        return {int(status) for status in things[path][method]["responses"]}

    usual = {400, 403, 413, 500, 503}
    assert statuses("/v3/things", "post") == usual | {202, 401, 406, 408, 409, 415}
    assert statuses("/v3/things/{thing_id}", "get") == usual | {200, 401, 404, 406}
    assert statuses("/things", "get") == usual | {200}


def test_the_created_object_is_linked_with_the_operations_on_it(things: Any) -> None:
    links = things["/v3/things"]["post"]["responses"]["202"]["links"]
    [(name, link)] = links.items()
    assert name == link["operationId"] == things["/v3/things/{thing_id}"]["get"]["operationId"]
    assert link["parameters"] == {"thing_id": "$response.body#/thing/id"}


def test_rules_and_the_pattern_of_a_name_are_documented(things: Any) -> None:
    assert things["/v3/things"]["post"]["x-policies"] == ["thing:create"]
    assert "x-policies" not in things["/v3/things/{thing_id}"]["get"]
    [name, version] = things["/v3/things/{thing_id}"]["get"]["parameters"]
    assert (name["name"], name["schema"]["pattern"]) == ("thing_id", "^[a-z]+$")
    assert version["name"] == "OpenStack-API-Version"
    assert things["/things"]["get"]["parameters"] == []
