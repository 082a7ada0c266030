# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for plans, and of plans. Capacities are GiB."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import orm

from tonnage.api.http.cached_answers import text_of_time
from tonnage.api.schemas import response_bodies
from tonnage.api.schemas.fields import Body, Key, Scalar
from tonnage.capacity import type_conversion
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.records import plan_details, plan_limits, plan_progress, plan_records, tables
from tonnage.extensions.moves.records.hours import Hours
from tonnage.extensions.moves.records.plan_progress import Progress
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow

T = TypeVar("T")

#: The mover of Tonnage's own volumes in bodies; rows have an empty name.
_OWN_MOVER = "tonnage"

_Number: TypeAlias = Annotated[int, Meta(ge=1, le=plan_limits.LARGEST)]


class HoursOfDay(str):
    """Hours of the day in which moves begin, such as ``22-06``."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": "^(([01]?[0-9]|2[0-3])-([01]?[0-9]|2[0-4]))?$",
    }

    @classmethod
    def parse(cls, value: Any) -> "HoursOfDay":
        """Return the hours. Raises :class:`ValueError` for others."""
        if not isinstance(value, str) or not Hours.is_valid(value):
            raise ValueError(f"expected {Hours.EXPECTED}")
        return cls(value)


class NewLimits(Body, omit_defaults=True):
    """The limits of a plan that differ from the options of the section ``moves``; the page about moves has them."""

    moves_per_backend: _Number | UnsetType = UNSET
    moves: _Number | UnsetType = UNSET
    in_flight_gb: Annotated[int, Meta(ge=0, le=plan_limits.LARGEST)] | UnsetType = UNSET
    hours: HoursOfDay | UnsetType = UNSET
    failures: _Number | UnsetType = UNSET


def _arguments() -> str:
    """Return the arguments of the installed goals in words."""
    goals = ((name, goal_loader.find(name).arguments) for name in goal_loader.names())
    return "; ".join(f"{name} takes {', '.join(argument.name for argument in declared)}" for name, declared in goals)


class NewPlan(Body):
    """The name of a goal, and its arguments; the page about moves has them.

    Since 3.73 the plan is carried out if ``apply`` is true, within ``limits``.
    """

    goal: Key
    arguments: Annotated[dict[Key, Scalar | list[Scalar]], Meta(description=_arguments())] = msgspec.field(
        default_factory=dict
    )
    apply: bool | UnsetType = UNSET
    limits: NewLimits | UnsetType = UNSET


class CreatePlan(Body):
    """``POST /move-plans``."""

    move_plan: NewPlan


class PoolLevel(Struct, kw_only=True):
    """The promised and the physically used GiB of a pool, and their bounds; null is unknown or infinite."""

    promised_gb: float
    promise_limit_gb: float | None
    used_gb: float | None
    physical_limit_gb: float | None


class PlannedMove(Struct, kw_only=True):
    """One move. It runs ``after`` the moves with these numbers, and the levels are those when it has ended."""

    number: int
    volume_id: str
    size_gb: int
    source: str
    target: str
    reason: str
    after: list[int]
    source_level: PoolLevel
    target_level: PoolLevel


class StayingVolume(Struct, kw_only=True):
    """A volume that the goal would move, and the reason why it stays in its pool."""

    volume_id: str
    size_gb: int
    pool: str
    reason: str


class PoolChange(Struct, kw_only=True):
    """The levels of a pool before the moves of a plan and after them.

    ``after`` is null for a pool that a plan which was made anew does not use any more.
    """

    pool: str
    before: PoolLevel
    after: PoolLevel | None


class Plan(Struct, kw_only=True):
    """A plan: the goal and the outcome in words, the moves in their order, and the volumes that stay.

    ``id`` is that of a plan that is carried out, null for one without moves. ``seconds`` is an estimate of the time, by
    earlier moves between the same backends, null without one; ``pools`` are those that the moves change. Both are there
    since 3.73.
    """

    id: str | UnsetType | None = UNSET
    goal: str
    is_reached: bool
    outcome: str
    moved_gb: int
    seconds: float | UnsetType | None = UNSET
    moves: list[PlannedMove]
    staying: list[StayingVolume]
    pools: list[PoolChange] | UnsetType = UNSET


class PlanResponse(Struct):
    """A plan."""

    move_plan: Plan


class Step(Struct, kw_only=True):
    """A move of a plan that is or was carried out. It begins after the moves with the numbers in ``after``.

    ``state`` is ``waiting``, ``moving``, ``moved``, ``failed`` or ``skipped``: such a move no longer held when its turn
    came, or is no longer needed. ``message`` is the reason why it waits, has failed or was skipped, and ``generation``
    counts how often the plan was made. The levels are the planned ones when the move has ended, null for a plan of an
    earlier release.
    """

    number: int
    generation: int
    volume_id: str
    size_gb: int
    source: str
    target: str
    after: list[int]
    reason: str
    state: str
    message: str | None
    source_level: PoolLevel | None
    target_level: PoolLevel | None
    started_at: str | None
    ended_at: str | None


class AppliedPlan(Struct, kw_only=True):
    """A plan that is or was carried out, and the administrator who started it.

    ``state`` is ``running``, ``paused``, ``stopped``, ``finished`` or ``failed``; ``message`` is the reason why it
    waits or has ended. ``outcome`` and ``is_reached`` are those of the plan when it was made last, null for one of an
    earlier release. ``moves`` and ``size_gb`` are those that have ended or are to come, and after the end those that
    were left; skipped ones do not count. ``moved`` and ``moved_gb`` are the part that is done; ``moving`` and
    ``failed`` are numbers of moves. ``seconds_left`` is an estimate by earlier moves between the same backends, null
    without one. ``mover`` is ``tonnage`` for its own volumes, and ``cinder`` for the volumes of an OpenStack cloud.

    ``steps``, the volumes that stay (at most 1000 of them), and the levels of the ``pools`` before and after the plan
    are shown with a single plan.
    """

    id: str
    goal: str
    goal_name: str
    arguments: dict[str, Any]
    limits: dict[str, Any]
    state: str
    message: str | None
    outcome: str | None
    is_reached: bool | None
    project_id: str
    user_id: str
    mover: str
    generation: int
    moves: int
    size_gb: int
    moved: int
    moved_gb: int
    moving: int
    failed: int
    seconds_left: float | None
    created_at: str
    ended_at: str | None
    steps: list[Step] | UnsetType = UNSET
    staying: list[StayingVolume] | UnsetType = UNSET
    pools: list[PoolChange] | UnsetType = UNSET


class AppliedPlanResponse(Struct):
    """A plan that is or was carried out."""

    move_plan: AppliedPlan


class AppliedPlans(Struct):
    """A page of plans, the newest first."""

    move_plans: list[AppliedPlan]
    move_plans_links: list[response_bodies.Link] | UnsetType = UNSET


class NoArguments(Body):
    """The arguments of an action that has none."""


#: The actions of ``POST /move-plans/{plan_id}/action`` with the types of their arguments.
PLAN_ACTIONS: Mapping[str, Any] = dict.fromkeys(("pause", "resume", "stop"), NoArguments | None)


def plan_body(plan: MovePlan, *, is_newest: bool = True) -> Plan:
    """Return the body of a plan; unless ``is_newest`` is true without what 3.73 has added."""
    body = type_conversion.convert(msgspec.to_builtins(plan) | {"moved_gb": plan.moved_gb}, Plan)
    body.seconds = _rounded(plan.seconds)
    if not is_newest:
        body.seconds = body.pools = UNSET
    return body


def single_plan_body(session: orm.Session, plan_id: str, most_steps: int | None = None) -> AppliedPlan:
    """Return the body of a plan that is or was carried out, with its details, and all its steps or some of them.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    plan = plan_records.get(session, plan_id)
    body = applied_plan_body(plan, plan_progress.load(session, [plan])[plan.id])
    if most_steps is None:
        steps = plan_records.steps(session, plan.id, with_levels=True)
    else:
        steps = plan_records.some_steps(session, plan.id, most_steps)
    body.steps = [_step_body(step) for step in steps]
    body.staying = _converted(plan_details.staying(session, plan.id), StayingVolume)
    body.pools = _converted(plan_details.pools(session, plan.id), PoolChange)
    return body


