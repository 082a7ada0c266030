# SPDX-License-Identifier: Apache-2.0
"""From where pools are reached."""

from typing import Any

import pytest

from tonnage.capacity.topology import accessibility
from tonnage.capacity.topology.accessibility import Unclear
from tonnage.capacity.topology.requirements import Needed, Places

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
def test_from_where_pools_are_reached(capabilities: dict[str, Any], for_node: str, for_topology: str) -> None:
    assert str(accessibility.for_node(capabilities)) == for_node
    assert str(accessibility.for_topology(capabilities)) == for_topology


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
def test_what_pools_report_and_cannot_mean(capabilities: dict[str, Any], problem: str) -> None:
    for reached in (accessibility.for_node(capabilities), accessibility.for_topology(capabilities)):
        assert isinstance(reached, Unclear)
        assert problem in reached.problem
        assert list(reached.within(Places(Needed("n1", ())))) == []
