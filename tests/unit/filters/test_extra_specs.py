# SPDX-License-Identifier: Apache-2.0
"""Tests of the operators of extra specs."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.filters.extra_specs import compiled

OPERATORS = ["<is>", "<in>", "<or>", "<all-in>", "=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>="]


@pytest.mark.parametrize(
    ("spec", "matching", "other"),
    [
        ("lvm", ["lvm"], ["LVM", "lvm2", 1, True, None]),
        ("two words", ["two words"], ["two"]),
        ("", [""], ["x", None]),
        ("<is> True", [True, "true", "YES", "1", 1], [False, "no", 0, "anything", None]),
        ("<is> False", [False, "off", 0, "anything"], [True, "on", None]),
        ("<in> iscsi", ["iscsi", "iscsi,fc"], ["fc", "iSCSI", 5, None]),
        ("<or> a <or> b", ["a", "b"], ["c", "a b", "<or>", None]),
        ("<or> one", ["one"], ["two"]),
        ("<all-in> aes mmx", [["mmx", "aes", "sse"]], [["aes"], [], "aes mmx", None]),
        ("<all-in> aes", ["aes", ["aes"]], ["aes mmx"]),
        ("= 10", [10, 11.5, "10", math.inf], [9, "9.9", "many", None, [9]]),
        (">= 10", [10, "10.0"], [9]),
        ("<= 10", [10, "9"], [10.5, "x"]),
        ("== 10", [10, "10.00", 10.0], ["ten", 11]),
        ("!= 10", [11, "9"], [10, "10.0", "ten", None]),
        ("s== 10", ["10"], [10, "10.0", None]),
        ("s!= 10", ["11", 10], ["10", None]),
        ("s< b", ["a"], ["b", "c", 1]),
        ("s<= b", ["a", "b"], ["c"]),
        ("s> b", ["c"], ["b", "a"]),
        ("s>= b", ["b", "c"], ["a"]),
        ("s== first second", ["first"], ["first second"]),
    ],
)
def test_operators(spec: str, matching: list[Any], other: list[Any]) -> None:
    matches = compiled(spec)
    assert [value for value in matching if not matches(value)] == []
    assert [value for value in other if matches(value)] == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_alone_matches_nothing(operator: str) -> None:
    values: tuple[Any, ...] = ("", operator, True, False, 0, [], None)
    assert not any(compiled(operator)(value) for value in values)


@pytest.mark.parametrize("spec", ["FC", "<in> F", "<or> NFS <or> FC", "s== FC"])
def test_a_list_matches_if_one_element_matches(spec: str) -> None:
    assert compiled(spec)(["iSCSI", "FC"])
    assert not compiled(spec)(["iSCSI"])
    assert not compiled(spec)([])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
SPECS = st.tuples(st.sampled_from([*OPERATORS, ""]), st.text(max_size=8)).map(" ".join) | st.text(max_size=8)


@settings(max_examples=300, deadline=None)
@given(SPECS, JSON)
def test_no_value_and_no_spec_raises_an_error(spec: str, value: object) -> None:
    assert compiled(spec)(value) in (True, False)
