# SPDX-License-Identifier: Apache-2.0
"""Schedulers and backends, and whether they are up."""

import falcon

from tonnage.api import listing
from tonnage.api import microversions
from tonnage.api import policies
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.resources.base import Tools
from tonnage.ledger import services


class Services:
    """``GET /os-services``."""

    def __init__(self, tools: Tools, down_time: int) -> None:
        self._tools, self._down_time = tools, down_time

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List them; ``host`` and ``binary`` narrow the list down."""
        self._tools.policy.require(req.context.identity, policies.SERVICES)
        wanted = listing.filters(listing.parameters(req), ("host", "binary"))
        with self._tools.database.reading() as session:
            rows = services.load(session)
        backend_state = req.at_least(microversions.BACKEND_STATE)
        resp.media = {
            "services": [
                views.service(row, self._down_time, backend_state=backend_state)
                for row in rows
                if row.host == wanted.get("host", row.host) and row.binary == wanted.get("binary", row.binary)
            ]
        }
