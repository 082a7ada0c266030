# SPDX-License-Identifier: Apache-2.0
"""What a backend can do."""

import falcon

from tonnage.api import policies
from tonnage.api import properties
from tonnage.api import service_bodies
from tonnage.api.http import Request
from tonnage.api.operations import operation
from tonnage.api.resources.base import Tools
from tonnage.ledger import backends


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
        resp.media = properties.of_backend(host, reports)
