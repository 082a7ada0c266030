# SPDX-License-Identifier: Apache-2.0
"""The language of filter and goodness functions."""

import contextlib
import gc
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity.expressions import parser
from tonnage.capacity.expressions.parser import Expression, ExpressionError, Value
from tonnage.capacity.pools.capability_values import MISSING

VALUES: dict[str, Any] = {
    "stats.free": 40,
    "stats.share": 0.75,
    "stats.flag": True,
    "stats.spelled": "12.5",
    "stats.model": "x'9\"",
    "stats.protocols": ["FC"],
    "stats.nested": {"deep": 7},
    "stats.nothing": None,
    "capabilities.qos.max_iops": 500,
    "volume.size": 8,
}


def value(text: str) -> Value:
    expression = Expression(text)
    return expression.value([VALUES.get(".".join(name), MISSING) for name in expression.names])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 / 2", 3.5),
        ("12 / 2 / 3", 2),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("2 ^ -1", 0.5),
        ("2 * -3", -6),
        ("- - 2", 2),
        ("2--3", 5),
        ("0.5 * 4", 2),
        ("max(1, 5, 3)", 5),
        ("min(2, 1) + abs(-3)", 4),
        ("max (1, min(4, 3))", 3),
        ("1 < 2", True),
        ("1 < 2 < 2", False),
        ("3 > 2 == 2", True),
        ("1 <> 2", True),
        ("1 != 1", False),
        ("'b' > 'a'", True),
        ("'1' == 1", False),
        ("not 1 == 0", True),
        ("!1 > 0", False),
        ("!!5", True),
        ("NOT 0 AND 1", 1),
        ("1 && 2", 2),
        ("0 || 3", 3),
        ("1 & 0 | 1", 1),
        ("1 and 1 and 0", 0),
        ("0 or 0 or 5", 5),
        ("1 or 0 and 0", 1),
        ("2 > 1 ? 10 : 20", 10),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("1 ? 5 : stats.none", 5),
        ("1 and 0 ? 2 : 3", 3),
        ("volume.size < 10", True),
        ("stats.free / volume.size", 5),
        ("stats.share * 4", 3),
        ("stats.flag + 1", 2),
        ("stats.spelled * 2", 25),
        ('stats.model == "x9"', True),
        ("capabilities.qos.max_iops >= 500", True),
        ("iscsi == 'iscsi'", True),
        ("max == 'max'", True),
        ("nothing == 'nothing'", True),
        ("order == android", False),
        ('\'a"b\' == "ab"', True),
        (" 1\t+\r\n2 ", 3),
    ],
)
def test_expressions_have_the_expected_values(text: str, expected: Value) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends where something is missing"),
        ("1 +", "ends where something is missing"),
        ("(1", "ends where something is missing"),
        ("1 2", "has '2' at character 3"),
        ("1, 2", "has ', 2' at character 2"),
        ("abs 5", "has '5' at character 5"),
        ("sqrt(4)", "has '(4)' at character 5"),
        ("1 + not 1", "where it does not belong"),
        ("__import__('os')", "where it does not belong"),
        ("a[0]", "where it does not belong"),
        ("1 ? 2 ? 3 : 4 : 5", "where it does not belong"),
        ("abs(1, 2)", "gives abs 2 value(s)"),
        ("max(1)", "gives max 1 value(s)"),
        ("!" * 51 + "1", "deeper than 50"),
        ("1" * 2049, "2049 characters long, and may have 2048"),
        ("9" * 102, "range of numbers"),
        ("stats.none < 1", "wants stats.none, and there is none"),
        ("stats.nothing < 1", "wants stats.nothing, and there is none"),
        ("stats.protocols == 'FC'", "wants stats.protocols, which is a list"),
        ("stats.nested == 7", "wants stats.nested, which is a group"),
        ("'a' + 1", "calculates with 'a', which is no number"),
        ("'a' * 999999999", "calculates with 'a'"),
        ("-'a'", "calculates with 'a'"),
        ("max('a', 'b')", "calculates with 'a'"),
        ("'a' < 1", "compares 'a' < 1, a text with a number"),
        ("1 / 0", "cannot be worked out: float division by zero"),
        ("0 ^ -1", "cannot be worked out"),
        ("(0 - 8) ^ 0.5", "takes a root of -8"),
        ("9 ^ 9 ^ 9", "range of numbers"),
        ("1 or 1 / 0", "cannot be worked out"),
    ],
)
def test_invalid_expressions_raise_with_a_text(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert said in caught.value.message


@pytest.mark.parametrize("reported", [math.inf, math.nan, 1e101, 10**101])
def test_reported_numbers_out_of_range_raise(reported: float) -> None:
    with pytest.raises(ExpressionError, match="range of numbers"):
        Expression("stats.x + 1").value([reported])


@pytest.mark.parametrize("reported", ["inf", "nan", "infinite", "unknown", "", "1 2"])
def test_text_without_a_finite_number_stays_text(reported: str) -> None:
    assert Expression("stats.x == stats.y").value([reported, reported]) is True
    with pytest.raises(ExpressionError, match="a text with a number"):
        Expression("stats.x < 1").value([reported])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "1" + ")" * 1000,
        "1" + "+1" * 1000,
        "9^" * 1000 + "9",
        "-" * 2000 + "1",
        "1?" * 500 + "1" + ":1" * 500,
        "((9^9^9)^9^9)^9^9^9^9*9^9^9^9^9^9",
        "'" + "a'*'" * 500,
        "((" * 500,
        "max(" * 400 + "1" + ",1)" * 400,
    ],
    ids=lambda text: str(text[:12]),
)
def test_hostile_expressions_are_rejected_quickly(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ExpressionError):
        value(text)
    assert time.process_time() - began < 5


