# SPDX-License-Identifier: Apache-2.0
"""The accessibility that pools report."""

from typing import Any

import pytest

from tonnage.capacity.topology import accessibility
from tonnage.capacity.topology.accessibility import InvalidAccessibility
from tonnage.capacity.topology.requirements import RequiredTopologies, TopologyRequirement

SELECTOR = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "NotIn", "values": ["z1", "z2"]},
                {"key": "rack", "operator": "Gt", "values": ["3"]},
                {"key": "cold", "operator": "DoesNotExist"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]},
    ]
}


@pytest.mark.parametrize(
    ("capabilities", "for_node", "for_topology"),
    [
        ({"node_name": "n1"}, "node n1", "node n1"),
        ({"node_name": "n1", "topology_labels": {"zone": "z1"}}, "node n1", "nodes with zone=z1"),
        ({"node_list": ["n1", "n2", "n3", "n4"]}, *["nodes n1, n2, n3 and 1 more"] * 2),
        ({"topology_labels": {"zone": "z1", "rack": "r3"}}, *["nodes with rack=r3, zone=z1"] * 2),
        (
            {"node_topology": SELECTOR},
            *["nodes with zone not in (z1, z2), rack > 3, no cold, or metadata.name = n9"] * 2,
        ),
    ],
)
def test_reported_accessibility_is_parsed(capabilities: dict[str, Any], for_node: str, for_topology: str) -> None:
    assert str(accessibility.parse_for_node(capabilities)) == for_node
    assert str(accessibility.parse_for_topology(capabilities)) == for_topology


@pytest.mark.parametrize(
    ("capabilities", "problem"),
    [
        ({"node_name": ""}, "$.node_name"),
        ({"node_list": []}, "$.node_list"),
        ({"node_list": ["n1", "n1"]}, "names a node twice"),
        ({"topology_labels": ["zone"]}, "$.topology_labels"),
        ({"node_topology": {"nodeSelectorTerms": []}}, "expected at least one term"),
    ],
)
def test_malformed_accessibility_matches_no_topology(capabilities: dict[str, Any], problem: str) -> None:
    for reached in (accessibility.parse_for_node(capabilities), accessibility.parse_for_topology(capabilities)):
        assert isinstance(reached, InvalidAccessibility)
        assert problem in reached.problem
        assert list(reached.accessible_from(RequiredTopologies(TopologyRequirement("n1", ())))) == []
