# SPDX-License-Identifier: Apache-2.0
"""Middleware that counts the requests of the REST API and measures their time."""

import time

import falcon

from tonnage.api.http.http_request import Request
from tonnage.metrics import instruments

_BEGAN = "tonnage.request_began"


class RequestMetrics:
    """Counts each request by method, route and status. A path without a route has the route ``none``."""

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Note the time."""
        req.env[_BEGAN] = time.perf_counter()

    def process_response(self, req: Request, resp: falcon.Response, resource: object, succeeded: bool) -> None:
        """Count the request, also one that failed."""
        route = (req.uri_template or "none").replace(":path}", "}")
        method = req.method if req.method in falcon.HTTP_METHODS else "other"
        instruments.API_REQUESTS.labels(method, route, str(resp.status_code)).inc()
        began = req.env.get(_BEGAN)
        if began is not None:
            instruments.API_DURATION.labels(route).observe(time.perf_counter() - began)
