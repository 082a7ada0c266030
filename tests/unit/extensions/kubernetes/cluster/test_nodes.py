# SPDX-License-Identifier: Apache-2.0
"""Node selectors, for one node and with the index over many nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*terms: list[dict[str, Any]], fields: tuple[dict[str, Any], ...] = ()) -> NodeSelector:
    raw = [{"matchExpressions": term} for term in terms] + ([{"matchFields": list(fields)}] if fields else [])
    return type_conversion.convert({"nodeSelectorTerms": raw}, NodeSelector)


def test_a_selection_has_the_nodes_in_its_own_order() -> None:
    nodes = Nodes([Node("n1", {"zone": "a"}), Node("n2", {"zone": "b"}), Node("n3", {})])
    selection = nodes.selection(["n3", "n1"])
    assert selection is not None
    assert (selection.base, selection.names, len(selection)) == (nodes, ("n3", "n1"), 2)
    assert [node.name for node in selection.nodes] == ["n3", "n1"]
    assert selection.rows_matching(selector([expression("zone", "In", "a")])).tolist() == [1]
    assert selection.rows_named(["n1", "n2"]).tolist() == [1]
    assert selection.label_values(("zone",)) == ((None, "a"),)
    assert nodes.selection(["n1", "n4"]) is None


LABELS = {"zone": "a", "rack": "7", "kind": "", "cold": "-3"}


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ([], False),
        ([expression("zone", "In", "a", "b")], True),
        ([expression("zone", "In", "b")], False),
        ([expression("other", "In", "b")], False),
        ([expression("zone", "NotIn", "b")], True),
        ([expression("zone", "NotIn", "a")], False),
        ([expression("other", "NotIn", "a")], True),
        ([expression("kind", "Exists")], True),
        ([expression("other", "Exists")], False),
        ([expression("other", "DoesNotExist")], True),
        ([expression("kind", "DoesNotExist")], False),
        ([expression("rack", "Gt", "6")], True),
        ([expression("rack", "Gt", "7")], False),
        ([expression("cold", "Lt", "-2")], True),
        ([expression("rack", "Lt", "7")], False),
        ([expression("zone", "Gt", "1")], False),
        ([expression("other", "Lt", "1")], False),
        ([expression("zone", "In", "a"), expression("rack", "In", "8")], False),
        ([expression("zone", "In", "a"), expression("rack", "In", "7")], True),
    ],
)
def test_a_term_matches_if_all_expressions_match(term: list[dict[str, Any]], found: bool) -> None:
    assert selector(term).matches("n1", LABELS) is found
    assert Nodes([Node("n1", LABELS)]).rows_matching(selector(term)).tolist() == [0] * found


def test_one_matching_term_is_enough_and_names_can_match() -> None:
    either = selector([expression("zone", "In", "x")], [expression("rack", "Exists")])
    assert either.matches("n1", LABELS)
    assert not either.matches("n1", {"zone": "y"})
    named = selector(fields=(expression("metadata.name", "In", "n1"),))
    assert (named.matches("n1", {}), named.matches("n2", {})) == (True, False)
    assert Nodes([Node("n2", {}), Node("n1", {})]).rows_matching(named).tolist() == [1]


keys, values = st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"])
labels = st.dictionaries(keys, values)
requirements = st.one_of(
    st.builds(
        NodeSelectorRequirement,
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(values, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(NodeSelectorRequirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(NodeSelectorRequirement, keys, st.sampled_from([Operator.GREATER, Operator.LESS]), st.just(("1",))),
)
fields = st.builds(
    NodeSelectorRequirement, st.just("metadata.name"), st.sampled_from([Operator.IN, Operator.NOT_IN]), st.just(("n1",))
)
terms = st.builds(
    NodeSelectorTerm, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)
)


@given(terms=st.lists(terms, min_size=1, max_size=3).map(tuple), known=st.lists(labels, max_size=5))
def test_the_index_agrees_with_matching_each_node(
    terms: tuple[NodeSelectorTerm, ...], known: list[dict[str, str]]
) -> None:
    node_selector = NodeSelector(terms)
    nodes = [Node(f"n{number}", each) for number, each in enumerate(known)]
    found = Nodes(nodes).rows_matching(node_selector).tolist()
    assert found == [row for row, node in enumerate(nodes) if node_selector.matches(node.name, node.labels)]
