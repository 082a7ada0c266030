# SPDX-License-Identifier: Apache-2.0
"""The middleware of oslo.middleware, added only as far as options enable it."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi, request_id
from oslo_middleware.healthcheck import opts as health_opts

from tonnage.api.http.http_request import WsgiApp
from tonnage.capacity import errors

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
