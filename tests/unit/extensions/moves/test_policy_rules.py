# SPDX-License-Identifier: Apache-2.0
"""The policy rule of plans."""

from tonnage.api.auth import policies
from tonnage.extensions.moves import policy_rules


def test_plans_are_for_administrators() -> None:
    rules = {rule.name: rule for rule in policy_rules.list_rules()}
    assert {rule.check_str for rule in rules.values()} == {policies.ADMIN}
    assert [operation["path"] for operation in rules["capacity:plan_moves"].operations] == ["/move-plans"]
    assert [operation["path"] for operation in rules["capacity:apply_move_plans"].operations] == [
        "/move-plans",
        "/move-plans/{plan_id}/action",
    ]
    assert {operation["method"] for operation in rules["capacity:get_move_plans"].operations} == {"GET"}