def _converted(objects: Sequence[Any], target_type: type[T]) -> list[T]:
    return [type_conversion.convert(msgspec.to_builtins(value), target_type) for value in objects]


def applied_plan_body(plan: MovePlanRow, progress: Progress) -> AppliedPlan:
    """Return the body of a plan that is or was carried out, without its details."""
    total = progress.of(tables.WAITING, tables.MOVING, tables.MOVED, tables.STEP_FAILED, tables.REMAINING)
    moved = progress.of(tables.MOVED)
    return AppliedPlan(
        id=plan.id,
        goal=plan.summary,
        goal_name=plan.goal,
        arguments=plan.arguments,
        limits=plan.limits,
        state=plan.state,
        message=plan.message,
        outcome=plan.outcome,
        is_reached=plan.is_reached,
        project_id=plan.project_id,
        user_id=plan.user_id,
        mover=plan.mover or _OWN_MOVER,
        generation=plan.generation,
        moves=total.moves,
        size_gb=total.size_gb,
        moved=moved.moves,
        moved_gb=moved.size_gb,
        moving=progress.of(tables.MOVING).moves,
        failed=progress.of(tables.STEP_FAILED).moves,
        seconds_left=_rounded(progress.seconds_left),
        created_at=text_of_time(plan.created_at) or "",
        ended_at=text_of_time(plan.ended_at),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _step_body(step: MoveStepRow) -> Step:
    return Step(
        number=step.number,
        generation=step.generation,
        volume_id=step.volume_id,
        size_gb=step.size_gb,
        source=step.source,
        target=step.target,
        after=step.after,
        reason=step.reason,
        state=step.state,
        message=step.message,
        source_level=_level_body(step.source_level),
        target_level=_level_body(step.target_level),
        started_at=text_of_time(step.started_at),
        ended_at=text_of_time(step.ended_at),
    )


def _level_body(values: Mapping[str, Any] | None) -> PoolLevel | None:
    return None if values is None else type_conversion.convert(values, PoolLevel)
