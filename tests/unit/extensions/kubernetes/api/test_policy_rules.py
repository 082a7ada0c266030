# SPDX-License-Identifier: Apache-2.0
"""The policy rules of clusters: they are for administrators."""

import pytest
from oslo_context.context import RequestContext

from tests.unit.api.cluster import Client, configuration
from tonnage.api.auth.enforcement import Policy
from tonnage.extensions.kubernetes.api import policy_rules

RULES = (
    policy_rules.GET_ALL,
    policy_rules.GET,
    policy_rules.UPDATE,
    policy_rules.DELETE,
    policy_rules.FIT,
    policy_rules.CLAIM,
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(configuration(enabled_extensions=["kubernetes"]))


@pytest.mark.parametrize("rule", RULES)
def test_a_member_is_denied_and_an_administrator_allowed(policy: Policy, rule: str) -> None:
    for roles, allowed in ((["member", "reader"], False), (["admin"], True)):
        identity = RequestContext(user_id="u", project_id="p", roles=roles, overwrite=False)
        assert policy.allows(identity, rule) is allowed


def test_each_rule_is_listed_once() -> None:
    assert sorted(str(rule.name) for rule in policy_rules.list_rules()) == sorted(RULES)


def test_each_call_is_refused_to_members(member: Client) -> None:
    for rule in policy_rules.list_rules():
        for operation in rule.operations:
            path = operation["path"].format(driver="csi.example.org", holder="h")
            answer = member.simulate_request(operation["method"], f"/v3{path}", json={})
            assert answer.status_code == 403, (operation, answer.text)
