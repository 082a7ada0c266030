# SPDX-License-Identifier: Apache-2.0
"""Microversions of the API.

3.0 to 3.71 are those of Cinder, and their bodies have Cinder's keys alone. Those from 3.72 on are additions of Tonnage,
with its own keys.
"""

import falcon
import microversion_parse

from tonnage.api.http import faults
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

SERVICE_TYPE = "volume"
HEADER = "OpenStack-API-Version"
MINIMUM = "3.0"
MAXIMUM = "3.73"
SUPPORTED = [f"3.{minor}" for minor in range(74)]

CLUSTERS = 7
MANAGEABLE_SNAPSHOTS = 8
VOLUME_LIST_GROUP = 10
GROUP_TYPES = 11
VOLUME_SUMMARY = 12
GROUPS = 13
GROUP_SNAPSHOTS = 14
GROUP_RESET_STATUS = 20
DELETE_FORCE = 23
CLEANUP = 24
GROUP_VOLUMES = 25
ATTACHMENTS = 27
GET_POOLS_FILTERS = 28
LOG_LEVELS = 32
RESOURCE_FILTERS = 33
GET_POOLS_VOLUME_TYPE = 35
VOLUME_SUMMARY_METADATA = 36
GROUP_REPLICATION = 38
VOLUME_LIST_COUNT = 45
BACKEND_STATE = 49
TYPE_FILTERS = 52
#: Unknown keys of a new volume are refused.
STRICT_VOLUME = 53
VOLUME_TRANSFERS = 55
GROUP_PROJECT = 58
DEFAULT_TYPES = 62
#: The keys of Tonnage in bodies.
OWN_KEYS = 72
#: Plans of moves that are carried out.
APPLIED_PLANS = 73


def require(req: Request, minor: int) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` if the request has a microversion below 3.``minor``."""
    if not req.at_least(minor):
        raise errors.NotFound("The resource could not be found.")


class MicroversionMiddleware:
    """Middleware that reads the microversion of a request and adds it to the response."""

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Set the microversion. The response is 400 for a malformed one and 406 for an unsupported one."""
        if not req.path.startswith("/v3"):
            return
        resp.append_header("Vary", HEADER)
        headers = microversion_parse.headers_from_wsgi_environ(req.env)
        try:
            version = microversion_parse.extract_version(headers, SERVICE_TYPE, SUPPORTED)
        except TypeError:
            requested = microversion_parse.get_version(headers, SERVICE_TYPE)
            raise falcon.HTTPBadRequest(
                description=f"API version {requested!r} is malformed: expected MAJOR.MINOR or latest."
            ) from None
        except ValueError:
            requested = microversion_parse.get_version(headers, SERVICE_TYPE)
            faults.write(
                resp,
                406,
                f"Version {requested} is not supported by the API. Minimum is {MINIMUM} and maximum is {MAXIMUM}.",
            )
            resp.complete = True
            return
        req.context.version = version
        resp.set_header(HEADER, f"{SERVICE_TYPE} {version}")
