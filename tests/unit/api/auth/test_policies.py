# SPDX-License-Identifier: Apache-2.0
"""The policy rules of the core and of extensions."""

import os
from typing import Any

import pytest
from oslo_context.context import RequestContext

from tests.unit.api.cluster import Cluster, configuration
from tonnage.api.auth import policies
from tonnage.api.auth.enforcement import Policy


def test_rules_are_documented_and_have_the_names_of_cinder() -> None:
    rules = {rule.name: rule for rule in policies.list_rules()}
    assert len(rules) == len(policies.list_rules())
    for name in (
        "scheduler_extension:scheduler_stats:get_pools",
        "volume_extension:services:index",
        "volume_extension:type_create",
        "volume_extension:types_extra_specs:create",
        "volume:create",
        "volume:extend",
        "volume:delete",
    ):
        assert name in rules
    assert all(rule.description for rule in rules.values())


def test_operators_can_change_rules(cluster: Cluster, project: str, tmp_path: Any) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text('"scheduler_extension:scheduler_stats:get_pools": "role:reader"\n')
    conf_file = tmp_path / "tonnage.conf"
    conf_file.write_text(f"[oslo_policy]\npolicy_file = {rules}\n")
    reader = cluster.client("reader", project=project, files=[str(conf_file)])
    assert reader.simulate_get("/v3/scheduler-stats/get_pools").status_code == 200
    rules.write_text('"scheduler_extension:scheduler_stats:get_pools": "role:admin"\n')
    later = rules.stat().st_mtime + 5
    os.utime(rules, (later, later))
    assert reader.simulate_get("/v3/scheduler-stats/get_pools").status_code == 403, "from the next request on"


def identity(*roles: str) -> RequestContext:
    return RequestContext(user_id="u", project_id="p", roles=list(roles), overwrite=False)


@pytest.mark.parametrize(
    ("rule", "roles", "own", "others"),
    [
        (policies.VOLUME_CREATE, ("member", "reader"), True, False),
        (policies.VOLUME_CREATE, ("reader",), False, False),
        (policies.VOLUME_GET, ("reader",), True, False),
        (policies.VOLUME_GET, ("stranger",), False, False),
        (policies.VOLUME_MIGRATE, ("member", "reader"), False, False),
        (policies.VOLUME_MIGRATE, ("admin",), True, True),
        (policies.VOLUME_GET, ("admin",), True, True),
        (policies.IS_ADMIN, ("member",), False, False),
    ],
)
def test_a_role_counts_in_the_own_project_and_an_administrator_in_all(
    rule: str, roles: tuple[str, ...], own: bool, others: bool
) -> None:
    policy = Policy(configuration())
    assert policy.allows(identity(*roles), rule, "p") is own
    assert policy.allows(identity(*roles), rule, "q") is others


def test_the_rules_of_an_extension_exist_while_it_is_enabled() -> None:
    def names(*extensions: str) -> set[str]:
        return {str(rule.name) for rule in policies.enabled_rules(configuration(enabled_extensions=extensions))}

    assert names("kubernetes") - names() == {
        f"csi:{name}" for name in ("get_all_drivers", "get_driver", "update_driver", "delete_driver", "fit", "claim")
    }
    assert names() <= names("kubernetes")


def test_a_rule_of_two_extensions_is_one_rule_with_the_calls_of_both() -> None:
    rules = policies.enabled_rules(configuration(enabled_extensions=("page", "history")))
    by_operation = policies.by_operation(rules)
    assert len([rule for rule in rules if rule.name == "capacity:overview"]) == 1
    for path in ("/capacity-overview/pools", "/capacity-overview/forecasts"):
        assert by_operation["GET", path] == ["capacity:overview"]
    alone = policies.by_operation(policies.enabled_rules(configuration(enabled_extensions=("page",))))
    assert ("GET", "/capacity-overview/forecasts") not in alone


def test_a_call_may_have_several_rules() -> None:
    """Which of them counts depends on the body."""
    rules = [policies.rule(name, policies.ADMIN, "d", "POST /x", "GET /x") for name in ("a", "b")]
    assert policies.by_operation(rules) == {("POST", "/x"): ["a", "b"], ("GET", "/x"): ["a", "b"]}


@pytest.mark.parametrize("call", ["GET", "GET /x /y", ""])
def test_a_call_is_a_method_and_a_path(call: str) -> None:
    with pytest.raises(ValueError, match="unpack"):
        policies.rule("a", policies.ADMIN, "d", call)
