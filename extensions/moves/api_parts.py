# SPDX-License-Identifier: Apache-2.0
"""The REST API of the extension: plans of moves."""

from oslo_config import cfg

from tonnage.api.extension_parts import ApiContext, ApiParts
from tonnage.extensions.moves import plan_resources


def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    """Return the routes."""
    resources = context.resources
    return ApiParts(
        routes=[
            ("/move-plans", plan_resources.Plans(resources), None),
            ("/move-plans/{plan_id}", plan_resources.AppliedPlan(resources), None),
            ("/move-plans/{plan_id}/action", plan_resources.PlanActions(resources), None),
        ]
    )
