# SPDX-License-Identifier: Apache-2.0
"""The policy rule of the page's figures."""

from oslo_policy import policy

from tonnage.api.auth import policies

CAPACITY_OVERVIEW = "capacity:overview"


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rule. The extension ``history`` uses it too."""
    parts = ("backends", "fill", "ledger", "pool", "pools", "refusals", "type", "types")
    calls = ["GET /capacity-overview", *(f"GET /capacity-overview/{part}" for part in parts)]
    return [policies.rule(CAPACITY_OVERVIEW, policies.ADMIN, "See the figures of the web page.", *calls)]
