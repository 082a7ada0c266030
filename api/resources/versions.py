# SPDX-License-Identifier: Apache-2.0
"""Version discovery, open to everybody."""

import falcon

from tonnage.api.http import microversions
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import Open, operation
from tonnage.api.schemas import response_bodies

#: When the newest microversion was made.
_UPDATED = "2026-11-01T00:00:00Z"


class Versions(Open):
    """``GET /`` and ``GET /v3``."""

    def __init__(self, status: int) -> None:
        """``/`` offers a choice and answers 300, ``/v3`` is the choice and answers 200."""
        self._status = status

    @operation({200: response_bodies.Versions, 300: response_bodies.Versions})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Tell the versions that are served."""
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
