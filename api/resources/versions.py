# SPDX-License-Identifier: Apache-2.0
"""Version discovery, open to everybody."""

import falcon

from tonnage.api import microversions
from tonnage.api.http import Request

#: When the newest microversion was made.
_UPDATED = "2026-11-01T00:00:00Z"


class Versions:
    """``GET /`` and ``GET /v3``."""

    def __init__(self, status: str) -> None:
        """``/`` offers a choice and answers 300, ``/v3`` is the choice and answers 200."""
        self._status = status

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Tell the versions that are served."""
        resp.status = self._status
        resp.media = {
            "versions": [
                {
                    "id": "v3.0",
                    "status": "CURRENT",
                    "version": microversions.MAXIMUM,
                    "min_version": microversions.MINIMUM,
                    "updated": _UPDATED,
                    "links": [{"rel": "self", "href": f"{req.prefix}/v3/"}],
                    "media-types": [
                        {
                            "base": "application/json",
                            "type": "application/vnd.openstack.volume+json;version=3",
                        }
                    ],
                }
            ]
        }
