# SPDX-License-Identifier: Apache-2.0
"""What no resource should have to think of."""

import errno
from typing import Protocol

import falcon

from tonnage.api.http import Request

#: How much of a body that is too large is read all the same: a client that is still sending would not read the answer.
_DRAINED = 2**20
_PIECE = 2**16


class _Body(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Guard:
    """Middleware: refuses bodies beyond the limit, whether a resource wants one or not, and names that cannot exist."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Refuse a request that announces too large a body, or whose path has a character that no name has."""
        if (req.content_length or 0) > self._limit:
            left = _DRAINED
            while left > 0 and (part := take(req.bounded_stream, min(left, _PIECE), self._limit)):
                left -= len(part)
            raise too_large(self._limit)
        if "\x00" in req.path:
            raise falcon.HTTPRouteNotFound


def take(body: _Body, size: int, limit: int) -> bytes:
    """Return at most so many bytes of a body.

    Raises falcon's errors where it does not come as it was announced: that is no failure of the server.
    """
    try:
        return body.read(size)
    except TimeoutError:
        raise falcon.HTTPError(falcon.HTTP_408, description="The request's body did not come in time.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise too_large(limit) from None
        raise falcon.HTTPBadRequest(description=f"The request's body cannot be read: {error}.") from None


def longest_read(limit: int) -> int:
    """Return how many bytes are read at once, where bodies are read up to a limit."""
    return max(limit + 1, _PIECE)


def too_large(limit: int) -> falcon.HTTPError:
    """Return the error for a body beyond the limit."""
    return falcon.HTTPContentTooLarge(
        description=f"The request's body is too large: at most {limit} bytes are read (osapi_max_request_body_size)."
    )
