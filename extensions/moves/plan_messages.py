# SPDX-License-Identifier: Apache-2.0
"""The RPC method of the extension."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.rpc.contract import Delivery, Method


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery:
    """A question for a plan: the name of a goal, and its arguments."""

    goal: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


PLAN_MOVES = Method("plan_moves", PlanQuery, MovePlan, "a plan of moves for a goal", Delivery.SINGLE_CALL)
