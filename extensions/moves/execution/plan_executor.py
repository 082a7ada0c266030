# SPDX-License-Identifier: Apache-2.0
"""The executor of plans: it starts the steps whose turn has come, records their ends, and makes plans anew.

All that it needs is in the ledger, so any scheduler goes on with a plan at any point, also if another one still does
the same. A step is marked as moving before its request is made, and the request is the same whoever makes it: it is
decided once.
"""

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.moves.execution import plan_events, step_outcomes
from tonnage.extensions.moves.execution.step_outcomes import StepOutcome
from tonnage.extensions.moves.planning.placed_volumes import VolumeReader
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.extensions.moves.records import plan_progress, plan_records, tables
from tonnage.extensions.moves.records.hours import Hours
from tonnage.extensions.moves.records.plan_limits import Load, Slots
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.scheduler.observers.extension_events import ExtensionEvents

LOG = logging.getLogger(__name__)

#: Seconds before a plan is made anew after one without a moved volume, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0

#: Seconds between two looks at the backends that a plan waits for.
_LOOK = 10.0

#: Least seconds between two looks whether the goal of a plan is reached without its moves, and the factor by which they
#: are longer than such a look.
_GOAL_LOOK, _GOAL_FACTOR = 60.0, 50.0

#: The beginning of a message about these.
_WAITS_FOR_MOVE = "waits for the move of volume"

#: The beginning of a message about a plan that can neither be made anew nor compared with its goal now.
_WAITS_FOR_PLAN = "waits until it can be planned"

#: Most steps that are read at once to find those that begin.
_PAGE = 100

#: Errors of the planner: the arguments of a plan do not hold any more.
_WRONG_ARGUMENTS = (errors.InvalidInput, errors.NotFound)

#: Most reasons of volumes that stay in a message.
_MOST_REASONS = 3


