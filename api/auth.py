# SPDX-License-Identifier: Apache-2.0
"""Who is asking: authentication strategies, and the middleware that applies one."""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from typing import TypeAlias

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from tonnage.api.http import Request
from tonnage.api.operations import Open
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
    """Middleware: notes who asks before a resource is called, unless it is :class:`~tonnage.api.operations.Open`."""

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
        from tonnage.api.keystone import Keystone

        return Keystone(conf)
    if conf.auth_strategy == "http_basic":
        from tonnage.api.http_basic import HttpBasic

        return HttpBasic(conf)
    if conf.noauth_on_any_address or (address is not None and is_loopback(address)):
        return noauth
    where = "what this server listens on" if address is None else f"osapi_volume_listen = {address}"
    raise errors.ConfigurationError(
        f"auth_strategy = noauth makes everybody an administrator, and {where} may be reached from other machines: "
        "have tonnage-api listen on 127.0.0.1, or set noauth_on_any_address = true if that is meant"
    )


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(address, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)
