# SPDX-License-Identifier: Apache-2.0
"""Selectors of nodes match as those of Kubernetes do."""

from typing import Any

import msgspec
import pytest

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.capacity.topology.node_selectors import NodeSelectorRequirement as Requirement
from tonnage.capacity.topology.node_selectors import Operator as Op

LABELS = {"zone": "z1", "cores": "16", "empty": ""}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("zone", Op.IN, ("z1", "z2")), True),
        (Requirement("zone", Op.IN, ("z2",)), False),
        (Requirement("rack", Op.IN, ("r1",)), False),
        (Requirement("zone", Op.NOT_IN, ("z1",)), False),
        (Requirement("rack", Op.NOT_IN, ("r1",)), True),
        (Requirement("empty", Op.EXISTS), True),
        (Requirement("rack", Op.EXISTS), False),
        (Requirement("rack", Op.DOES_NOT_EXIST), True),
        (Requirement("zone", Op.DOES_NOT_EXIST), False),
        (Requirement("cores", Op.GREATER, ("15",)), True),
        (Requirement("cores", Op.GREATER, ("16",)), False),
        (Requirement("cores", Op.LESS, ("+17",)), True),
        (Requirement("cores", Op.LESS, ("-1",)), False),
        (Requirement("zone", Op.GREATER, ("0",)), False),
        (Requirement("rack", Op.LESS, ("1",)), False),
    ],
)
def test_an_expression_compares_the_value_of_a_label(requirement: Requirement, expected: bool) -> None:
    assert requirement.matches(LABELS.get(requirement.key)) is expected


@pytest.mark.parametrize("value", ["9223372036854775808", "1.0", " 1", "", "1" * 20])
def test_a_label_that_is_no_64_bit_integer_is_not_compared(value: str) -> None:
    assert not Requirement("cores", Op.GREATER, ("-5",)).matches(value)


@pytest.mark.parametrize(
    ("key", "operator", "values", "message"),
    [
        ("", Op.EXISTS, (), "no key"),
        ("zone", Op.IN, (), "needs at least one value"),
        ("zone", Op.NOT_IN, (), "needs at least one value"),
        ("zone", Op.EXISTS, ("z",), "takes no values"),
        ("zone", Op.DOES_NOT_EXIST, ("z",), "takes no values"),
        ("cores", Op.GREATER, ("1", "2"), "needs one value, a whole number"),
        ("cores", Op.LESS, ("9223372036854775808",), "needs one value, a whole number"),
    ],
)
def test_an_operator_takes_its_number_of_values(key: str, operator: Op, values: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Requirement(key, operator, values)


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (Requirement("zone", Op.IN, ("z1",)), "zone = z1"),
        (Requirement("zone", Op.NOT_IN, ("z1",)), "zone != z1"),
        (Requirement("zone", Op.IN, ("z1", "z2")), "zone in (z1, z2)"),
        (Requirement("zone", Op.NOT_IN, ("z1", "z2")), "zone not in (z1, z2)"),
        (Requirement("zone", Op.EXISTS), "zone"),
        (Requirement("zone", Op.DOES_NOT_EXIST), "no zone"),
        (Requirement("cores", Op.LESS, ("4",)), "cores < 4"),
    ],
)
def test_an_expression_reads_as_a_condition(requirement: Requirement, text: str) -> None:
    assert str(requirement) == text


def test_all_expressions_of_a_term_have_to_match() -> None:
    in_zone, large = Requirement("zone", Op.IN, ("z1",)), Requirement("cores", Op.GREATER, ("99",))
    named = Requirement("metadata.name", Op.IN, ("n1",))
    assert NodeSelectorTerm((in_zone,), (named,)).matches("n1", LABELS)
    assert not NodeSelectorTerm((in_zone,), (named,)).matches("n2", LABELS)
    assert not NodeSelectorTerm((in_zone, large)).matches("n1", LABELS)


def test_a_term_without_expressions_matches_no_node() -> None:
    assert not NodeSelectorTerm().matches("n1", LABELS)
    assert str(NodeSelectorTerm()) == "nothing that could match"


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("metadata.uid", Op.IN, ("n1",)),
        Requirement("metadata.name", Op.EXISTS),
        Requirement("metadata.name", Op.IN, ("n1", "n2")),
    ],
)
def test_fields_are_compared_by_name_alone(requirement: Requirement) -> None:
    with pytest.raises(ValueError, match="matchFields takes metadata"):
        NodeSelectorTerm(match_fields=(requirement,))


def test_one_term_of_a_selector_has_to_match() -> None:
    selector = NodeSelector(
        (NodeSelectorTerm((Requirement("rack", Op.EXISTS),)), NodeSelectorTerm((Requirement("zone", Op.EXISTS),)))
    )
    assert selector.matches("n1", LABELS)
    assert not selector.matches("n1", {})
    with pytest.raises(ValueError, match="nodeSelectorTerms is empty"):
        NodeSelector(())


def test_a_selector_is_decoded_with_the_names_of_kubernetes() -> None:
    text = b'{"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}'
    assert msgspec.json.decode(text, type=NodeSelector).matches("n1", LABELS)
    with pytest.raises(msgspec.ValidationError, match="Sometimes"):
        msgspec.json.decode(text.replace(b'"In"', b'"Sometimes"'), type=NodeSelector)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "raw",
    [
        {"nodeSelectorTerms": []},
        {},
        {"nodeSelectorTerms": [{"matchExpression": []}]},
        {"nodeSelectorTerms": [{"matchFields": [expression("metadata.uid", "In", "a")]}]},
        *[
            {"nodeSelectorTerms": [{"matchExpressions": [each]}]}
            for each in (
                expression("a", "In"),
                expression("a", "Exists", "b"),
                expression("a", "Gt", "1", "2"),
                expression("a", "Lt", "1.5"),
                expression("a", "Lt", "9223372036854775808"),
                expression("a", "Equals", "b"),
                expression("", "Exists"),
            )
        ],
    ],
)
def test_a_malformed_selector_is_refused(raw: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        type_conversion.convert(raw, NodeSelector)
