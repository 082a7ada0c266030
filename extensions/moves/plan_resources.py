# SPDX-License-Identifier: Apache-2.0
"""``/move-plans``: plans of moves for a goal."""

import falcon

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.extensions.moves import plan_bodies
from tonnage.extensions.moves.plan_messages import PLAN_MOVES
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.moves.policy_rules import PLAN_MOVES as PLAN_MOVES_RULE


class Plans:
    """``POST /move-plans``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: plan_bodies.PlanResponse}, bodies=(plan_bodies.CreatePlan,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Return a plan of moves that reaches a goal, or comes near to it. Nothing is moved.

        It takes the microversion 3.72.
        """
        microversions.require(req, microversions.OWN_KEYS)
        self._context.policy.require(req.context.identity, PLAN_MOVES_RULE)
        body = self._context.bodies.read(req, plan_bodies.CreatePlan).move_plan
        query = PlanQuery(goal=body.goal, arguments=body.arguments)
        plan = self._context.scheduler.call(PLAN_MOVES, query)
        resp.media = plan_bodies.PlanResponse(plan_bodies.plan_body(plan))
