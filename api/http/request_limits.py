# SPDX-License-Identifier: Apache-2.0
"""What no resource should have to think of."""

import errno
from dataclasses import dataclass
from typing import NoReturn, Protocol

import falcon
from oslo_config import cfg

#: How much of a body that is too large is read all the same: a client that is still sending would not read the answer.
_DRAINED = 2**20
_PIECE = 2**16

#: Most characters that are told of what is wrong with a body.
_LONGEST_WORDS = 100


class Body(Protocol):
    """What a body is read from."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest body that is read, in bytes, and the option that says so."""

    size: int
    option: str

    @property
    def longest_read(self) -> int:
        """How many bytes have to be read at once, at most."""
        return max(self.size + 1, _PIECE)

    @property
    def too_large(self) -> falcon.HTTPError:
        """The error for a body beyond the limit."""
        return falcon.HTTPContentTooLarge(
            description=f"The request's body is too large: at most {self.size} bytes are read ({self.option})."
        )

    def read(self, body: Body) -> bytes:
        """Return a body. Raises falcon's errors if it is too large, or does not come as it was announced."""
        raw = self._take(body, self.size + 1)
        if len(raw) > self.size:
            raise self.too_large
        return raw

    def refuse(self, body: Body) -> NoReturn:
        """Raise falcon's error for a body that is announced to be too large."""
        left = _DRAINED
        while left > 0 and (part := self._take(body, min(left, _PIECE))):
            left -= len(part)
        raise self.too_large

    def _take(self, body: Body, size: int) -> bytes:
        """Return at most so many bytes. What goes wrong with that is no failure of the server."""
        try:
            return body.read(size)
        except TimeoutError:
            raise falcon.HTTPError(falcon.HTTP_408, description="The request's body did not come in time.") from None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EFBIG:
                raise self.too_large from None
            said = str(error)[:_LONGEST_WORDS]  # it may repeat what was sent
            raise falcon.HTTPBadRequest(description=f"The request's body cannot be read: {said}.") from None


def limit(conf: cfg.ConfigOpts) -> Limit:
    """Return the limit of the REST API."""
    return Limit(conf.osapi_max_request_body_size, "osapi_max_request_body_size")


class Guard:
    """Middleware: refuses bodies beyond the limit, whether a resource wants one or not, and names that cannot exist."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Refuse a request that announces too large a body, or whose path has a character that no name has."""
        if (req.content_length or 0) > self._limit.size:
            self._limit.refuse(req.bounded_stream)
        if "\x00" in req.path:
            raise falcon.HTTPRouteNotFound
