# SPDX-License-Identifier: Apache-2.0
"""The client of the REST API: requests with credentials if it requires them, and errors of one line."""

import http
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from tonnage.capacity import errors
from tonnage.cli.rest.connection_arguments import VARIABLE

_TIMEOUT_SECONDS = 120

#: The message of an API that does not have a path.
_NO_PATH = "The resource could not be found."

#: The errors of requests by the status of the response. Others are wrong requests.
_ERRORS: Mapping[int, type[errors.TonnageError]] = {
    http.HTTPStatus.NOT_FOUND: errors.NotFound,
    http.HTTPStatus.CONFLICT: errors.Conflict,
    http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE: errors.OverQuota,
    http.HTTPStatus.SERVICE_UNAVAILABLE: errors.Unavailable,
}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because the credentials are meant for the named API only."""

    def redirect_request(self, *arguments: Any) -> None:
        """Return None, which makes the redirect an error."""


_OPENER = urllib.request.build_opener(_NoRedirects)


class _Unauthorized(Exception):
    """The API requires credentials. ``challenge`` is the header ``WWW-Authenticate`` of its response."""

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class ApiClient:
    """The client of one REST API.

    ``project`` is the project that requests are for, by default that of the credentials. ``cloud`` is the entry of
    clouds.yaml with the credentials, in case the API requires them. ``extension`` is the name of the extension that has
    the paths of the requests.
    """

    def __init__(self, url: str, project: str | None = None, cloud: str | None = None, extension: str = "") -> None:
        self._url, self._cloud, self._extension = url.rstrip("/"), cloud, extension
        self._prefix = f"{self._url}/v3" + ("" if project is None else f"/{urllib.parse.quote(project, safe='')}")
        self._credentials: Mapping[str, str] = {}

    def get(self, path: str, key: str, **parameters: str | None) -> Any:
        """Return the value of ``key`` in the answer to a query. Parameters that are None are left out."""
        query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value is not None})
        return self._call("GET", f"{path}?{query}" if query else path, None, key)

    def post(self, path: str, body: Mapping[str, Any], key: str) -> Any:
        """Return the value of ``key`` in the answer to a request with a body."""
        return self._call("POST", path, body, key)

    def act(self, path: str, body: Mapping[str, Any]) -> None:
        """Send a request with a body whose answer has none."""
        self._call("POST", path, body, None)

    def delete(self, path: str) -> None:
        """Send a request whose answer has no body."""
        self._call("DELETE", path, None, None)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None) -> Any:
        """Send a request, again with credentials if the API requires them.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if there is no answer of the API, and the error that the
        status of the answer stands for, with the message of the API. It is
        :class:`~tonnage.capacity.errors.ConfigurationError` if the API does not have the extension.
        """
        address = self._prefix + path
        try:
            try:
                return self._send(method, address, body, key)
            except _Unauthorized as unauthorized:
                from tonnage.cli.rest import credentials  # most APIs of one machine require none

                self._credentials = credentials.headers(unauthorized.challenge, self._cloud)
                return self._send(method, address, body, key)
        except _Unauthorized as unauthorized:
            raise errors.InvalidInput(
                f"the REST API at {self._url} does not take these credentials: {unauthorized}"
            ) from None
        except errors.NotFound as error:
            if not self._extension or error.message != _NO_PATH:
                raise
            raise errors.ConfigurationError(
                f"the extension {self._extension!r} is not enabled at {self._url}: add it to enabled_extensions of the "
                "API and of the schedulers there, or use the commands of its release if that is an earlier one"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise errors.Unavailable(
                f"there is no answer at {address} ({reason}): start Tonnage, or say where its REST API listens with "
                f"--url or {VARIABLE}, or name its configuration with --config-file"
            ) from None

    def _send(self, method: str, address: str, body: Mapping[str, Any] | None, key: str | None) -> Any:
        headers = {"Content-Type": "application/json", "OpenStack-API-Version": "volume latest", **self._credentials}
        request = urllib.request.Request(  # noqa: S310 (the scheme has been looked at)
            address, None if body is None else json.dumps(body).encode(), headers, method=method
        )
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return None if key is None else _value(json.load(answer), key)
        except urllib.error.HTTPError as error:
            with error:
                raise _error(error, address) from None


def _value(body: Any, key: str) -> Any:
    """Return the value of a key in a body. Raises ValueError if the body is not one of the API."""
    if not isinstance(body, dict) or key not in body:
        raise ValueError(f"the answer has no {key}, so this is no REST API of Tonnage, or one of an older release")
    return body[key]


def _error(error: urllib.error.HTTPError, address: str) -> Exception:
    """Return the error that a response stands for."""
    if error.code == http.HTTPStatus.UNAUTHORIZED:
        return _Unauthorized(_message(error), error.headers.get("WWW-Authenticate", ""))
    if (moved := error.headers.get("Location")) is not None:
        return errors.InvalidInput(f"the REST API is not at {address} but, as is said there, at {moved}")
    return _ERRORS.get(error.code, errors.InvalidInput)(_message(error))


def _message(error: urllib.error.HTTPError) -> str:
    """Return the message in an error response of the API. Its body has one key, the name of the error."""
    try:
        [fault] = json.load(error).values()
        return str(fault["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the REST API answered {error.code} {error.reason}"
