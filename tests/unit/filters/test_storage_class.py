# SPDX-License-Identifier: Apache-2.0
"""Tests of StorageClassFilter."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.filters.storage_class import StorageClassFilter

PLUGIN = StorageClassFilter(SimpleNamespace())

CLASSES = st.sampled_from(["fast", "safe", "<fallback>", "<ephemeral>"])
REPORTED = st.one_of(st.none(), CLASSES, st.lists(CLASSES, max_size=3), st.just(7))
POOLS = st.lists(st.tuples(st.sampled_from(["h@a", "h@b"]), REPORTED), max_size=6)


def table(pools: list[tuple[str, Any]]) -> PoolTable:
    return PoolTable(
        Pool(
            name=f"{backend}#{number}",
            total=1.0,
            free=1.0,
            capabilities={} if reported is None else {"storage_class": reported},
        )
        for number, (backend, reported) in enumerate(pools)
    )


def serves(reported: Any) -> list[str]:
    return reported if isinstance(reported, list) else [reported] if isinstance(reported, str) else []


@PROPERTY
@given(POOLS, st.one_of(st.none(), CLASSES))
def test_pools_of_the_class_precede_the_fallback_of_their_backend(
    pools: list[tuple[str, Any]], asked: str | None
) -> None:
    own = {backend for backend, reported in pools if asked in serves(reported)}
    wanted = [
        set(serves(reported)) != {"<ephemeral>"}
        if asked is None
        else asked in serves(reported) or ("<fallback>" in serves(reported) and backend not in own)
        for backend, reported in pools
    ]
    request = Request("r", 1, hints={} if asked is None else {"storage_class": asked})
    rows = table(pools)
    assert PLUGIN.accepts(rows, request).tolist() == wanted
    assert FilterChain([PLUGIN]).candidates(rows, request).tolist() == wanted


@pytest.mark.parametrize(
    ("reported", "asked", "message"),
    [
        ("safe", "fast", "serves storage class safe, not 'fast'"),
        (["safe", "cold"], "fast", "serves storage class cold, safe, not 'fast'"),
        (None, "fast", "reports no storage class, and 'fast' is asked for"),
        ("<ephemeral>", None, "is for inline ephemeral volumes, which their nodes make"),
        ("fast", ["fast"], "cannot be judged by the hint storage_class: ['fast'] is no name"),
    ],
)
def test_reasons_have_the_values_of_both_sides(reported: Any, asked: Any, message: str) -> None:
    pools, request = table([("h@a", reported)]), Request("r", 1, hints={"storage_class": asked})
    assert not PLUGIN.accepts(pools, request).any()
    assert PLUGIN.reason(pools.row(0), request).message == message


def test_a_fallback_pool_does_not_serve_a_class_with_a_pool_on_its_backend() -> None:
    pools = table([("h@a", "fast"), ("h@a", "<fallback>"), ("h@b", "<fallback>")])
    request = Request("r", 1, hints={"storage_class": "fast"})
    assert PLUGIN.accepts(pools, request).tolist() == [True, False, True]
    assert PLUGIN.reason(pools.row(1), request).message == (
        "serves <fallback>, and its backend has pools of storage class 'fast' itself"
    )
