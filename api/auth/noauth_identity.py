# SPDX-License-Identifier: Apache-2.0
"""A minimal Identity service for clients that require one, with ``auth_strategy = noauth`` only.

It accepts all credentials, as :func:`tonnage.api.auth.authentication.noauth` does, and has no accounts. Every user and
every project exists, its id is its name, and a token is the text ``user:project``.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import falcon
import msgspec
from msgspec import Struct

from tonnage.api.http import list_query, request_context
from tonnage.api.http.body import BodyReader
from tonnage.api.http.faults import App
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

PREFIX = "/identity"
_V3 = f"{PREFIX}/v3"
_DOMAIN = {"id": "default", "name": "Default"}
_ROLES = [{"id": role, "name": role} for role in ("admin", "member", "reader")]
_DAY = datetime.timedelta(days=1)


class _Reference(Struct):
    """A user or a project, by id or by name."""

    id: str | None = None
    name: str | None = None

    @property
    def identifier(self) -> str:
        """The id or the name, whichever is set."""
        return self.id or self.name or ""


class _Password(Struct):
    user: _Reference = msgspec.field(default_factory=_Reference)


class _Token(Struct):
    id: str = ""


class _Identity(Struct):
    password: _Password | None = None
    token: _Token | None = None


class _Scope(Struct):
    project: _Reference | None = None


class _Auth(Struct):
    identity: _Identity
    scope: _Scope | str | None = None


class _Login(Struct):
    """``POST /auth/tokens``."""

    auth: _Auth


@dataclass(frozen=True, slots=True)
class _Credentials:
    """The user and the project of a token."""

    user: str
    project: str

    @classmethod
    def from_token(cls, token: str) -> Self:
        """Return the user and the project of a token, as :func:`~tonnage.api.auth.authentication.noauth` does."""
        user, _, project = token.partition(":")
        return cls((project and user) or request_context.USER, project or request_context.PROJECT)

    @property
    def token(self) -> str:
        """The text of the token."""
        return f"{self.user}:{self.project}"

    def check(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` for names that cannot be sent in a header."""
        for field, name in (("user", self.user), ("project", self.project)):
            if not (name.isascii() and name.isprintable() and len(name) <= request_context.MAX_ID_LENGTH):
                raise errors.InvalidInput(
                    f"the {field} is {name[:64]!r}: "
                    f"expected at most {request_context.MAX_ID_LENGTH} characters of ASCII, all printable"
                )


class _Version:
    """``/identity`` and ``/identity/v3``."""

    def __init__(self, status: int) -> None:
        self._status = status

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        link = {"rel": "self", "href": f"{req.prefix}{_V3}/"}
        version = {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": [link]}
        resp.status = falcon.code_to_http_status(self._status)
        resp.media = {"version": version} if self._status == 200 else {"versions": {"values": [version]}}


class _Tokens:
    """``/identity/v3/auth/tokens``."""

    def __init__(self, bodies: BodyReader) -> None:
        self._bodies = bodies

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        sent = self._bodies.read(req, _Login).auth
        previous = _Credentials.from_token("" if sent.identity.token is None else sent.identity.token.id)
        user = previous.user if sent.identity.password is None else sent.identity.password.user.identifier
        scope = sent.scope.project if isinstance(sent.scope, _Scope) else None
        credentials = _Credentials(
            user or request_context.USER,
            (previous.project if scope is None else scope.identifier) or request_context.PROJECT,
        )
        if ":" in credentials.user:
            raise errors.InvalidInput(f"the user is {credentials.user!r}: expected a name without a colon")
        credentials.check()
        resp.status = falcon.HTTP_201
        resp.set_header("X-Subject-Token", credentials.token)
        resp.media = _token_body(req, credentials)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        credentials = _Credentials.from_token(req.get_header("X-Subject-Token") or "")
        credentials.check()
        resp.set_header("X-Subject-Token", credentials.token)
        resp.media = _token_body(req, credentials)


class _Collection:
    """A collection such as ``/identity/v3/projects``, and its items. ``default`` is the item of an unfiltered list."""

    def __init__(self, singular: str, default: str) -> None:
        self._singular, self._default = singular, default

    @property
    def plural(self) -> str:
        """The name of the collection in paths and bodies."""
        return f"{self._singular}s"

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        name = list_query.read_parameters(req).get("name") or self._default
        link = {"self": f"{req.prefix}{req.path}", "next": None, "previous": None}
        resp.media = {self.plural: [self._item(req, name)], "links": link}

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        resp.media = {self._singular: self._item(req, name)}

    def _item(self, req: Request, name: str) -> Mapping[str, Any]:
        links = {"self": f"{req.prefix}{_V3}/{self.plural}/{name}"}
        return {"id": name, "name": name, "domain_id": _DOMAIN["id"], "enabled": True, "links": links}


class _Domains(_Collection):
    def _item(self, req: Request, name: str) -> Mapping[str, Any]:
        if name.lower() != _DOMAIN["id"]:
            raise errors.NotFound(f"Could not find domain: {name}.")
        return {**_DOMAIN, "enabled": True, "links": {"self": f"{req.prefix}{_V3}/domains/{_DOMAIN['id']}"}}


def add_routes(app: App, bodies: BodyReader) -> None:
    """Add the routes of the Identity service, below :data:`PREFIX`, to an application."""
    app.add_route(PREFIX, _Version(300))
    app.add_route(_V3, _Version(200))
    app.add_route(f"{_V3}/auth/tokens", _Tokens(bodies))
    app.add_route(f"{_V3}/auth/projects", _Collection("project", request_context.PROJECT))
    for collection in (
        _Collection("project", request_context.PROJECT),
        _Collection("user", request_context.USER),
        _Domains("domain", _DOMAIN["id"]),
    ):
        app.add_route(f"{_V3}/{collection.plural}", collection)
        app.add_route(f"{_V3}/{collection.plural}/{{name}}", collection, suffix="one")
    # Clients with auth_type none and an endpoint send requests to all services there.
    projects = _Collection("project", request_context.PROJECT)
    app.add_route("/v3/projects", projects)
    app.add_route("/v3/projects/{name}", projects, suffix="one")


def _token_body(req: Request, credentials: _Credentials) -> Mapping[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    user, project = ({"id": name, "name": name, "domain": _DOMAIN} for name in (credentials.user, credentials.project))
    services = (("block-storage", "tonnage", "/v3"), ("identity", "identity", _V3))
    return {
        "token": {
            "methods": ["password"],
            "user": user,
            "project": project,
            "roles": _ROLES,
            "issued_at": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "expires_at": (now + _DAY).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "is_domain": False,
            "catalog": [
                {
                    "id": name,
                    "type": service_type,
                    "name": name,
                    "endpoints": [
                        {
                            "id": f"{name}-{interface}",
                            "interface": interface,
                            "region": "RegionOne",
                            "region_id": "RegionOne",
                            "url": f"{req.prefix}{path}",
                        }
                        for interface in ("public", "internal", "admin")
                    ],
                }
                for service_type, name, path in services
            ],
        }
    }
