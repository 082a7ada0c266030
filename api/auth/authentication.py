# SPDX-License-Identifier: Apache-2.0
"""Who is asking: authentication strategies, and the middleware that applies one."""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib import parse

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from tonnage.api.auth import enforcement
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import Open
from tonnage.capacity import errors

#: Tells who sent a request, given the project that its address names (None if it names none).
Authenticator: TypeAlias = Callable[[Request, "str | None"], RequestContext]

#: Where oslo.middleware leaves the id that it gave the request.
_REQUEST_ID = "openstack.request_id"
#: And the one that the sender gave it: OpenStack's services share it among all requests of one operation.
_GLOBAL_REQUEST_ID = "openstack.global_request_id"

#: Who asks, and for which project, where nothing is said.
USER = "admin"
PROJECT = "demo"
#: Most characters of an id of either.
LONGEST = 255

#: Most characters of what was sent that are said again.
_SHOWN = 64

#: What is said to whoever does not say who he is, or cannot prove it: which of both is nobody's business.
REQUIRED = "The request you have made requires authentication."


def noauth(req: Request, project_id: str | None) -> RequestContext:
    """Believe everything: whoever asks is an administrator.

    User and project are those of a token ``user:project``, as the clients' noauth plugins send, or of the headers
    ``X-User-Id`` and ``X-Project-Id``; else admin and demo. A project in the address is believed first.
    """
    user, _, project = (req.get_header("X-Auth-Token") or "").partition(":")
    return administrator(
        req,
        user_id=req.get_header("X-User-Id") or (project and user) or USER,
        project_id=project_id or req.get_header("X-Project-Id") or project,
    )


def local_noauth(listens_on: str) -> Authenticator:
    """Return what believes everything that was sent to this machine by a name of its own, or by ``listens_on``.

    A browser here can reach loopback, and a page of any site can have the name of that site lead there: then what the
    page sends is no other site's business to the browser, and says so in ``Host`` alone.
    """

    def authenticate(req: Request, project_id: str | None) -> RequestContext:
        """Raise :class:`~tonnage.api.auth.enforcement.Forbidden` for what was sent to another name."""
        host = req.env.get("HTTP_HOST")
        if host is not None and not _is_of_this_machine(host, listens_on):
            raise enforcement.Forbidden(
                f"This was sent to {host[:_SHOWN]!r}. Everybody here is an administrator (auth_strategy = noauth), so "
                "only what is sent to localhost or 127.0.0.1 is believed, which pages of other sites cannot do: send "
                "it there, or set noauth_on_any_address = true."
            )
        return noauth(req, project_id)

    return authenticate


def administrator(req: Request, *, user_id: str, project_id: str | None) -> RequestContext:
    """Return who may do everything, in a project or where nobody says in which."""
    return RequestContext(
        user_id=user_id,
        project_id=project_id or PROJECT,
        roles=["admin", "member", "reader"],
        is_admin=True,
        request_id=request_id(req),
        global_request_id=req.env.get(_GLOBAL_REQUEST_ID),
    )


def request_id(req: Request) -> str | None:
    """Return the id that the request was given on arrival."""
    found: str | None = req.env.get(_REQUEST_ID)
    return found


class Unauthenticated(errors.TonnageError):
    """Nobody knows who asks. ``challenge`` says how to tell, as the header ``WWW-Authenticate``."""

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class Authentication:
    """Middleware that authenticates a request before its resource is called.

    A resource marked with :class:`~tonnage.api.openapi.annotations.Open` needs no authentication.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def process_resource(self, req: Request, resp: falcon.Response, resource: Any, params: dict[str, Any]) -> None:
        """Take the project out of the address and note the identity."""
        if isinstance(resource, Open):
            return
        project_id = params.pop("url_project", None)
        identity = self._authenticator(req, project_id)
        for what, value in (("project", identity.project_id), ("user", identity.user_id)):
            if value is not None and (len(value) > LONGEST or not value.isprintable()):
                raise errors.InvalidInput(f"the id of the {what} is no text of at most {LONGEST} characters")
        req.context.identity = identity


def select(conf: cfg.ConfigOpts, address: str | None) -> Authenticator:
    """Return the authenticator that ``auth_strategy`` names; ``address`` is where requests come in, None if not known.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for options that cannot work, and for noauth on an
    address that other machines reach, unless ``noauth_on_any_address`` allows it.
    """
    if conf.auth_strategy == "keystone":
        from tonnage.api.auth.keystone import Keystone

        return Keystone(conf)
    if conf.auth_strategy == "http_basic":
        from tonnage.api.auth.http_basic import HttpBasic

        return HttpBasic(conf)
    if conf.noauth_on_any_address:
        return noauth
    if address is not None and is_loopback(address):
        return local_noauth(address)
    where = "what this server listens on" if address is None else f"osapi_volume_listen = {address}"
    remedy = "have tonnage-api listen on" if address is None else "set osapi_volume_listen ="
    raise errors.ConfigurationError(
        f"auth_strategy = noauth makes everybody an administrator, and {where} may be reached from other machines: "
        f"{remedy} 127.0.0.1, or set noauth_on_any_address = true if that is meant"
    )


def _is_of_this_machine(host: str, listens_on: str) -> bool:
    """Tell whether a header ``Host``, with a port or without, has a name that leads nowhere else."""
    try:
        name = (parse.urlsplit(f"//{host}").hostname or "").removesuffix(".")
        if name in ("localhost", listens_on.lower()) or name.endswith(".localhost"):
            return True
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(address, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)
