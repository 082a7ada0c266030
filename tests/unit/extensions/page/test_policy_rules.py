# SPDX-License-Identifier: Apache-2.0
"""The policy rule of the page's figures."""

from tests.unit.api.cluster import Client
from tonnage.extensions.history.api import policy_rules as history_rules
from tonnage.extensions.page import policy_rules


def test_members_see_none_of_the_figures_and_administrators_may(client: Client, member: Client) -> None:
    [rule] = policy_rules.list_rules()
    paths = [f"/v3{operation['path']}" for operation in rule.operations]
    assert len(paths) == 9
    for path in paths:
        assert member.simulate_get(path).status_code == 403
        assert client.simulate_get(path).status_code != 403


def test_the_rule_is_that_of_the_history() -> None:
    """An operator who changes it changes it for both."""
    [rule], [other] = policy_rules.list_rules(), history_rules.list_rules()
    assert (rule.name, rule.check_str, rule.description) == (other.name, other.check_str, other.description)
