# SPDX-License-Identifier: Apache-2.0
"""Tests of JsonFilter."""

import json
import sys
import types
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.filters.json_query import JsonFilter

PLUGIN = JsonFilter(SimpleNamespace())
POOL = Pool(
    name="h@ceph#gold",
    total=1000.0,
    free=400.0,
    claimed_physical=20.0,
    reserved_percentage=10.0,
    thin=True,
    capabilities={"vendor_name": "ACME", "storage_protocol": ["FC", "iSCSI"], "qos": {"most": 900}, "flag": False},
)
OTHER = Pool(name="h@ceph#plain", total=10.0, free=1.0)
POOLS = PoolTable([POOL, OTHER])


def accepts(query: object) -> bool:
    hint = query if isinstance(query, str) else json.dumps(query)
    return bool(PLUGIN.accepts(POOLS, Request("r", 1, hints={"query": hint}))[0])


def test_an_unreported_version_is_missing_and_not_0() -> None:
    """The same as in Cinder: 0 would be a number among texts, which cannot be compared."""
    assert accepts([">", "hdd", "$driver_version", "h2@b1#p2"])
    assert not accepts(["=", "$driver_version", 0])


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ([], True),
        (["=", "$backend_id", "h@ceph#gold"], True),
        (["=", "$host", "$backend_id"], True),
        (["=", "$backend_id", "h@ceph#plain"], False),
        ([">=", "$free_capacity_gb", 380], True),
        ([">", "$free_capacity_gb", 380], False),
        ([">", "$capabilities.free_capacity_gb", 380], True),
        (["<", 1, 2, 3], True),
        (["<", 2, 3, 1], False),
        (["<=", "$reserved_percentage", 10], True),
        (["in", "$vendor_name", "ACME", "other"], True),
        (["in", "$vendor_name", "other"], False),
        (["in", "$vendor_name"], False),
        (["=", "$capabilities.qos.most", 900], True),
        (["=", "$capabilities.flag", False], True),
        (["=", "$capabilities.none", False], False),
        (["=", "$none", 1], False),
        (["=", "$vendor_name.more", 1], False),
        (["=", "x", "x"], True),
        (["=", 1], False),
        (["=", "", "x", "x"], True),
        (["not", ["=", 1, 1]], False),
        (["not", ["=", 1, 2]], True),
        (["not", True, False], True),
        (["not"], False),
        (["not", ["not", ["=", 1, 1]]], True),
        (["and", ["=", 1, 1], ["not", ["=", 1, 1]]], False),
        (["and", ["=", 1, 1], [">", "$total_capacity_gb", 999]], True),
        (["and"], True),
        (["or", ["=", 1, 2], ["=", "$thin_provisioning_support", True]], True),
        (["or"], False),
        (["and", []], True),
        (["<", "$vendor_name", 5], False),
        (["=", "$storage_protocol", "FC"], False),
    ],
)
def test_queries(query: Any, accepted: bool) -> None:
    assert accepts(query) is accepted


def test_without_a_query_every_pool_is_accepted() -> None:
    for hints in ({}, {"query": ""}, {"query": []}, {"query": None}):
        assert PLUGIN.accepts(POOLS, Request("r", 1, hints=hints)).all()


def test_a_query_can_be_a_list() -> None:
    request = Request("r", 1, hints={"query": ["=", "$pool_name", "plain"]})
    assert PLUGIN.accepts(POOLS, request).tolist() == [False, True]
    assert PLUGIN.narrow(POOLS, request, np.array([False, True])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("{", "it is no JSON"),
        ("5", "'5' is no list of an operator and operands"),
        ('{"=": 1}', "is no list of an operator"),
        ('["~", 1]', "'~' is none of the operators =, <, >, <=, >=, in, not, or, and"),
        ('["and", [1, 2]]', "'1' is none of the operators"),
        ('["=", "$capabilities", 1]', "$capabilities needs the name of one"),
        ("[" * 3000, "it is no JSON"),
        ('["not", ' * 21 + '["=", 1, 1]' + "]" * 21, "deeper than 20 lists"),
        ("[" + " " * 5000 + "]", "5002 characters long, and may have 4096"),
        ('["=", ' + "9" * 4090, "it is no JSON"),
        ('["=", "$host"' + ', "a"' * 500 + "]", "more than 32 operands; the values after 'in' do not count"),
        ('["and"' + ', ["<", "$free_capacity_gb", 1]' * 12 + "]", "more than 32 operands"),
        ('["or"' + ', ["in", "$host", "$backend_id", 1]' * 12 + "]", "more than 32 operands"),
    ],
    ids=lambda text: str(text[:20]),
)
def test_an_invalid_query_refuses_every_pool_and_names_the_error(query: str, error: str) -> None:
    request = Request("r", 1, hints={"query": query})
    result = FilterChain([PLUGIN]).run(POOLS, request)
    assert not result.remaining.any()
    assert result.failures == {}
    rejection = PLUGIN.reason(POOL, request)
    assert rejection.code == "bad_query"
    assert error in rejection.message
    assert len(rejection.message) < 500