class Planner(Protocol):
    """Makes plans."""

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan for a goal that uses no pool of other plans.

        Raises :class:`~tonnage.capacity.errors.Unavailable` while it cannot be made, and the errors of :meth:`model`.
        """

    def model(self, query: PlanQuery) -> PoolModel:
        """Return a model of the pools as they are now, for the options of a plan.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` or :class:`~tonnage.capacity.errors.NotFound` if the
        arguments of the plan do not hold any more.
        """

    def volumes(self, query: PlanQuery) -> VolumeReader:
        """Return a reader of the volumes as they are now, for the options of a plan."""


class Mover(Protocol):
    """Moves volumes, for the plans that have its name."""

    @property
    def name(self) -> str:
        """The name in the rows of plans."""

    def outcomes(self, plan: MovePlanRow, steps: Sequence[MoveStepRow]) -> Mapping[int, StepOutcome]:
        """Return the outcomes of steps that are moving, by their numbers."""

    def request(self, plan: MovePlanRow, step: MoveStepRow) -> StepOutcome:
        """Let the volume of a step be moved, unless that has begun before.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if it is not known whether it begins, and other errors
        with the reason why it does not.
        """

    def unsettled(self, session: orm.Session, plan: MovePlanRow) -> set[str]:
        """Return the volumes of ended steps whose room is not free yet, or not in the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Times: the ``local`` time of the day, and ``monotonic`` seconds."""

    local: Callable[[], datetime.datetime]
    monotonic: Callable[[], float]


class PlanExecutor:
    """Carries out the plans of a mover. ``events`` are told of failures and ends.

    A plan fails after ``timeout`` seconds without progress.
    """

    def __init__(
        self,
        database: Database,
        planner: Planner,
        mover: Mover,
        timeout: float,
        clocks: Clocks,
        events: ExtensionEvents,
    ) -> None:
        self._database, self._planner, self._mover = database, planner, mover
        self._timeout, self._clocks, self._events = timeout, clocks, events
        #: When this executor began with each plan, at first or after an outage: nobody worked on it before.
        self._began: dict[str, float] = {}
        #: When it looks next at the backends that each plan waits for.
        self._next_look: dict[str, float] = {}
        #: When it looks next whether the goal of each plan is reached.
        self._next_goal_look: dict[str, float] = {}

    def work(self) -> bool:
        """Take the next steps of all plans; return whether a plan has not ended.

        Raises :class:`~tonnage.capacity.errors.Unavailable` while the ledger cannot be read, and the first unexpected
        error of a plan once all others have had their turn.
        """
        try:
            plans = self._database.read(plan_records.open_plans, self._mover.name)
        except errors.Unavailable:
            self._began.clear()
            raise
        now = self._clocks.monotonic()
        self._began = {plan.id: self._began.get(plan.id, now) for plan in plans}
        self._next_look = {plan.id: self._next_look.get(plan.id, now + _LOOK) for plan in plans}
        self._next_goal_look = {plan.id: self._next_goal_look.get(plan.id, now + _GOAL_LOOK) for plan in plans}
        unexpected: Exception | None = None
        for plan in plans:
            try:
                self._carry_on(plan)
            except errors.Unavailable as error:
                LOG.log(log_level(error), "Plan %s waits: %s", plan.id, error.message)
                self._began.pop(plan.id, None)
            except Exception as error:
                LOG.error("Plan %s cannot go on: %s", plan.id, error)
                unexpected = unexpected or error
        if unexpected is not None:
            raise unexpected
        return bool(plans)

    def _carry_on(self, plan: MovePlanRow) -> None:
        active = self._active_steps(plan)
        moving = [step for step in active if step.state == tables.MOVING]
        has_changed = bool(moving) and self._record_ends(plan, moving)
        if plan.state in tables.UNFINISHED and self._clocks.monotonic() >= self._next_look[plan.id]:
            self._next_look[plan.id] = self._clocks.monotonic() + _LOOK
            try:
                self._tell_of_backends(plan, moving)
            except _WRONG_ARGUMENTS as error:
                # A paused plan ends when it is resumed.
                self._end(plan, tables.FAILED, error.message)
                return
        if plan.state == tables.PAUSED:
            return
        if plan.state != tables.RUNNING:
            self._release(plan)
            return
        if has_changed:
            active = self._active_steps(plan)
        failed = [step for step in active if step.state == tables.STEP_FAILED]
        if len(failed) >= plan_records.limits_of(plan).failures:
            count = f"{len(failed)} move{'' if len(failed) == 1 else 's'} failed"
            self._end(plan, tables.FAILED, f"{count}, the last of volume {failed[-1].volume_id}: {failed[-1].message}")
            return
        is_moving = any(step.state == tables.MOVING and step.generation == plan.generation for step in active)
        try:
            if (outcome := self._reached(plan)) is not None:
                self._end(plan, tables.FINISHED, outcome)
                return
            has_turn = self._start_steps(plan)
        except _WRONG_ARGUMENTS as error:
            self._end(plan, tables.FAILED, error.message)
            return
        if not has_turn and not is_moving:
            self._plan_anew(plan)

    def _active_steps(self, plan: MovePlanRow) -> Sequence[MoveStepRow]:
        """Return the steps that are moving or have failed: few, however many the plan has."""
        with self._database.reading() as session:
            return plan_records.active_steps(session, plan.id)

    def _tell_of_backends(self, plan: MovePlanRow, moving: Sequence[MoveStepRow]) -> None:
        """Record that a plan waits for a move of a backend that is down or gone, or that it no longer does so."""
        with self._database.reading() as session:
            volume_ids = self._mover.unsettled(session, plan)
            unsettled = step_outcomes.ended_steps(session, plan.id, plan.generation, volume_ids)
        message = None
        if moving or unsettled:
            model = self._planner.model(_query(plan))
            ends = [(step, "") for step in moving] + [(step, " to be reported") for step in unsettled]
            for step, end in ends:
                absence = model.absence(step.target) or model.absence(step.source)
                if absence is not None:
                    message = f"{_WAITS_FOR_MOVE} {step.volume_id}{end}: {absence}"
                    break
        if message is None and not (plan.message or "").startswith(_WAITS_FOR_MOVE):
            return
        if message != plan.message:
            LOG.info("Plan %s (%s): %s", plan.id, plan.summary, message or "goes on")
            self._database.run(plan_records.tell, plan.id, message)

    # Steps.

    def _record_ends(self, plan: MovePlanRow, moving: Sequence[MoveStepRow]) -> bool:
        """Record the ends of steps, and make the requests that nobody has made; return whether a step has ended."""
        outcomes = self._mover.outcomes(plan, moving)
        has_changed = False
        for step in moving:
            outcome = outcomes[step.number]
            if outcome is step_outcomes.UNDECIDED:
                self._request(plan, step)
            else:
                self._record(plan, step, outcome)
            has_changed = has_changed or outcome is not step_outcomes.UNDER_WAY
        return has_changed

    def _record(self, plan: MovePlanRow, step: MoveStepRow, outcome: StepOutcome) -> None:
        if outcome is step_outcomes.UNDER_WAY:
            return
        if self._database.run(self._end_step, plan, step, outcome):
            if outcome.state == tables.STEP_FAILED:
                self._events.commit()
            end = f"{outcome.state}: {outcome.message}" if outcome.message else outcome.state
            LOG.info("Plan %s: move %d of volume %s is %s", plan.id, step.number, step.volume_id, end)

    def _end_step(self, session: orm.Session, plan: MovePlanRow, step: MoveStepRow, outcome: StepOutcome) -> bool:
        if not plan_records.end_step(session, plan.id, step.number, outcome.state, outcome.message):
            return False
        if outcome.state == tables.STEP_FAILED:
            self._events.write(session, plan_events.step_failed(plan, step, outcome.message or ""))
        return True

    def _request(self, plan: MovePlanRow, step: MoveStepRow) -> None:
        """Make the request of a step, and record a refusal. Without an answer the next round looks at it again."""
        try:
            outcome = self._mover.request(plan, step)
        except errors.Unavailable:
            raise
        except errors.TonnageError as error:
            outcome = StepOutcome(tables.SKIPPED, error.message)
        self._record(plan, step, outcome)

    def _start_steps(self, plan: MovePlanRow) -> bool:
        """Start the steps whose turn has come; return whether one was started or waits for its turn alone.

        Steps are read in pages, and none any more once the limits allow no further move: a plan may have thousands.
        """
        limits = plan_records.limits_of(plan)
        with self._database.reading() as session:
            pairs = plan_records.waiting_loads(session, plan.id, plan.generation)
            slots = Slots(limits, plan_records.moving(session))
        if not pairs:
            return False
        if not self._is_within_hours(plan):
            return True
        selection = _Selection(self._planner, _query(plan), slots)
        has_turn, last = False, 0
        while any(map(slots.allow, pairs)):
            with self._database.reading() as session:
                steps = plan_records.waiting_steps(session, plan.id, plan.generation, last, _PAGE)
                after_moved, ready = self._with_room(session, plan, steps)
            if not steps:
                break
            last = steps[-1].number
            selection.add(ready)
            has_turn = has_turn or selection.is_cut or len(ready) < len(after_moved)
        else:
            has_turn = True
        if selection.messages:
            self._database.run(plan_records.note, plan.id, selection.messages)
        if not selection.chosen:
            return has_turn
        for step in self._database.run(plan_records.start, plan.id, list(selection.chosen), selection.chosen):
            LOG.info("Plan %s: move %d of volume %s begins, to %s", plan.id, step.number, step.volume_id, step.target)
            self._request(plan, step)
        return True

    def _is_within_hours(self, plan: MovePlanRow) -> bool:
        """Return whether it is one of the hours of a plan, and record that it waits for them, or no longer does so."""
        hours = plan_records.limits_of(plan).hours
        now, waits = self._clocks.local(), f"waits for the hours {hours}:"
        is_open = Hours.parse(hours).is_open(now)
        waits_for_move = (plan.message or "").startswith(_WAITS_FOR_MOVE)
        if (plan.message or "").startswith(waits) == is_open and not waits_for_move:
            message = None if is_open else f"{waits} it was {now.astimezone():%H:%M %Z} at the first look"
            self._database.run(plan_records.tell, plan.id, message)
        return is_open

    def _with_room(
        self, session: orm.Session, plan: MovePlanRow, steps: Sequence[MoveStepRow]
    ) -> tuple[list[MoveStepRow], list[MoveStepRow]]:
        """Return the steps whose earlier moves have ended well, and those of them whose room is in the figures."""
        earlier = plan_records.numbered_steps(session, plan.id, {number for step in steps for number in step.after})
        moved = {step.number: step.volume_id for step in earlier if step.state == tables.MOVED}
        after_moved = [step for step in steps if all(number in moved for number in step.after)]
        unsettled = self._mover.unsettled(session, plan) if moved else set()
        return after_moved, [step for step in after_moved if unsettled.isdisjoint(moved[n] for n in step.after)]

    # Plans.

    def _plan_anew(self, plan: MovePlanRow) -> None:
        """Make a plan anew from where it stands, or end it: its goal is reached, or it makes no progress."""
        with self._database.reading() as session:
            now = session.execute(sa.select(models.utcnow())).scalar_one()
            if now < plan.next_plan_at or self._mover.unsettled(session, plan):
                return
            steps = plan_records.steps(session, plan.id, plan.generation)
            held = plan_records.held_by_others(session, plan.id)
            # Read again: a move may have ended in this round.
            standstill = models.age(now, plan_records.get(session, plan.id).progress_at) or 0.0
        has_progress = any(step.state == tables.MOVED for step in steps)
        if not has_progress and not self._is_within_hours(plan):
            return
        try:
            new_plan = self._new_plan(plan, held)
        except _WRONG_ARGUMENTS as error:
            self._end(plan, tables.FAILED, error.message)
            return
        if new_plan.is_reached and not new_plan.moves:
            self._end(plan, tables.FINISHED, new_plan.outcome)
            return
        obstacle = _obstacle(new_plan, steps)
        if not has_progress and self._possible(plan, standstill) > self._timeout:
            self._end(plan, tables.FAILED, f"no volume could be moved for {self._timeout:g} s: {obstacle}")
            return
        message = f"made anew with {new_plan.amount}: {obstacle}" if new_plan.moves else f"waits: {obstacle}"
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(plan.stalls, 10))
        try:
            added = self._database.run(plan_records.add_generation, plan.id, plan.generation, new_plan, message, pause)
        except errors.Conflict as error:
            # Another plan has taken the pool since the held ones were read: the next look reads them again.
            LOG.info("Plan %s (%s) is made anew once more: %s", plan.id, plan.summary, error.message)
            return
        if added and message != plan.message:
            LOG.info("Plan %s (%s): %s", plan.id, plan.summary, message)

    def _reached(self, plan: MovePlanRow) -> str | None:
        """Return the outcome of a plan whose goal is reached without the moves that are left; None without a look."""
        began = self._clocks.monotonic()
        if began < self._next_goal_look[plan.id]:
            return None
        with self._database.reading() as session:
            held = plan_records.held_by_others(session, plan.id)
        new_plan = self._new_plan(plan, held)
        ended = self._clocks.monotonic()
        self._next_goal_look[plan.id] = ended + max(_GOAL_LOOK, _GOAL_FACTOR * (ended - began))
        return new_plan.outcome if new_plan.is_reached and not new_plan.moves else None

    def _new_plan(self, plan: MovePlanRow, held: Mapping[str, str]) -> MovePlan:
        """Return a plan made anew. While that is impossible it is recorded that the plan waits, and why."""
        try:
            new_plan = self._planner.plan_beside(_query(plan), held)
        except errors.DatabaseUnreachable:
            raise
        except errors.Unavailable as error:
            if plan.message != (message := f"{_WAITS_FOR_PLAN}: {error.message}"):
                self._database.run(plan_records.tell, plan.id, message)
            raise
        if (plan.message or "").startswith(_WAITS_FOR_PLAN):
            self._database.run(plan_records.tell, plan.id, None)
        return new_plan

    def _possible(self, plan: MovePlanRow, seconds: float) -> float:
        """Return how many of the last ``seconds`` the plan could have used: within its hours, and with an executor
        that had the ledger and the system that moves volumes.
        """
        here = self._clocks.monotonic() - self._began[plan.id]
        hours = Hours.parse(plan_records.limits_of(plan).hours)
        within = hours.seconds_open(self._clocks.local())
        return min(seconds, here, seconds if within is None else within)

    def _end(self, plan: MovePlanRow, state: str, message: str) -> None:
        if self._database.run(plan_records.end, plan.id, state, message):
            level = logging.INFO if state == tables.FINISHED else logging.WARNING
            LOG.log(level, "Plan %s (%s) is %s: %s", plan.id, plan.summary, state, message)
            self._release(plan)

    def _release(self, plan: MovePlanRow) -> None:
        """Let other plans use the pools of a plan once its last move has ended, and announce its end."""
        if self._database.run(self._release_and_announce, plan.id):
            self._events.commit()

    def _release_and_announce(self, session: orm.Session, plan_id: str) -> bool:
        plan = plan_records.release(session, plan_id)
        if plan is None:
            return False
        self._events.write(session, plan_events.ended(plan, plan_progress.load(session, [plan])[plan.id]))
        return True


class _Selection:
    """The steps that may begin now, beside those that ``slots`` has, by the pools and volumes of the moment.

    ``chosen`` has the states of their volumes by their numbers, and ``messages`` say why others no longer hold, unless
    their rows say so already. It ``is_cut`` if the limits keep a step from both.
    """

    def __init__(self, planner: Planner, query: PlanQuery, slots: Slots) -> None:
        self.chosen: dict[int, Mapping[str, Any] | None] = {}
        self.messages: dict[int, str] = {}
        self.is_cut = False
        self._planner, self._query, self._slots = planner, query, slots
        self._model: PoolModel | None = None

    def add(self, ready: Sequence[MoveStepRow]) -> None:
        """Look at further steps, in their order."""
        allowed = [step for step in ready if self._slots.allow(_load(step))]
        self.is_cut = self.is_cut or len(allowed) < len(ready)
        if not allowed:
            return
        self._model = model = self._model or self._planner.model(self._query)
        volumes = self._planner.volumes(self._query).read([step.volume_id for step in allowed])
        for step in allowed:
            if not self._slots.allow(_load(step)):
                self.is_cut = True
                continue
            volume = volumes.get(step.volume_id)
            if volume is None:
                message = f"volume {step.volume_id} no longer exists"
            elif volume.pool != step.source:
                message = f"volume {step.volume_id} is in {volume.pool}"
            elif volume.size_gb != step.size_gb:
                message = f"volume {step.volume_id} has {volume.size_gb} GiB now"
            elif isinstance(placement := model.accepts(volume, step.target), str):
                message = placement
            else:
                # Its copy counts in the target from now on, and the source keeps its own until the end.
                model.copy(volume, placement)
                self._slots.take(_load(step))
                self.chosen[step.number] = volume.state
                continue
            if step.message != message:
                self.messages[step.number] = message


def _load(step: MoveStepRow) -> Load:
    return Load(step.source, step.target, step.size_gb)


def _query(plan: MovePlanRow) -> PlanQuery:
    return PlanQuery(goal=plan.goal, arguments=plan.arguments, options=plan.mover_options or {})


def _obstacle(plan: MovePlan, steps: Sequence[MoveStepRow]) -> str:
    """Return why the goal is not reached: the reasons of the steps that moved nothing, and of volumes that stay."""
    unmoved = [step for step in steps if step.state in (tables.WAITING, tables.SKIPPED, tables.STEP_FAILED)]
    reasons = [_of_volume(step.volume_id, step.message) for step in unmoved if step.message]
    if not plan.is_reached:
        staying = (_of_volume(volume.volume_id, volume.reason) for volume in plan.staying)
        reasons = [plan.outcome, *staying, *reasons]
    if not reasons:
        return "volumes have come since"
    rest = len(reasons) - _MOST_REASONS
    return "; ".join(reasons[:_MOST_REASONS]) + (f"; and {rest} more" if rest > 0 else "")


def _of_volume(volume_id: str, reason: str) -> str:
    """Return the reason why a volume stays, with its id once."""
    return reason if reason.startswith(f"volume {volume_id} ") else f"volume {volume_id}: {reason}"
