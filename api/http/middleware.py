# SPDX-License-Identifier: Apache-2.0
"""The middleware of oslo.middleware, as far as options enable it, and the limits of all requests."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import falcon
from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi, request_id
from oslo_middleware.healthcheck import opts as health_opts

from tonnage.api.http.http_request import WsgiApp
from tonnage.capacity import errors

#: Most bytes of a body above the limit that are read and discarded: a client that is still sending does not read the
#: response.
_DISCARDED_SIZE = 2**20
_CHUNK_SIZE = 2**16

#: Most characters of the description of a failed read.
_MAX_DESCRIPTION = 100


class BodyStream(Protocol):
    """A stream with the body of a request."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The largest accepted body in bytes, and the name of the option that sets it."""

    size: int
    option: str

    @property
    def too_large(self) -> falcon.HTTPError:
        """The error for a body above the limit."""
        return falcon.HTTPContentTooLarge(
            description=f"The request's body is too large: at most {self.size} bytes are read ({self.option})."
        )

    def read(self, body: BodyStream) -> bytes:
        """Return a body. Raises falcon's errors if it is too large, late, or not as long as declared."""
        raw = self._read_part(body, self.size + 1)
        if len(raw) > self.size:
            raise self.too_large
        return raw

    def reject(self, body: BodyStream) -> NoReturn:
        """Raise falcon's error for a body whose declared length is too large."""
        remaining = _DISCARDED_SIZE
        while remaining > 0 and (part := self._read_part(body, min(remaining, _CHUNK_SIZE))):
            remaining -= len(part)
        raise self.too_large

    def _read_part(self, body: BodyStream, size: int) -> bytes:
        """Return at most ``size`` bytes. A failed read is an error of the client, not of the server."""
        try:
            return body.read(size)
        except TimeoutError:
            raise falcon.HTTPError(falcon.HTTP_408, description="The request's body did not come in time.") from None
        except (OSError, ValueError) as error:
            description = str(error)[:_MAX_DESCRIPTION]  # it may repeat input of the client
            raise falcon.HTTPBadRequest(description=f"The request's body cannot be read: {description}.") from None


def body_limit(conf: cfg.ConfigOpts) -> BodyLimit:
    """Return the limit of the REST API."""
    return BodyLimit(conf.osapi_max_request_body_size, "osapi_max_request_body_size")


class RequestLimits:
    """Middleware that rejects bodies above the limit, for all resources, and paths that lead to no object.

    These are paths with the character NUL, and paths with an empty id, as in ``/v3/volumes/``.
    """

    def __init__(self, limit: BodyLimit) -> None:
        self._limit = limit

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Raise falcon's error for a body whose declared length is too large, and for a path without an object."""
        if (req.content_length or 0) > self._limit.size:
            self._limit.reject(req.bounded_stream)
        path = req.env["PATH_INFO"]
        has_empty_id = path.startswith("/v3/") and path.endswith("/") and path != "/v3/"
        if "\x00" in path or has_empty_id:
            raise falcon.HTTPRouteNotFound


_ORIGIN = re.compile(r"\*|https?://[^/,\s]+")

# Methods and headers for pages of other sites, where CORS is enabled. Clients authenticate by a header, so browsers
# need not send stored credentials.
cors.set_defaults(
    allow_credentials=False,
    allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    allow_headers=[
        "Authorization",
        "Content-Type",
        "Idempotency-Key",
        "OpenStack-API-Version",
        "X-Auth-Token",
        "X-OpenStack-Request-ID",
        "X-Project-Id",
    ],
    expose_headers=["OpenStack-API-Version", "Retry-After", "WWW-Authenticate", "X-OpenStack-Request-ID"],
)

_OPTIONS = (
    ("oslo_middleware", http_proxy_to_wsgi.OPTS),
    ("cors", cors.CORS_OPTS),
    ("healthcheck", health_opts.DISABLE_BY_FILE_OPTS),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.middleware."""
    for group, options in _OPTIONS:
        conf.register_opts(options, group)


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [(group, list(options)) for group, options in _OPTIONS]


def wrap(application: WsgiApp, conf: cfg.ConfigOpts) -> WsgiApp:
    """Return the application with the middleware that options enable. ``conf`` has the options of :func:`register`.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an invalid origin.
    """
    wrapped: WsgiApp = request_id.RequestId(application, conf)
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        wrapped = http_proxy_to_wsgi.HTTPProxyToWSGI(wrapped, conf)
    if conf.cors.allowed_origin:
        _check(conf.cors.allowed_origin)
        # Outside of authentication: a preflight request of a browser has no credentials.
        wrapped = cors.CORS(wrapped, conf)

    def plain(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A plain function, because some tools inspect the signature of an application and WebOb hides it.
        return wrapped(environ, start_response)

    return plain


def _check(origins: Iterable[str]) -> None:
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise errors.ConfigurationError(
                f"[cors] allowed_origin has {origin!r}, which no page comes from: it takes a scheme and a host, a port "
                "if it is not the usual one, and no slash at the end, as in https://horizon.example.com:8443"
            )
