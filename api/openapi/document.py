# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document, made of what is noted at the methods of resources and of the types that requests go through."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tonnage.api.auth import policies
from tonnage.api.http import faults, microversions
from tonnage.api.openapi.annotations import Open, Operation, Route, noted
from tonnage.api.schemas import response_bodies

Json = dict[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_COMPONENTS = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")

#: What any operation may answer, and what more where there is a body, where something is looked up or who asks matters.
_ANYWHERE = (400, 403, 413, 500, 503)
_NOT_OPEN = (401,)
_WITH_BODY = (408, 415)
_WITH_VERSION = (406,)
_WITH_NAMES = (404,)

_ABOUT = (
    "The part of the OpenStack Block Storage API v3 that is about placing volumes. Each path behind /v3 is also served "
    "behind /v3/{project_id}, as clients differ in this. Sizes are GiB, times UTC. Texts cannot contain the character "
    "NUL. Keys that are not known are ignored in bodies, but for those of the storage of Kubernetes clusters."
)


#: How whoever asks says who he is, by ``auth_strategy``; one that is not here asks nobody.
_SECURITY: Mapping[str, Json] = {
    "keystone": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
    "http_basic": {"basic": {"type": "http", "scheme": "basic"}},
}


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    method: str
    text: str
    note: Operation
    open: bool

    @property
    def id(self) -> str:
        """What the document calls it."""
        return f"{self.method}{re.sub(r'[^0-9a-zA-Z]+', '_', self.path)}".rstrip("_")

    @property
    def types(self) -> Iterator[Any]:
        """The types of its bodies."""
        for shown in self.note.answers.values():
            yield from _several(shown)
        yield from self.note.bodies
        yield from (self.note.actions or {}).values()


def document(routes: Iterable[Route], auth_strategy: str) -> Json:
    """Return the document for these routes: path, resource, and the suffix of the names of its methods."""
    security = _SECURITY.get(auth_strategy, {})
    entries = list(_entries(routes))
    types = [response_bodies.Fault, *(kind for entry in entries for kind in entry.types)]
    shown, components = msgspec.json.schema_components(types, schema_hook=_own, ref_template=_COMPONENTS)
    schemas = iter(shown)
    next(schemas)
    paths: dict[str, Json] = {}
    for entry in entries:
        described = _operation(entry, [next(schemas) for _ in entry.types])
        if entry.method == "post":
            _link(described, entry, entries)
        if security and not entry.open:
            described["security"] = [{name: []} for name in security]
        paths.setdefault(entry.path, {})[entry.method] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tonnage Block Storage", "version": microversions.MAXIMUM, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components, "headers": _HEADERS, "securitySchemes": security},
    }


def undescribed(routes: Iterable[Route]) -> list[str]:
    """Return the methods about which nothing is noted."""
    found = _responders(routes)
    return [f"{method.upper()} {path}" for path, method, _, responder in found if noted(responder) is None]


def _responders(routes: Iterable[Route]) -> Iterator[tuple[str, str, object, Any]]:
    for path, resource, suffix in routes:
        for method in _METHODS:
            responder = getattr(resource, f"on_{method}" + (f"_{suffix}" if suffix else ""), None)
            if responder is not None:
                yield path, method, resource, responder


def _entries(routes: Iterable[Route]) -> Iterator[_Entry]:
    for path, method, resource, responder in _responders(routes):
        note = noted(responder)
        if note is not None:
            yield _Entry(path, method, inspect.getdoc(responder) or "", note, isinstance(resource, Open))


def _operation(entry: _Entry, schemas: list[Json]) -> Json:
    """Return one operation. ``schemas`` are those of its types, in their order."""
    note, left = entry.note, iter(schemas)
    responses = {}
    for status, shown in note.answers.items():
        found = [next(left) for _ in _several(shown)]
        responses[str(status)] = _response(_SUCCESS.get(status, "What was asked for."), found)
    bodies = [next(left) for _ in note.bodies] + [_action(name, next(left)) for name in note.actions or ()]
    for status in sorted(_errors(entry) - set(note.answers)):
        responses[str(status)] = _response(faults.name(status), [_fault(status)])
        if status == 401:
            responses[str(status)]["headers"]["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    summary, _, more = entry.text.partition("\n")
    tag = entry.path.removeprefix("/v3").strip("/").partition("/")[0] or "versions"
    described: Json = {
        "operationId": entry.id,
        "summary": summary,
        "tags": [tag],
        "parameters": list(_parameters(entry)),
        "responses": responses,
    }
    rules = policies.by_operation().get((entry.method.upper(), entry.path.removeprefix("/v3")))
    if rules:
        described["x-policies"] = rules
    if more.strip():
        described["description"] = more.strip()
    if bodies:
        described["requestBody"] = {"required": True, "content": _json(bodies)}
    return described


def _link(described: Json, entry: _Entry, entries: Iterable[_Entry]) -> None:
    """Add to what an operation makes where that is found, which is below the operation's own path."""
    for status, shown in entry.note.answers.items():
        where = _where_id_is(shown)
        links = {
            other.id: {"operationId": other.id, "parameters": {name[1]: where}}
            for other in entries
            if where and (name := re.match(re.escape(entry.path) + r"/\{(\w+)\}", other.path))
        }
        if links:
            described["responses"][str(status)]["links"] = links


def _where_id_is(shown: Any) -> str | None:
    """Return where in a body the id is of what was made, None if nothing with an id was."""
    for kind in _several(shown):
        made = msgspec.structs.fields(kind)[0] if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None
        if made is not None and "id" in getattr(made.type, "__struct_fields__", ()):
            return f"$response.body#/{made.encode_name}/id"
    return None


def _parameters(entry: _Entry) -> Iterator[Json]:
    for name in _PARAMETER.findall(entry.path):
        schema = {"type": "string"}
        if name in entry.note.names:
            schema["pattern"] = entry.note.names[name]
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for name, schema in entry.note.query.schemas().items():
        yield {"name": name, "in": "query", "required": name in entry.note.query.required, "schema": schema}
    for header in entry.note.headers:
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
    with_body = bool(entry.note.bodies or entry.note.actions)
    return {
        *_ANYWHERE,
        *(() if entry.open else _NOT_OPEN),
        *entry.note.errors,
        *(_WITH_BODY if with_body else ()),
        *(_WITH_VERSION if entry.path.startswith("/v3") else ()),
        *(_WITH_NAMES if _PARAMETER.search(entry.path) else ()),
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


def _several(shown: Any) -> tuple[Any, ...]:
    """Return the types that a body may be of."""
    if shown is None:
        return ()
    return shown if isinstance(shown, tuple) else (shown,)


def _own(kind: type[Any]) -> Json:
    """Return the schema of a type that knows how to read itself."""
    schema: Json = kind.SCHEMA
    return schema


_SUCCESS = {202: "It was taken on.", 204: "It is done.", 300: "The versions that there are to choose from."}

_HEADERS = {
    "x-openstack-request-id": {
        "description": "The id of the request, under which the log has more about it.",
        "required": True,
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {"description": "How to say who asks.", "schema": {"type": "string"}},
}
