# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in the API: one path with its policy rule."""

import falcon
from msgspec import Struct
from oslo_config import cfg
from oslo_policy import policy

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.extension_parts import ApiContext, ApiParts
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage_low_water import tables

RULE = "low_water:list"


class Mark(Struct, kw_only=True):
    """The lowest free capacity of a pool, in GiB."""

    pool: str
    free_gb: float


class Marks(Struct):
    """The marks of all pools."""

    low_water_marks: list[Mark]


class MarksResource:
    """``/low-water-marks``."""

    def __init__(self, resources: ResourceContext) -> None:
        self._resources = resources

    @operation({200: Marks})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the lowest free capacity of each pool."""
        self._resources.policy.require(req.context.identity, RULE)
        with self._resources.database.reading() as session:
            resp.media = Marks([Mark(pool=mark.pool, free_gb=mark.free_gb) for mark in tables.marks(session)])


def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    """Return the path, which is served below ``/v3``."""
    return ApiParts(routes=[("/low-water-marks", MarksResource(context.resources), None)])


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the policy rule of the path."""
    return [policies.rule(RULE, policies.ADMIN, "List the low-water marks of pools.", "GET /low-water-marks")]
