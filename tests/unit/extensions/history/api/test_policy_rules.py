# SPDX-License-Identifier: Apache-2.0
"""The policy rule of the history."""

from oslo_context.context import RequestContext

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api.auth.enforcement import Policy
from tonnage.extensions.history.api import policy_rules


def test_only_administrators_see_figures_of_all_projects() -> None:
    policy = Policy(configuration(enabled_extensions=["history"]))
    for roles, allowed in ((["reader"], False), (["member", "reader"], False), (["admin"], True)):
        identity = RequestContext(user_id="u", project_id="p", roles=roles, overwrite=False)
        assert policy.allows(identity, policy_rules.CAPACITY_OVERVIEW) is allowed


def test_each_call_of_the_extension_has_the_rule(cluster: Cluster, project: str) -> None:
    calls = [operation["path"] for rule in policy_rules.list_rules() for operation in rule.operations]
    assert len(calls) == 3
    member: Client = cluster.client("member", "reader", project=project, enabled_extensions=["history"])
    for path in calls:
        assert member.simulate_get(f"/v3{path}").status_code == 403
