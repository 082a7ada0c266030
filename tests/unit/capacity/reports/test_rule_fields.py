# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from tonnage.capacity.reports import rule_fields


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (
            "filter_function",
            "volume.size < 5)",
            "filter_function 'volume.size < 5)' has ')' at character 16, where it does not belong; DriverFilter "
            "excludes the pool",
        ),
        ("filter_function", ["x"], "filter_function ['x'] has "),
        (
            "filter_function",
            "volum.siz < 3",
            "filter_function 'volum.siz < 3' has volum.siz (is it volume.size?), and there is no such name; "
            "DriverFilter excludes the pool where the result depends on that",
        ),
        (
            "goodness_function",
            "volume.colour == red ? stats.free_gb : other.thing",
            "goodness_function 'volume.colour == red ? stats.free_gb : other.thing' has volume.colour, stats.free_gb, "
            "other.thing, and there is no such name; GoodnessWeigher counts the pool as poor where",
        ),
        ("goodness_function", "50 +", "goodness_function '50 +' ends where something is missing; GoodnessWeigher"),
        (
            "min_free_capacity_percentage",
            101,
            "min_free_capacity_percentage is 101, no percentage from 0 to 100; FreeSpaceFilter excludes the pool",
        ),
        ("min_free_capacity_extend_percentage", "much", "min_free_capacity_extend_percentage is 'much', no percentage"),
        ("min_free_capacity_percentage", 10**400, "min_free_capacity_percentage is 1000"),
        ("node_topology", {"terms": []}, "node_topology cannot be read: Object "),
        ("node_topology", "zone=z1", "node_topology cannot be read: Expected `object | null`, got `str`"),
        ("node_list", ["n1", "n1"], "node_list cannot be read: node_list names a node twice"),
        ("node_name", "", "node_name cannot be read: Expected `str"),
        ("topology_labels", {"": "z"}, "topology_labels cannot be read: "),
    ],
)
def test_a_value_that_no_plugin_can_read_is_named_with_its_effect(field: str, value: Any, text: str) -> None:
    [(unreadable_field, problem)] = rule_fields.unreadable({"pool_name": "gold", field: value})
    assert unreadable_field == field
    assert problem.startswith(text)
    assert problem.isprintable()
    assert len(problem) < 600


@pytest.mark.parametrize(
    "pool",
    [
        {},
        {"filter_function": None, "goodness_function": None, "node_topology": None},
        {"filter_function": "volume.size < 5", "goodness_function": "volume.size * 2"},
        {"filter_function": "capabilities.a.b == qos.x or extra.y == 1 or stats.storage_protocol == nfs"},
        {"filter_function": "volume.operation == extend ? stats.in_flight_capacity_gb < 5 : stats.host == word"},
        {"min_free_capacity_percentage": "12.5", "min_free_capacity_extend_percentage": 0},
        {"node_name": "n1", "topology_labels": {"zone": "z1"}},
        {"node_topology": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}},
    ],
)
def test_readable_rules_are_not_named(pool: dict[str, Any]) -> None:
    assert list(rule_fields.unreadable(pool)) == []


@pytest.mark.parametrize(("value", "percentage"), [(0, 0), (100, 100), ("12.5", 12.5), (7.5, 7.5)])
def test_a_percentage_may_be_a_text(value: object, percentage: float) -> None:
    assert rule_fields.percentage(value) == percentage


@pytest.mark.parametrize("value", [-1, 101, True, "", None, [], float("nan"), 10**400])
def test_any_other_value_is_no_percentage(value: object) -> None:
    assert str(rule_fields.percentage(value)) == "nan"
