# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of what is served."""

import functools
from collections.abc import Sequence
from typing import Any

import falcon

from tonnage.api.http.request import Request
from tonnage.api.openapi import document as openapi_document
from tonnage.api.openapi.annotations import Open, Route, operation

PATH = "/v3/openapi.json"


class OpenApi(Open):
    """``/v3/openapi.json``, open to everybody. It is made when it is first asked for."""

    def __init__(self, routes: Sequence[Route], auth_strategy: str) -> None:
        self._routes = [*routes, (PATH, self, None)]
        self._auth_strategy = auth_strategy

    @operation({200: dict[str, Any]})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Tell what is served, as an OpenAPI 3.1 document."""
        resp.media = self.document

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The document, with its own address."""
        return openapi_document.document(self._routes, self._auth_strategy)
