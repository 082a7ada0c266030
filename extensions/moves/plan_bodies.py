# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for plans, and of plans. Capacities are GiB."""

import msgspec
from msgspec import Struct

from tonnage.api.schemas.fields import Body, Key, Scalar
from tonnage.capacity import type_conversion
from tonnage.extensions.moves.planning.plan import MovePlan


class NewPlan(Body):
    """The name of a goal, and its arguments; the page about moves has them."""

    goal: Key
    arguments: dict[Key, Scalar | list[Scalar]] = msgspec.field(default_factory=dict)


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


class Plan(Struct, kw_only=True):
    """A plan: the goal and the outcome in words, the moves in their order, and the volumes that stay."""

    goal: str
    is_reached: bool
    outcome: str
    moved_gb: int
    moves: list[PlannedMove]
    staying: list[StayingVolume]


class PlanResponse(Struct):
    """A plan."""

    move_plan: Plan


def plan_body(plan: MovePlan) -> Plan:
    """Return the body of a plan."""
    return type_conversion.convert(msgspec.to_builtins(plan) | {"moved_gb": plan.moved_gb}, Plan)
