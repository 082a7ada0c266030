# SPDX-License-Identifier: Apache-2.0
"""The refusal of changes that pages of other sites make through the browser of a user."""

from collections.abc import Collection
from urllib import parse

import falcon

from tonnage.api.auth import enforcement
from tonnage.api.http.http_request import Request

#: Methods without effects. Browsers do not send the header ``Origin`` with each of these requests.
_SAFE = ("GET", "HEAD", "OPTIONS")

#: Most characters of a header that an error message repeats.
_SHOWN = 64


class SameOrigin:
    """Middleware that refuses requests with effects from pages of other origins.

    Browsers add the origin of the page to such a request, and may add stored credentials; other clients send no origin.
    ``allowed`` are the origins that CORS allows.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = allowed

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Raise :class:`~tonnage.api.auth.enforcement.Forbidden` for a request from another origin."""
        origin = req.get_header("Origin")
        if origin is None or req.method in _SAFE or origin in self._allowed or "*" in self._allowed:
            return
        # Without the scheme: a proxy may end TLS.
        if parse.urlsplit(origin).netloc.lower() != (req.get_header("Host") or "").lower():
            raise enforcement.Forbidden(
                f"A page of {origin[:_SHOWN]!r} has sent this: changes are accepted from programs, and from pages of "
                "the origins in [cors] allowed_origin."
            )
