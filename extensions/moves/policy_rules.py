# SPDX-License-Identifier: Apache-2.0
"""The policy rules of plans."""

from oslo_policy import policy

from tonnage.api.auth import policies

PLAN_MOVES = "capacity:plan_moves"
GET_PLANS = "capacity:get_move_plans"
APPLY_PLANS = "capacity:apply_move_plans"


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rules."""
    plans, plan = "/move-plans", "/move-plans/{plan_id}"
    return [
        policies.rule(PLAN_MOVES, policies.ADMIN, "Plan moves of volumes.", f"POST {plans}"),
        policies.rule(
            GET_PLANS, policies.ADMIN, "See the plans that are or were carried out.", f"GET {plans}", f"GET {plan}"
        ),
        policies.rule(
            APPLY_PLANS,
            policies.ADMIN,
            "Start plans, pause, resume and stop them.",
            f"POST {plans}",
            f"POST {plan}/action",
        ),
    ]
