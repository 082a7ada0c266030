# SPDX-License-Identifier: Apache-2.0
"""Victims of a preemption, in both forms of the call, and the nodes that remain."""

import json
from typing import Any

import pytest

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.fit import preemption
from tonnage.extensions.kubernetes.fit.preemption import MetaPod, MetaVictims, PreemptionArguments


def victims(**body: Any) -> dict[str, MetaVictims]:
    raw = json.dumps({"Pod": {"metadata": {"name": "redis"}}, **body}).encode()
    return objects.decode(raw, PreemptionArguments).victims()


def test_both_forms_of_the_call_have_the_same_victims() -> None:
    uids = {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}
    pods = {"Pods": [{"metadata": {"name": uid, "uid": uid}} for uid in "ab"], "NumPDBViolations": 1}
    expected = {"n1": MetaVictims([MetaPod("a"), MetaPod("b")], 1)}
    assert victims(NodeNameToMetaVictims={"n1": uids}, NodeNameToVictims=None) == expected
    assert victims(NodeNameToMetaVictims=None, NodeNameToVictims={"n1": pods}) == expected


@pytest.mark.parametrize("empty", [None, {"Pods": None, "NumPDBViolations": 0}, {"Pods": []}])
@pytest.mark.parametrize("form", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_a_node_may_have_no_victims(form: str, empty: Any) -> None:
    [of_node] = victims(**{form: {"n1": empty}}).values()
    assert not of_node.pods


def test_a_call_without_nodes_has_no_victims() -> None:
    assert victims() == victims(NodeNameToVictims={}) == {}


def of(*uids: str) -> MetaVictims:
    return MetaVictims([MetaPod(uid) for uid in uids])


@pytest.mark.parametrize(
    ("sent", "fitting", "remaining"),
    [
        ({"n1": of("a"), "n2": of("b", "c")}, {"n1", "n2"}, {"n1", "n2"}),
        ({"n1": of("a"), "n2": of("b", "c")}, {"n2"}, {"n2"}),
        ({"n1": of("a"), "n2": of("b", "c")}, set(), set()),
        # Nobody has to go from a node that the extender refused, and its volumes would not fit.
        ({"n1": of("a"), "n2": of()}, {"n1"}, {"n1"}),
        ({"n1": of(), "n2": of()}, set(), set()),
        # Room has come: the pod needs no eviction anywhere.
        ({"n1": of("a"), "n2": of()}, {"n1", "n2"}, set()),
        ({"n1": of(), "n2": of()}, {"n1", "n2"}, set()),
    ],
)
def test_only_nodes_that_take_the_volumes_and_have_victims_remain(
    sent: dict[str, MetaVictims], fitting: set[str], remaining: set[str]
) -> None:
    kept = preemption.remaining(sent, {name: name in fitting for name in sent})
    assert kept == {name: sent[name] for name in remaining}
