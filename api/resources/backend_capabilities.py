# SPDX-License-Identifier: Apache-2.0
"""What a backend can do."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.resources import capability_properties
from tonnage.api.schemas import service_bodies
from tonnage.ledger.inventory import backends


class BackendCapabilities:
    """``/capabilities/{host}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: service_bodies.Capabilities})
    def on_get(self, req: Request, resp: falcon.Response, host: str) -> None:
        """Show what a backend is, and what volume types can ask of it."""
        self._tools.policy.require(req.context.identity, policies.CAPABILITIES)
        with self._tools.database.reading() as session:
            reports = backends.reports_of(session, host)
        resp.media = capability_properties.of_backend(host, reports)
