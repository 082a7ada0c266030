# SPDX-License-Identifier: Apache-2.0
"""Topology requirements in scheduler hints."""

import json
from typing import Any

import pytest

from tonnage.capacity.topology import requirements
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.capacity.topology.requirements import HintError, RequiredTopologies, TopologyRequirement

ZONES = {"requisite": [{"segments": {"zone": "z1", "rack": "r3"}}, {"segments": {"zone": "z2"}}]}


@pytest.mark.parametrize(
    ("hints", "text"),
    [
        ({"query": "[]"}, "None"),
        ({"node_name": ""}, "None"),
        ({"node_name": None, "accessibility_requirements": {}}, "None"),
        ({"accessibility_requirements": {"preferred": [{"segments": {"zone": "z1"}}]}}, "None"),
        ({"node_name": "n1"}, "node n1"),
        ({"accessibility_requirements": ZONES}, "nodes with rack=r3, zone=z1 or nodes with zone=z2"),
        ({"accessibility_requirements": json.dumps(ZONES)}, "nodes with rack=r3, zone=z1 or nodes with zone=z2"),
        (
            {"node_name": "n1", "accessibility_requirements": {"requisite": [{"segments": {"zone": "z2"}}]}},
            "node n1 with zone=z2",
        ),
    ],
)
def test_hints_are_parsed(hints: dict[str, Any], text: str) -> None:
    assert str(requirements.parse_hints(hints)) == text


@pytest.mark.parametrize(
    ("hints", "problem"),
    [
        ({"node_name": 7}, "'7' is no name of a node"),
        ({"node_name": 0}, "'0' is no name of a node"),
        ({"accessibility_requirements": False}, "Expected `object`, got `bool`"),
        ({"accessibility_requirements": "\ud800"}, "surrogates not allowed"),
        ({"node_name": "n" * 254}, "is no name of a node"),
        ({"accessibility_requirements": "zone=z1"}, "expected {"),
        ({"accessibility_requirements": {"requisite": [{"segments": {}}]}}, "length >= 1"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"": "z1"}}]}}, "length >= 1"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"zone": 1}}]}}, r"Expected `str`, got `int`"),
        ({"accessibility_requirements": {"required": []}}, "unknown field `required`"),
        ({"accessibility_requirements": [ZONES]}, "Expected `object`"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"zone": "z1"}}] * 1001}}, "length <= 1000"),
        ({"accessibility_requirements": {"preferred": [{"segments": {"zone": "z1"}}] * 1001}}, "length <= 1000"),
        ({"accessibility_requirements": {"preferred": [{"segments": {"zone": 1}}]}}, r"Expected `str`, got `int`"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"zone": "z" * 64}}]}}, "length <= 63"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"z" * 318: "z1"}}]}}, "length <= 317"),
        (
            {"accessibility_requirements": {"requisite": [{"segments": dict.fromkeys(map(str, range(101)), "")}]}},
            "length <= 100",
        ),
    ],
)
def test_malformed_hints_raise(hints: dict[str, Any], problem: str) -> None:
    with pytest.raises(HintError, match=problem) as caught:
        requirements.parse_hints(hints)
    assert caught.value.hint in hints


def test_preferences_are_parsed_in_their_order() -> None:
    preferred = [{"segments": {"zone": "z2"}}, {"segments": {"zone": "z1", "rack": "r3"}}]
    hints = {"node_name": "n1", "accessibility_requirements": {**ZONES, "preferred": preferred}}
    preferences = requirements.parse_preferences(hints)
    assert preferences == TopologyRequirement("n1", ((("zone", "z2"),), (("rack", "r3"), ("zone", "z1"))))
    for nothing in ({}, {"node_name": "n1"}, {"accessibility_requirements": ZONES}):
        assert requirements.parse_preferences(nothing) is None


def test_the_first_topology_that_a_selector_matches_counts() -> None:
    required = RequiredTopologies(TopologyRequirement(None, tuple((("host", name),) for name in "cba")))
    either = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("host", Operator.IN, ("a", "b")),)),))
    assert required.first_match(either) == 1
    several = NodeSelector(
        tuple(NodeSelectorTerm((NodeSelectorRequirement("host", Operator.IN, (name,)),)) for name in "ac")
    )
    assert required.first_match(several) == 0
    unlike = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("host", Operator.NOT_IN, ("c",)),)),))
    assert required.first_match(unlike) == 1


def test_a_requirement_with_many_labels_has_a_short_text() -> None:
    many = {f"k{number:02}": "v" for number in range(100)}
    needed = requirements.parse_hints({"accessibility_requirements": {"requisite": [{"segments": many}]}})
    assert str(needed) == "nodes with k00=v, k01=v, k02=v and 97 more"


def test_selectors_are_matched_through_the_label_index() -> None:
    """Comparing a thousand topologies with as many selectors would block a scheduler for seconds."""
    lookups = 0

    class Labels(dict[str, str]):
        def get(self, *args: Any) -> Any:
            nonlocal lookups
            lookups += 1
            return super().get(*args)

    required = RequiredTopologies(TopologyRequirement(None, tuple((("host", f"n{number}"),) for number in range(1000))))
    required.labels = [Labels(each) for each in required.labels]
    selectors = [
        NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("host", Operator.IN, (f"n{number}",)),)),))
        for number in range(500, 1500)
    ]
    assert [required.first_match(selector) for selector in selectors] == [*range(500, 1000), *[None] * 500]
    assert lookups == 500


def test_a_long_requirement_is_parsed_once() -> None:
    """A joint fit parses it thousands of times while other requests wait: 65 KB took four seconds."""
    requisite = [{"segments": {"zone": f"z{number}", "rack": "r" * 40}} for number in range(500)]
    for hints in (
        {requirements.REQUIREMENTS: {"requisite": requisite}},
        {requirements.REQUIREMENTS: {"requisite": requisite[1:]}},
    ):
        parsed = [needed for _ in range(20) if (needed := requirements.parse_hints(hints))]
        assert len({needed.digest for needed in parsed}) == len({id(needed.topologies) for needed in parsed}) == 1
