# SPDX-License-Identifier: Apache-2.0
"""The policy rule of plans."""

from oslo_policy import policy

from tonnage.api.auth import policies

PLAN_MOVES = "capacity:plan_moves"


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rule."""
    return [policies.rule(PLAN_MOVES, policies.ADMIN, "Plan moves of volumes.", "POST /move-plans")]
