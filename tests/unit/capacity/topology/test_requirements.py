# SPDX-License-Identifier: Apache-2.0
"""Where volumes are needed."""

import json
from typing import Any

import pytest

from tonnage.capacity import type_conversion
from tonnage.capacity.topology import requirements
from tonnage.capacity.topology.node_selectors import NodeSelector, Operator, Requirement, Term
from tonnage.capacity.topology.requirements import HintError, Needed, Places

ZONES = {"requisite": [{"segments": {"zone": "z1", "rack": "r3"}}, {"segments": {"zone": "z2"}}]}


@pytest.mark.parametrize(
    ("hints", "said"),
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
def test_what_hints_say(hints: dict[str, Any], said: str) -> None:
    assert str(requirements.needed(hints)) == said


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
        ({"accessibility_requirements": {"requisite": [{"segments": {"zone": "z" * 64}}]}}, "length <= 63"),
        ({"accessibility_requirements": {"requisite": [{"segments": {"z" * 318: "z1"}}]}}, "length <= 317"),
        (
            {"accessibility_requirements": {"requisite": [{"segments": dict.fromkeys(map(str, range(101)), "")}]}},
            "length <= 100",
        ),
    ],
)
def test_what_cannot_be_meant(hints: dict[str, Any], problem: str) -> None:
    with pytest.raises(HintError, match=problem) as caught:
        requirements.needed(hints)
    assert caught.value.hint in hints


def test_what_is_said_of_many_labels_is_short() -> None:
    many = {f"k{number:02}": "v" for number in range(100)}
    needed = requirements.needed({"accessibility_requirements": {"requisite": [{"segments": many}]}})
    assert str(needed) == "nodes with k00=v, k01=v, k02=v and 97 more"


def test_selectors_are_not_matched_with_each_of_many_places() -> None:
    """A thousand topologies and as many selectors would keep a scheduler from deciding for seconds."""
    looked = 0

    class Labels(dict[str, str]):
        def get(self, *args: Any) -> Any:
            nonlocal looked
            looked += 1
            return super().get(*args)

    asked = Places(Needed(None, tuple((("host", f"n{number}"),) for number in range(1000))))
    asked.labels = [Labels(each) for each in asked.labels]
    selectors = [
        NodeSelector((Term((Requirement("host", Operator.IN, (f"n{number}",)),)),)) for number in range(500, 1500)
    ]
    assert [asked.match(each) for each in selectors] == [True] * 500 + [False] * 500
    assert looked == 500


def test_what_one_request_needs_is_understood_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A joint fit asks thousands of times, and all other requests wait for it: of 65 KB that was four seconds."""
    read: list[object] = []
    decode = type_conversion.decode
    monkeypatch.setattr(type_conversion, "decode", lambda *given: (read.append(given), decode(*given))[1])
    requisite = [{"segments": {"zone": f"z{number}", "rack": "r" * 40}} for number in range(500)]
    for hints in (
        {requirements.REQUIREMENTS: {"requisite": requisite}},
        {requirements.REQUIREMENTS: {"requisite": requisite[1:]}},
    ):
        digests = {needed.digest for _ in range(20) if (needed := requirements.needed(hints))}
        assert len(digests) == 1
    assert len(read) == 2
