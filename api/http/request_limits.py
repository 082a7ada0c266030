# SPDX-License-Identifier: Apache-2.0
"""Limits of all requests: the size of the body, and the characters of the path."""

import errno
from dataclasses import dataclass
from typing import NoReturn, Protocol

import falcon
from oslo_config import cfg

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
    def max_read_size(self) -> int:
        """The largest number of bytes in one read."""
        return max(self.size + 1, _CHUNK_SIZE)

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
        left = _DISCARDED_SIZE
        while left > 0 and (part := self._read_part(body, min(left, _CHUNK_SIZE))):
            left -= len(part)
        raise self.too_large

    def _read_part(self, body: BodyStream, size: int) -> bytes:
        """Return at most ``size`` bytes. A failed read is an error of the client, not of the server."""
        try:
            return body.read(size)
        except TimeoutError:
            raise falcon.HTTPError(falcon.HTTP_408, description="The request's body did not come in time.") from None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EFBIG:
                raise self.too_large from None
            description = str(error)[:_MAX_DESCRIPTION]  # it may repeat input of the client
            raise falcon.HTTPBadRequest(description=f"The request's body cannot be read: {description}.") from None


def body_limit(conf: cfg.ConfigOpts) -> BodyLimit:
    """Return the limit of the REST API."""
    return BodyLimit(conf.osapi_max_request_body_size, "osapi_max_request_body_size")


class RequestLimits:
    """Middleware that rejects bodies above the limit, for all resources, and paths with the character NUL."""

    def __init__(self, limit: BodyLimit) -> None:
        self._limit = limit

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Raise falcon's error for a body whose declared length is too large, and for NUL in the path."""
        if (req.content_length or 0) > self._limit.size:
            self._limit.reject(req.bounded_stream)
        if "\x00" in req.path:
            raise falcon.HTTPRouteNotFound
