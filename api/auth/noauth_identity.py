# SPDX-License-Identifier: Apache-2.0
"""As much of an Identity service as clients need that will not go without one. For ``noauth`` alone.

It believes everything, as :func:`tonnage.api.auth.authentication.noauth` does, and has no accounts: whatever user or
project somebody names is there, its id is its name, and a token says no more than ``user:project``.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import falcon
import msgspec
from msgspec import Struct

from tonnage.api.auth import request_context
from tonnage.api.http import pagination
from tonnage.api.http.body import BodyReader
from tonnage.api.http.faults import App
from tonnage.api.http.request import Request
from tonnage.capacity import errors

PREFIX = "/identity"
_V3 = f"{PREFIX}/v3"
_DOMAIN = {"id": "default", "name": "Default"}
_ROLES = [{"id": role, "name": role} for role in ("admin", "member", "reader")]
_DAY = datetime.timedelta(days=1)


class _Named(Struct):
    """A user or a project, by whatever is said of it."""

    id: str | None = None
    name: str | None = None

    @property
    def known_by(self) -> str:
        return self.id or self.name or ""


class _Password(Struct):
    user: _Named = msgspec.field(default_factory=_Named)


class _Token(Struct):
    id: str = ""


class _Identity(Struct):
    password: _Password | None = None
    token: _Token | None = None


class _Scope(Struct):
    project: _Named | None = None


class _Auth(Struct):
    identity: _Identity
    scope: _Scope | str | None = None


class _Login(Struct):
    """``POST /auth/tokens``."""

    auth: _Auth


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks, and for which project: all that a token says."""

    user: str
    project: str

    @classmethod
    def by(cls, token: str) -> Self:
        """Return who has a token, as :func:`~tonnage.api.auth.authentication.noauth` understands it."""
        user, _, project = token.partition(":")
        return cls((project and user) or request_context.USER, project or request_context.PROJECT)

    @property
    def token(self) -> str:
        """The token."""
        return f"{self.user}:{self.project}"

    def check(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` for names that no header can carry back to us."""
        for what, name in (("user", self.user), ("project", self.project)):
            if not (name.isascii() and name.isprintable() and len(name) <= request_context.MAX_ID_LENGTH):
                raise errors.InvalidInput(
                    f"the {what} is {name[:64]!r}: "
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
        before = _Asker.by("" if sent.identity.token is None else sent.identity.token.id)
        user = before.user if sent.identity.password is None else sent.identity.password.user.known_by
        scope = sent.scope.project if isinstance(sent.scope, _Scope) else None
        asker = _Asker(
            user or request_context.USER,
            (before.project if scope is None else scope.known_by) or request_context.PROJECT,
        )
        if ":" in asker.user:
            raise errors.InvalidInput(f"the user is {asker.user!r}: expected a name without a colon")
        asker.check()
        resp.status = falcon.HTTP_201
        resp.set_header("X-Subject-Token", asker.token)
        resp.media = _token(req, asker)

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        asker = _Asker.by(req.get_header("X-Subject-Token") or "")
        asker.check()
        resp.set_header("X-Subject-Token", asker.token)
        resp.media = _token(req, asker)


class _Things:
    """``/identity/v3/projects`` and others like it."""

    def __init__(self, one: str, usual: str) -> None:
        self._one, self._usual = one, usual

    @property
    def many(self) -> str:
        """What they are called together."""
        return f"{self._one}s"

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        name = pagination.parameters(req).get("name") or self._usual
        link = {"self": f"{req.prefix}{req.path}", "next": None, "previous": None}
        resp.media = {self.many: [self._shown(req, name)], "links": link}

    def on_get_one(self, req: Request, resp: falcon.Response, name: str) -> None:
        resp.media = {self._one: self._shown(req, name)}

    def _shown(self, req: Request, name: str) -> Mapping[str, Any]:
        itself = {"self": f"{req.prefix}{_V3}/{self.many}/{name}"}
        return {"id": name, "name": name, "domain_id": _DOMAIN["id"], "enabled": True, "links": itself}


class _Domains(_Things):
    def _shown(self, req: Request, name: str) -> Mapping[str, Any]:
        if name.lower() != _DOMAIN["id"]:
            raise errors.NotFound(f"Could not find domain: {name}.")
        return {**_DOMAIN, "enabled": True, "links": {"self": f"{req.prefix}{_V3}/domains/{_DOMAIN['id']}"}}


def add(app: App, bodies: BodyReader) -> None:
    """Have an application answer as an Identity service below :data:`PREFIX`."""
    app.add_route(PREFIX, _Version(300))
    app.add_route(_V3, _Version(200))
    app.add_route(f"{_V3}/auth/tokens", _Tokens(bodies))
    app.add_route(f"{_V3}/auth/projects", _Things("project", request_context.PROJECT))
    for things in (
        _Things("project", request_context.PROJECT),
        _Things("user", request_context.USER),
        _Domains("domain", _DOMAIN["id"]),
    ):
        app.add_route(f"{_V3}/{things.many}", things)
        app.add_route(f"{_V3}/{things.many}/{{name}}", things, suffix="one")


def _token(req: Request, asker: _Asker) -> Mapping[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    user, project = ({"id": name, "name": name, "domain": _DOMAIN} for name in (asker.user, asker.project))
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
                    "type": kind,
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
                for kind, name, path in services
            ],
        }
    }
