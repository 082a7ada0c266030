# SPDX-License-Identifier: Apache-2.0
"""``/move-plans``: plans of moves for a goal, and those that are carried out."""

import uuid

import falcon
import msgspec
from msgspec import UNSET

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.body import convert, only_key
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.capacity import errors
from tonnage.extensions.moves import plan_bodies
from tonnage.extensions.moves.plan_messages import APPLY_MOVES, PLAN_MOVES, ApplyPlan
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.moves.policy_rules import APPLY_PLANS, GET_PLANS
from tonnage.extensions.moves.policy_rules import PLAN_MOVES as PLAN_MOVES_RULE
from tonnage.extensions.moves.records import plan_progress, plan_records, tables

_QUERY = Query(sort_keys=plan_records.SORT_KEYS, filters=plan_records.FILTERS, words={"state": tables.STATES})

#: The largest number of steps that are shown if some are to be.
_MOST_STEPS = 1000

_STEPS = Query(patterns={"steps": f"^([0-9]{{1,3}}|{_MOST_STEPS})$"})

_ACTIONS = {"pause": plan_records.pause, "resume": plan_records.resume, "stop": plan_records.stop}


class _Resource:
    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    def _require(self, req: Request, rule: str) -> None:
        """Raise an error unless plans that are carried out exist in the microversion, and the rule allows the call."""
        microversions.require(req, microversions.APPLIED_PLANS)
        self._context.policy.require(req.context.identity, rule)


class Plans(_Resource):
    """``/move-plans``."""

    @operation({200: plan_bodies.AppliedPlans}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the plans that are or were carried out, the newest first, without their steps.

        It takes the microversion 3.73.
        """
        self._require(req, GET_PLANS)
        parameters = _QUERY.read(req)
        page = self._context.paginator.page(parameters)
        with self._context.database.reading() as session:
            plans = plan_records.page(session, _QUERY.select_filters(parameters), page)
            progress = plan_progress.load(session, plans)
        resp.media = plan_bodies.AppliedPlans(
            [plan_bodies.applied_plan_body(plan, progress[plan.id]) for plan in plans],
            self._context.paginator.links(req, page, plans),
        )

    @operation(
        {200: plan_bodies.PlanResponse, 202: plan_bodies.PlanResponse}, bodies=(plan_bodies.CreatePlan,), errors=(404,)
    )
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Return a plan of moves that reaches a goal, or comes near to it. Nothing is moved.

        Since 3.73 the plan is carried out if ``apply`` is true, with the status 202, unless it has no moves. ``limits``
        need that. It takes the microversion 3.72.
        """
        microversions.require(req, microversions.OWN_KEYS)
        self._context.policy.require(req.context.identity, PLAN_MOVES_RULE)
        body = self._context.bodies.read(req, plan_bodies.CreatePlan).move_plan
        if (body.apply, body.limits) != (UNSET, UNSET) and not req.at_least(microversions.APPLIED_PLANS):
            raise errors.InvalidInput("apply and limits take the microversion 3.73")
        if body.limits is not UNSET and body.apply is not True:
            raise errors.InvalidInput("limits are those of a plan that is carried out: set apply to true, or omit them")
        query = PlanQuery(goal=body.goal, arguments=body.arguments)
        if body.apply is not True:
            plan = self._context.scheduler.call(PLAN_MOVES, query)
            resp.media = plan_bodies.PlanResponse(
                plan_bodies.plan_body(plan, is_newest=req.at_least(microversions.APPLIED_PLANS))
            )
            return
        identity = req.context.identity
        self._context.policy.require(identity, APPLY_PLANS)
        order = ApplyPlan(
            plan_id=str(uuid.uuid4()),
            query=query,
            limits={} if body.limits is UNSET else msgspec.to_builtins(body.limits, enc_hook=str),
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
        )
        plan_body = plan_bodies.plan_body(self._context.scheduler.call(APPLY_MOVES, order))
        plan_body.id = order.plan_id if plan_body.moves else None
        resp.media = plan_bodies.PlanResponse(plan_body)
        if plan_body.moves:
            resp.status = falcon.HTTP_202


class AppliedPlan(_Resource):
    """``/move-plans/{plan_id}``."""

    @operation({200: plan_bodies.AppliedPlanResponse}, query=_STEPS)
    def on_get(self, req: Request, resp: falcon.Response, plan_id: str) -> None:
        """Show a plan that is or was carried out, with its steps, the volumes that stay and the levels of its pools.

        With ``steps`` at most this number of steps (up to 1000) is shown: those that are moving, the next ones, and the
        last ones that have ended. It takes the microversion 3.73.
        """
        self._require(req, GET_PLANS)
        text = _STEPS.read(req).get("steps")
        if text is not None and not (list_query.is_number(text) and int(text) <= _MOST_STEPS):
            raise errors.InvalidInput(
                f"steps is {text!r}: expected a whole number up to {_MOST_STEPS}; without steps all are shown"
            )
        most_steps = None if text is None else int(text)
        with self._context.database.reading() as session:
            resp.media = plan_bodies.AppliedPlanResponse(plan_bodies.single_plan_body(session, plan_id, most_steps))


class PlanActions(_Resource):
    """``/move-plans/{plan_id}/action``."""

    @operation({202: None}, actions=plan_bodies.PLAN_ACTIONS)
    def on_post(self, req: Request, resp: falcon.Response, plan_id: str) -> None:
        """Pause, resume or stop a plan. Moves that are under way end as usual. It takes the microversion 3.73."""
        self._require(req, APPLY_PLANS)
        name, arguments = only_key(self._context.bodies.decode(req), plan_bodies.PLAN_ACTIONS)
        convert(arguments, plan_bodies.PLAN_ACTIONS[name])
        self._context.database.run(_ACTIONS[name], plan_id)
        resp.status = falcon.HTTP_202
