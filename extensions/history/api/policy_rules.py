# SPDX-License-Identifier: Apache-2.0
"""The policy rule of the history and of forecasts."""

from oslo_policy import policy

from tonnage.api.auth import policies

CAPACITY_OVERVIEW = "capacity:overview"


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rule. The extension ``page`` uses it too."""
    calls = [f"GET /capacity-overview/{part}" for part in ("coming-refusals", "forecasts", "history")]
    return [policies.rule(CAPACITY_OVERVIEW, policies.ADMIN, "See the figures of the web page.", *calls)]
