# SPDX-License-Identifier: Apache-2.0
"""Version discovery and the OpenAPI document; neither needs authentication."""

import functools
from collections.abc import Sequence
from typing import Any

import falcon
from oslo_policy import policy

from tonnage.api.http import microversions
from tonnage.api.http.annotations import PublicResource, Route, operation
from tonnage.api.http.http_request import Request
from tonnage.api.openapi import document as openapi_document
from tonnage.api.schemas import response_bodies

#: The time of the newest microversion.
_UPDATED = "2026-11-01T00:00:00Z"


class Versions(PublicResource):
    """``GET /`` and ``GET /v3``."""

    def __init__(self, status: int) -> None:
        """``status`` is 300 for ``/``, which offers a choice of versions, and 200 for ``/v3``."""
        self._status = status

    @operation({200: response_bodies.Versions, 300: response_bodies.Versions})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the supported versions of the API."""
        resp.status = falcon.code_to_http_status(self._status)
        version = response_bodies.Version(
            id="v3.0",
            status="CURRENT",
            version=microversions.MAXIMUM,
            min_version=microversions.MINIMUM,
            updated=_UPDATED,
            links=[response_bodies.Link("self", f"{req.prefix}/v3/")],
            media_types=[
                response_bodies.MediaType("application/json", "application/vnd.openstack.volume+json;version=3")
            ],
        )
        resp.media = response_bodies.Versions([version])


PATH = "/v3/openapi.json"


class OpenApi(PublicResource):
    """``/v3/openapi.json``, without authentication. The first request generates the document."""

    def __init__(self, routes: Sequence[Route], rules: Sequence[policy.RuleDefault], auth_strategy: str) -> None:
        self._routes = [*routes, (PATH, self, None)]
        self._rules, self._auth_strategy = rules, auth_strategy

    @operation({200: dict[str, Any]})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the OpenAPI 3.1 document of the API."""
        resp.media = self.document

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The document, which includes its own path."""
        return openapi_document.document(self._routes, self._rules, self._auth_strategy)
