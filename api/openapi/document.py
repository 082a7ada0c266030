# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document, generated from the annotations of the resources' methods and the types of the bodies."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from oslo_policy import policy

from tonnage.api.auth import policies
from tonnage.api.http import faults, microversions
from tonnage.api.http.annotations import Operation, PublicResource, Route, operation_of
from tonnage.api.schemas import response_bodies

Json = dict[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_COMPONENTS = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")

#: Error statuses of all operations, and of those with authentication, a body, a microversion, or names in the path.
_ERRORS = (400, 403, 413, 500, 503)
_ERRORS_WITH_AUTHENTICATION = (401,)
_ERRORS_WITH_BODY = (408, 415)
_ERRORS_WITH_VERSION = (406,)
_ERRORS_WITH_NAMES = (404,)

_DESCRIPTION = (
    "The part of the OpenStack Block Storage API v3 for the placement of volumes. Each path below /v3 is also served "
    "below /v3/{project_id}, as clients differ in this. Sizes are in GiB, times in UTC. Text cannot contain the "
    "character NUL. Unknown keys in bodies are refused, those of a new volume since microversion 3.53."
)


#: Security schemes by ``auth_strategy``. Strategies without one do not authenticate.
_SECURITY: Mapping[str, Json] = {
    "keystone": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
    "http_basic": {"basic": {"type": "http", "scheme": "basic"}},
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """An operation of the document: a method of a resource at a path."""

    path: str
    method: str
    docstring: str
    annotation: Operation
    public: bool

    @property
    def id(self) -> str:
        """The ``operationId``."""
        return f"{self.method}{re.sub(r'[^0-9a-zA-Z]+', '_', self.path)}".rstrip("_")

    @property
    def types(self) -> Iterator[Any]:
        """The types of its bodies."""
        for answer in self.annotation.answers.values():
            yield from _body_types(answer)
        yield from self.annotation.bodies
        yield from (self.annotation.actions or {}).values()


def document(routes: Iterable[Route], rules: Iterable[policy.RuleDefault], auth_strategy: str) -> Json:
    """Return the OpenAPI document of these routes, with the names of the policy rules that apply to each."""
    rule_names = policies.by_operation(rules)
    security = _SECURITY.get(auth_strategy, {})
    entries = list(_entries(routes))
    types = [response_bodies.Fault, *(body_type for entry in entries for body_type in entry.types)]
    type_schemas, components = msgspec.json.schema_components(
        types, schema_hook=_custom_schema, ref_template=_COMPONENTS
    )
    schemas = iter(type_schemas)
    next(schemas)  # the schema of Fault, which is needed only as a component
    paths: dict[str, Json] = {}
    for entry in entries:
        described = _operation(entry, [next(schemas) for _ in entry.types])
        if names := rule_names.get((entry.method.upper(), entry.path.removeprefix("/v3"))):
            described["x-policies"] = names
        if entry.method == "post":
            _add_links(described, entry, entries)
        if security and not entry.public:
            described["security"] = [{name: []} for name in security]
        paths.setdefault(entry.path, {})[entry.method] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tonnage Block Storage", "version": microversions.MAXIMUM, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components, "headers": _HEADERS, "securitySchemes": security},
    }


def undocumented(routes: Iterable[Route]) -> list[str]:
    """Return the methods without an annotation."""
    responders = _responders(routes)
    return [f"{method.upper()} {path}" for path, method, _, responder in responders if operation_of(responder) is None]


def _responders(routes: Iterable[Route]) -> Iterator[tuple[str, str, object, Any]]:
    for path, resource, suffix in routes:
        for method in _METHODS:
            responder = getattr(resource, f"on_{method}" + (f"_{suffix}" if suffix else ""), None)
            if responder is not None:
                yield path, method, resource, responder


def _entries(routes: Iterable[Route]) -> Iterator[_Entry]:
    for path, method, resource, responder in _responders(routes):
        annotation = operation_of(responder)
        if annotation is not None:
            docstring = inspect.getdoc(responder) or ""
            yield _Entry(path, method, docstring, annotation, isinstance(resource, PublicResource))


def _operation(entry: _Entry, schemas: list[Json]) -> Json:
    """Return one operation. ``schemas`` has the schemas of its types, in the same order."""
    annotation, remaining_schemas = entry.annotation, iter(schemas)
    responses = {}
    for status, answer in annotation.answers.items():
        answer_schemas = [next(remaining_schemas) for _ in _body_types(answer)]
        responses[str(status)] = _response(_SUCCESS.get(status, "The requested data."), answer_schemas)
    bodies = [next(remaining_schemas) for _ in annotation.bodies] + [
        _action(name, next(remaining_schemas)) for name in annotation.actions or ()
    ]
    for status in sorted(_errors(entry) - set(annotation.answers)):
        responses[str(status)] = _response(faults.name(status), [_fault(status)])
        if status == 401:
            responses[str(status)]["headers"]["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    summary, _, description = entry.docstring.partition("\n")
    tag = entry.path.removeprefix("/v3").strip("/").partition("/")[0] or "versions"
    described: Json = {
        "operationId": entry.id,
        "summary": summary,
        "tags": [tag],
        "parameters": list(_parameters(entry)),
        "responses": responses,
    }
    if description.strip():
        described["description"] = description.strip()
    if bodies:
        described["requestBody"] = {"required": True, "content": _json(bodies)}
    return described


def _add_links(described: Json, entry: _Entry, entries: Iterable[_Entry]) -> None:
    """Link the operation that creates an object to the operations on it, whose paths extend its own path."""
    for status, answer in entry.annotation.answers.items():
        pointer = _id_pointer(answer)
        links = {
            target.id: {"operationId": target.id, "parameters": {name[1]: pointer}}
            for target in entries
            if pointer and (name := re.match(re.escape(entry.path) + r"/\{(\w+)\}", target.path))
        }
        if links:
            described["responses"][str(status)]["links"] = links


def _id_pointer(answer: Any) -> str | None:
    """Return a pointer to the id of the created object in a response, None if the response has no such id."""
    for body_type in _body_types(answer):
        first = (
            msgspec.structs.fields(body_type)[0]
            if isinstance(body_type, type) and issubclass(body_type, msgspec.Struct)
            else None
        )
        if first is not None and "id" in getattr(first.type, "__struct_fields__", ()):
            return f"$response.body#/{first.encode_name}/id"
    return None


def _parameters(entry: _Entry) -> Iterator[Json]:
    for name in _PARAMETER.findall(entry.path):
        schema = {"type": "string"}
        if name in entry.annotation.names:
            schema["pattern"] = entry.annotation.names[name]
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for name, schema in entry.annotation.query.schemas().items():
        yield {"name": name, "in": "query", "required": name in entry.annotation.query.required, "schema": schema}
    for header in entry.annotation.headers:
        schema = {"type": "string", "pattern": header.pattern}
        yield {"name": header.name, "in": "header", "description": header.description, "schema": schema}
    if entry.path.startswith("/v3"):
        yield {
            "name": microversions.HEADER,
            "in": "header",
            "description": f"The microversion, {microversions.MINIMUM} to {microversions.MAXIMUM}; without it 3.0.",
            "schema": {"type": "string"},
            "example": f"{microversions.SERVICE_TYPE} {microversions.MAXIMUM}",
        }


def _errors(entry: _Entry) -> set[int]:
    with_body = bool(entry.annotation.bodies or entry.annotation.actions)
    return {
        *_ERRORS,
        *(() if entry.public else _ERRORS_WITH_AUTHENTICATION),
        *entry.annotation.errors,
        *(_ERRORS_WITH_BODY if with_body else ()),
        *(_ERRORS_WITH_VERSION if entry.path.startswith("/v3") else ()),
        *(_ERRORS_WITH_NAMES if _PARAMETER.search(entry.path) else ()),
    }


def _response(text: str, schemas: list[Json]) -> Json:
    header = {"x-openstack-request-id": {"$ref": "#/components/headers/x-openstack-request-id"}}
    return {"description": text, "headers": header, **({"content": _json(schemas)} if schemas else {})}


def _json(schemas: list[Json]) -> Json:
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _fault(status: int) -> Json:
    name = faults.name(status)
    return {
        "type": "object",
        "required": [name],
        "properties": {name: {"$ref": _COMPONENTS.format(name=response_bodies.Fault.__name__)}},
    }


def _action(name: str, arguments: Json) -> Json:
    return {
        "title": name,
        "type": "object",
        "required": [name],
        "properties": {name: arguments},
        "additionalProperties": False,
    }


def _body_types(answer: Any) -> tuple[Any, ...]:
    """Return the possible types of a response's body."""
    if answer is None:
        return ()
    return answer if isinstance(answer, tuple) else (answer,)


def _custom_schema(custom_type: type[Any]) -> Json:
    """Return the schema of a type that has its own, in the attribute ``SCHEMA``."""
    schema: Json = custom_type.SCHEMA
    return schema


_SUCCESS = {202: "The request was accepted.", 204: "The request is completed.", 300: "The supported versions."}

_HEADERS = {
    "x-openstack-request-id": {
        "description": "The id of the request, for a search in the log.",
        "required": True,
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {"description": "The required kind of authentication.", "schema": {"type": "string"}},
}
