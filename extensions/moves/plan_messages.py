# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of the extension."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.rpc.contract import Delivery, Method


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPlan:
    """A request to make a plan and to carry it out, under the id ``plan_id``.

    ``limits`` are those that differ from the options. ``project_id`` and ``user_id`` are those of the administrator.
    """

    plan_id: str
    query: PlanQuery
    limits: Mapping[str, Any] = field(default_factory=dict)
    project_id: str = ""
    user_id: str = ""


PLAN_MOVES = Method("plan_moves", PlanQuery, MovePlan, "a plan of moves for a goal", Delivery.SINGLE_CALL)
APPLY_MOVES = Method(
    "apply_moves", ApplyPlan, MovePlan, "a plan that is carried out unless it has no moves", Delivery.SINGLE_CALL
)
