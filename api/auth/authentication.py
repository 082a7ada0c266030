# SPDX-License-Identifier: Apache-2.0
"""Authentication: the strategies, and the middleware that applies one.

The middleware also refuses changes that pages of other sites make through the browser of a user.
"""

import ipaddress
import socket
from collections.abc import Callable, Collection
from typing import Any, TypeAlias
from urllib import parse

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from tonnage.api.auth.http_basic import HttpBasic
from tonnage.api.auth.keystone import Keystone
from tonnage.api.http import faults, request_context
from tonnage.api.http.annotations import PublicResource
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

#: Returns the context of a request, given the project in its URL (None if the URL has none).
Authenticator: TypeAlias = Callable[[Request, "str | None"], RequestContext]

#: Methods without effects. Browsers do not send the header ``Origin`` with each of these requests.
_SAFE = ("GET", "HEAD", "OPTIONS")

#: Most characters of a header that an error message repeats.
_SHOWN = 64


def noauth(req: Request, project_id: str | None) -> RequestContext:
    """Return the context of an administrator, without any check.

    User and project come from a token ``user:project``, as the clients' noauth plugins send it, or from the headers
    ``X-User-Id`` and ``X-Project-Id``; the defaults are admin and demo. A project in the URL takes precedence.
    """
    user, _, project = (req.get_header("X-Auth-Token") or "").partition(":")
    return request_context.administrator(
        req,
        user_id=req.get_header("X-User-Id") or (project and user) or request_context.USER,
        project_id=project_id or req.get_header("X-Project-Id") or project,
    )


def local_noauth(listens_on: str) -> Authenticator:
    """Return an authenticator that accepts requests sent to a name of this machine, or to ``listens_on``.

    A browser on this machine can reach loopback, and the owner of any site can let the site's name resolve to a
    loopback address. For the browser a request of such a page then stays within its site; only the header ``Host``
    shows the site's name.
    """

    def authenticate(req: Request, project_id: str | None) -> RequestContext:
        """Raise :class:`~tonnage.api.http.faults.Forbidden` for a request that was sent to another name."""
        host = req.env.get("HTTP_HOST")
        if host is not None and not _is_of_this_machine(host, listens_on):
            raise faults.Forbidden(
                f"This was sent to {host[:_SHOWN]!r}. Everybody here is an administrator (auth_strategy = noauth), so "
                "only requests to localhost or 127.0.0.1 are accepted, which pages of other sites cannot send: send "
                "it there, or set noauth_on_any_address = true."
            )
        return noauth(req, project_id)

    return authenticate


class Authentication:
    """Middleware that authenticates a request before its resource is called.

    A resource marked with :class:`~tonnage.api.http.annotations.PublicResource` needs no authentication.

    Requests with effects from pages of other origins are refused. Browsers add the origin of the page to such a
    request, and may add stored credentials; other clients send no origin. ``allowed_origins`` are the origins that
    CORS allows.
    """

    def __init__(self, authenticator: Authenticator, allowed_origins: Collection[str] = ()) -> None:
        self._authenticator = authenticator
        self._allowed_origins = allowed_origins

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Raise :class:`~tonnage.api.http.faults.Forbidden` for a request from another origin."""
        origin, allowed = req.get_header("Origin"), self._allowed_origins
        if origin is None or req.method in _SAFE or origin in allowed or "*" in allowed:
            return
        # Without the scheme: a proxy may end TLS.
        if parse.urlsplit(origin).netloc.lower() != (req.get_header("Host") or "").lower():
            raise faults.Forbidden(
                f"A page of {origin[:_SHOWN]!r} has sent this: changes are accepted from programs, and from pages of "
                "the origins in [cors] allowed_origin."
            )

    def process_resource(self, req: Request, resp: falcon.Response, resource: Any, params: dict[str, Any]) -> None:
        """Take the project out of the URL parameters and set the identity of the request."""
        if isinstance(resource, PublicResource):
            return
        project_id = params.pop("url_project", None)
        identity = self._authenticator(req, project_id)
        for field, value in (("project", identity.project_id), ("user", identity.user_id)):
            if value is not None and (len(value) > request_context.MAX_ID_LENGTH or not value.isprintable()):
                raise errors.InvalidInput(
                    f"the id of the {field} is no text of at most {request_context.MAX_ID_LENGTH} characters"
                )
        req.context.identity = identity


def select(conf: cfg.ConfigOpts, address: str | None) -> Authenticator:
    """Return the authenticator that ``auth_strategy`` names.

    ``address`` is the address that the server listens on, None if it is not known.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for options that cannot work, and for noauth on an
    address that other machines reach, unless ``noauth_on_any_address`` allows it.
    """
    if conf.auth_strategy == "keystone":
        return Keystone(conf)
    if conf.auth_strategy == "http_basic":
        return HttpBasic(conf)
    if conf.noauth_on_any_address:
        return noauth
    if address is not None and is_loopback(address):
        return local_noauth(address)
    location = "the address of this server" if address is None else f"osapi_volume_listen = {address}"
    remedy = "have tonnage-api listen on" if address is None else "set osapi_volume_listen ="
    raise errors.ConfigurationError(
        f"auth_strategy = noauth makes everybody an administrator, and {location} may be reached from other machines: "
        f"{remedy} 127.0.0.1, or set noauth_on_any_address = true if that is meant"
    )


def _is_of_this_machine(host: str, listens_on: str) -> bool:
    """Return whether a header ``Host``, with or without a port, has a name that always means this machine."""
    try:
        name = (parse.urlsplit(f"//{host}").hostname or "").removesuffix(".")
        if name in ("localhost", listens_on.lower()) or name.endswith(".localhost"):
            return True
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        ip_addresses = {entry[4][0] for entry in socket.getaddrinfo(address, None)}
    except OSError:
        return False
    return bool(ip_addresses) and all(
        ipaddress.ip_address(str(ip_address).partition("%")[0]).is_loopback for ip_address in ip_addresses
    )