def test_the_reason_quotes_the_query_with_its_values() -> None:
    query = '["and", [">", "$free_capacity_gb", 500], ["=", "$none", 1], ["=", "$vendor_name", "X"]]'
    rejection = PLUGIN.reason(POOLS.row(0), Request("r", 1, hints={"query": query}))
    assert rejection.message == (
        f"does not match the hint query {query} ($free_capacity_gb is 380.0, $none is nothing, $vendor_name is ACME)"
    )
    assert rejection.numbers == {
        "query": query,
        "$free_capacity_gb": 380.0,
        "$none": "nothing",
        "$vendor_name": "ACME",
    }


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4), st.sampled_from(["$host", "$free_capacity_gb"])
)
_WORDS = st.sampled_from(["=", "<", ">", "<=", ">=", "in", "not", "or", "and"])


@given(
    st.recursive(
        st.tuples(_WORDS, _LEAVES, _LEAVES).map(list),
        lambda inner: st.tuples(_WORDS, st.one_of(inner, _LEAVES), inner).map(list),
        max_leaves=20,
    )
)
def test_no_query_makes_the_filter_fail(query: Any) -> None:
    result = FilterChain([PLUGIN]).run(POOLS, Request("r", 1, hints={"query": json.dumps(query)}))
    assert result.failures == {}


@given(st.text(max_size=40))
def test_no_text_makes_the_filter_fail(query: str) -> None:
    request = Request("r", 1, hints={"query": query})
    assert FilterChain([PLUGIN]).run(POOLS, request).failures == {}
    assert PLUGIN.reason(POOL, request).message


def _evaluations(query: object) -> int:
    """Return how often operators are applied and operands are read while a query is evaluated for the pools."""
    calls = 0

    def count(frame: types.FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    request = Request("r", 1, hints={"query": json.dumps(query)})
    PLUGIN.accepts(POOLS, request)  # it is parsed once
    sys.setprofile(count)
    try:
        PLUGIN.accepts(POOLS, request)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (["and", ["in", 0, *[1] * 900]], ["and", ["in", 0, 1]]),
        (["in", "$host", *[f"h{number}" for number in range(300)]], ["in", "$host", "h1"]),
        (["not", ["=", *[1] * 900], ["=", "$host", "x"]], ["not", ["=", 1], ["=", "$host", "x"]]),
    ],
    ids=["without variables", "a list of hosts", "constants beside a variable"],
)
def test_constants_are_evaluated_once_for_all_pools(long: object, short: object) -> None:
    assert _evaluations(long) == _evaluations(short)


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        (["in", "$none", "a", "a"], True),
        (["in", "$none", "a", "b"], False),
        (["in", "$storage_protocol", "FC", "iSCSI"], False),
        (["in", "$storage_protocol", {"a": 1}], False),
        (["in", "$capabilities.qos", {"most": 900}], True),
        (["in", "$capabilities.flag", 0], True),
        (["in", "$thin_provisioning_support", 1, "x"], True),
        (["in", "$host", None, ""], False),
        (["in", "$host", "$backend_id"], True),
        (["in"], False),
    ],
)
def test_a_list_of_constants_is_searched_as_any_operands_are(query: object, accepted: bool) -> None:
    assert accepts(query) is accepted
