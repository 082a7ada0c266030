# SPDX-License-Identifier: Apache-2.0
"""Error responses in the format of the Block Storage API: ``{"badRequest": {"code": 400, "message": "..."}}``."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import falcon
import msgspec

from tonnage.api.http import request_context
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors
from tonnage.ledger.catalog import qos_specs, type_access, type_catalog
from tonnage.ledger.db.db_errors import log_level

LOG = logging.getLogger(__name__)

#: Seconds after which a client may repeat a request that failed because a service did not answer.
RETRY_AFTER = 5

_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class Forbidden(errors.TonnageError):
    """The policy rules do not allow the call."""


class NotSupported(errors.TonnageError):
    """A request for a feature of Cinder that Tonnage does not have."""


#: Statuses by error class. If an error is an instance of several classes, the first of them counts.
_STATUSES: Mapping[type[errors.TonnageError], int] = {
    type_catalog.NameTaken: 409,
    qos_specs.NameTaken: 409,
    type_access.AccessExists: 409,
    errors.InvalidInput: 400,
    errors.NotFound: 404,
    errors.Conflict: 400,
    errors.KeyReused: 422,
    errors.OverQuota: 413,
    errors.Unavailable: 503,
    NotSupported: 501,
    Forbidden: 403,
    request_context.Unauthenticated: 401,
}

#: The message of an unexpected error.
INTERNAL = (
    "The server has either erred or is incapable of performing the requested operation. "
    "The log of tonnage-api has more under this request's id."
)
_UNAVAILABLE = (
    "A part of Tonnage that this request needs (the database, the message bus, a scheduler or Keystone) does not "
    "answer. Try again later"
)
_MAY_HAVE_EFFECT = "; the request may have been accepted"
_REFUSED = "The ledger of Tonnage does not take what this request writes, so nothing was done. Try again later"

#: Methods of requests that change nothing.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})

App: TypeAlias = "falcon.App[Request, falcon.Response]"


def name(status: int) -> str:
    """Return the key of an error with that status."""
    return _NAMES.get(status, "computeFault")


def body(status: int, message: str, **data: Any) -> dict[str, Any]:
    """Return the body of an error; ``data`` are additional keys."""
    return {name(status): {"code": status, "message": message, **data}}


def write(resp: falcon.Response, status: int, message: str, **data: Any) -> None:
    """Write an error into a response."""
    resp.status = falcon.code_to_http_status(status)
    resp.content_type = falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(body(status, message, **data))


def install(
    app: App, statuses: Mapping[type[errors.TonnageError], int], may_see_causes: Callable[[Request], bool]
) -> None:
    """Add the error handlers to an application. ``statuses`` are those of the errors of extensions.

    ``may_see_causes`` returns whether the sender of a request may see why the database does not answer.
    """
    by_class = {**statuses, **_STATUSES}

    def on_tonnage_error(req: Request, resp: falcon.Response, error: errors.TonnageError, params: Any) -> None:
        status = next((status for error_class, status in by_class.items() if isinstance(error, error_class)), None)
        if status is None:
            _on_unexpected_error(req, resp, error, params)
        else:
            _write_tonnage_error(req, resp, error, status, may_see_causes)

    app.set_error_serializer(_serialize)
    app.add_error_handler(Exception, _on_unexpected_error)
    app.add_error_handler(falcon.HTTPError, _on_http_error)
    app.add_error_handler(errors.TonnageError, on_tonnage_error)


def _serialize(req: Request, resp: falcon.Response, error: falcon.HTTPError) -> None:
    write(resp, falcon.http_status_to_code(error.status), _sentence(error))


def _sentence(error: falcon.HTTPError) -> str:
    if isinstance(error, falcon.HTTPRouteNotFound):
        return "The resource could not be found."
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        return f"The method is not allowed here; these are: {dict(error.headers or {}).get('Allow', '')}."
    return error.description or error.title or str(error.status)


def _on_http_error(req: Request, resp: falcon.Response, error: falcon.HTTPError, params: Any) -> None:
    if error.headers is not None:
        resp.set_headers(error.headers)
    _serialize(req, resp, error)


def _write_tonnage_error(
    req: Request,
    resp: falcon.Response,
    error: errors.TonnageError,
    status: int,
    may_see_causes: Callable[[Request], bool],
) -> None:
    if status == 503:
        LOG.log(log_level(error), "%s %s: %s", req.method, req.path, error.message)
        resp.set_header("Retry-After", str(RETRY_AFTER))
        # Messages about the bus may have its URL, and a password in it.
        tells_cause = isinstance(error, errors.DatabaseUnreachable) and may_see_causes(req)
        write(resp, status, f"{_unavailable(req, error)}.{f' The cause: {error.message}' if tells_cause else ''}")
    elif status == 413:
        # As in Cinder: a wait does not help.
        resp.set_header("Retry-After", "0")
        write(resp, status, error.message, retryAfter="0")
    else:
        if isinstance(error, request_context.Unauthenticated):
            resp.set_header("WWW-Authenticate", error.challenge)
        write(resp, status, error.message)


def _unavailable(req: Request, error: errors.TonnageError) -> str:
    """Return the sentence of a 503, which says whether the request can have taken effect."""
    if req.method in _READING:
        return _UNAVAILABLE
    return _REFUSED if isinstance(error, errors.LedgerRefusal) else _UNAVAILABLE + _MAY_HAVE_EFFECT


def _on_unexpected_error(req: Request, resp: falcon.Response, error: Exception, params: Any) -> None:
    LOG.error("%s %s failed", req.method, req.path, exc_info=error)
    write(resp, 500, INTERNAL)
