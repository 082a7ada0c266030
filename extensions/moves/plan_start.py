# SPDX-License-Identifier: Apache-2.0
"""The plans that users see before they are carried out, and the start of those that are."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from sqlalchemy import orm

from tonnage.extensions.moves.execution import plan_events
from tonnage.extensions.moves.plan_messages import ApplyPlan
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_details, plan_progress, plan_records
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_records import NewPlan
from tonnage.ledger.db.database import Database
from tonnage.scheduler.observers.extension_events import ExtensionEvents

LOG = logging.getLogger(__name__)


class PlanMaker(Protocol):
    """Makes plans."""

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan for a goal that uses no pool of ``held``, the pools of other plans with their ids."""


class PlanStarter:
    """Makes plans and records them, so that they are carried out by the mover with this name.

    ``limits`` are those of the options.
    """

    def __init__(
        self, database: Database, planner: PlanMaker, limits: Limits, events: ExtensionEvents, mover: str = ""
    ) -> None:
        self._database, self._planner, self._limits, self._events = database, planner, limits, events
        self._mover = mover

    def preview(self, query: PlanQuery) -> MovePlan:
        """Return a plan with an estimate of its time within the limits of the options.

        Its outcome names the unfinished plans that have to end before it can be carried out. Raises the errors of
        :meth:`~tonnage.extensions.moves.planner.Planner.plan_beside`.
        """
        plan, held = self._plan(query)
        users: dict[str, list[str]] = defaultdict(list)
        for pool in sorted(plan.used_pools & held.keys()):
            users[held[pool]].append(pool)
        if plan.moves and users:
            others = " and ".join(f"plan {plan_id} uses {', '.join(pools)}" for plan_id, pools in users.items())
            plan = replace(plan, outcome=f"{plan.outcome}; {others}: 'plan apply' is refused until that has ended")
        return self._timed(plan, self._limits)

    def apply(self, message: ApplyPlan) -> MovePlan:
        """Return a plan, which is carried out from now on unless it has no moves.

        The same message again, which the bus may deliver, is answered with the plan that is recorded.

        Raises :class:`~tonnage.capacity.errors.Conflict` if it shares a pool with an unfinished plan,
        :class:`~tonnage.capacity.errors.InvalidInput` for limits that are none, and the errors of
        :meth:`~tonnage.extensions.moves.planner.Planner.plan_beside`.
        """
        limits = self._limits.changed(message.limits)
        if (recorded := self._recorded(message.plan_id)) is not None:
            return self._timed(recorded, limits)
        new_plan = NewPlan(
            id=message.plan_id,
            goal=message.query.goal,
            arguments=message.query.arguments,
            limits=limits,
            project_id=message.project_id,
            user_id=message.user_id,
            mover=self._mover,
            mover_options=message.query.options or None,
        )
        plan = self._timed(self._plan(message.query)[0], limits)
        if not plan.moves:
            return plan
        is_new: bool = self._database.run_past_duplicates(self._insert, new_plan, plan)
        if not is_new:
            # Another scheduler got the message too, and was faster.
            return self._timed(self._recorded(new_plan.id) or plan, limits)
        self._events.commit()
        LOG.info("Plan %s (%s) begins: %s", new_plan.id, plan.goal, plan.amount)
        return plan

    def _plan(self, query: PlanQuery) -> tuple[MovePlan, Mapping[str, str]]:
        """Return a plan, and the pools of unfinished plans with their ids.

        It leaves these pools alone if it reaches its goal so.
        """
        with self._database.reading() as session:
            held = plan_records.held_by_others(session, "")
        if held and (plan := self._planner.plan_beside(query, held)).is_reached:
            return plan, held
        return self._planner.plan_beside(query, {}), held

    def _recorded(self, plan_id: str) -> MovePlan | None:
        with self._database.reading(snapshot=True) as session:
            return plan_details.answer(session, plan_id)

    def _timed(self, plan: MovePlan, limits: Limits) -> MovePlan:
        with self._database.reading() as session:
            return replace(plan, seconds=plan_progress.estimate(session, plan.moves, limits))

    def _insert(self, session: orm.Session, new_plan: NewPlan, plan: MovePlan) -> bool:
        if not plan_records.insert(session, new_plan, plan):
            return False
        self._events.write(session, plan_events.begun(new_plan, plan))
        return True
