# SPDX-License-Identifier: Apache-2.0
"""What no resource should have to think of."""

import falcon

from tonnage.api.http import Request

#: How much of a body that is too large is read all the same: a client that is still sending would not read the answer.
_DRAINED = 2**20


class Guard:
    """Middleware: refuses bodies beyond the limit, whether a resource wants one or not, and names that cannot exist."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Refuse a request that announces too large a body, or whose path has a character that no name has."""
        if (req.content_length or 0) > self._limit:
            left = _DRAINED
            while left > 0 and (chunk := req.bounded_stream.read(min(left, 65536))):
                left -= len(chunk)
            raise too_large(self._limit)
        if "\x00" in req.path:
            raise falcon.HTTPRouteNotFound


def too_large(limit: int) -> falcon.HTTPError:
    """Return the error for a body beyond the limit."""
    return falcon.HTTPContentTooLarge(
        description=f"The request's body is too large: at most {limit} bytes are read (osapi_max_request_body_size)."
    )