def test_names_are_listed_once_in_order() -> None:
    assert Expression("volume.size + stats.free + volume.size").names == (("volume", "size"), ("stats", "free"))


@pytest.mark.parametrize("text", ["1 + 40", "1 +* 40"])
def test_an_expression_in_use_is_parsed_once(text: str) -> None:
    outcome = parser.parsed(text)
    assert parser.parsed(text) is outcome


def test_an_invalid_expression_raises_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ExpressionError, match="does not belong"):
            parser.compiled("1 +* 40")


def test_expressions_that_nobody_uses_are_forgotten() -> None:
    outcome = parser.parsed("4711 + 1")
    assert "4711 + 1" in parser._in_use
    del outcome
    gc.collect()
    assert "4711 + 1" not in parser._in_use


@given(st.text(alphabet="019.aostx'\" \t()+-*/^<>=!&|?:,\\%not", max_size=60))
def test_any_text_has_a_value_or_raises_an_expression_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        found = value(text)
        assert isinstance(found, str) or abs(found) <= parser.LARGEST


def _sums() -> st.SearchStrategy[str]:
    """Sums, products, signs and powers, which Python ranks in the same way."""
    numbers = st.integers(0, 9).map(str)
    return st.recursive(
        numbers,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(" ".join),
            inner.map("({})".format),
            inner.map("-{}".format),
            st.tuples(numbers, st.sampled_from(["2", "(3)", "0"])).map(" ^ ".join),
        ),
        max_leaves=12,
    )


@given(_sums())
def test_calculations_have_the_same_results_as_in_python(text: str) -> None:
    assert value(text) == eval(text.replace("^", "**"))  # noqa: S307  -- digits and operators made above


@given(_sums(), _sums(), _sums())
def test_comparisons_and_logic_have_the_same_results_as_in_python(a: str, b: str, c: str) -> None:
    text = f"{a} < {b} <= {c} and {a} != {c} or {b} == {c}"
    assert bool(value(text)) is bool(eval(text.replace("^", "**")))  # noqa: S307
