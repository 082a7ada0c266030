# SPDX-License-Identifier: Apache-2.0
"""The policy rule of plans."""

from tonnage.api.auth import policies
from tonnage.extensions.moves import policy_rules


def test_plans_are_for_administrators() -> None:
    [rule] = policy_rules.list_rules()
    assert (rule.name, rule.check_str) == ("capacity:plan_moves", policies.ADMIN)
    assert [operation["path"] for operation in rule.operations] == ["/move-plans"]
