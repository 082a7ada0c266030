# SPDX-License-Identifier: Apache-2.0
"""Columns of validated reports, and names that logs and SQL can hold."""

import math

import numpy as np
import pytest

from tonnage.capacity.pool_stats import BadField, PoolStats, Remark, StatsColumns, is_name

POOLS = [
    PoolStats(name="a", total=100.0, free=math.nan, ratio="auto", thin=True),
    PoolStats(name="b", total=math.inf, free=5.0, storage_id="array", capabilities={"color": "red"}),
]


def test_each_field_of_the_pools_is_a_column() -> None:
    columns = StatsColumns.of(POOLS)
    assert columns.name == ["a", "b"]
    np.testing.assert_array_equal(columns.free, [math.nan, 5.0])
    np.testing.assert_array_equal(columns.thin, [True, False])
    assert columns.total.dtype == np.float64
    assert columns.thick.dtype == np.bool_
    assert (columns.ratio, columns.storage_id) == (["auto", None], [None, "array"])


def test_the_columns_have_the_values_of_the_pools_again() -> None:
    columns = StatsColumns.of(POOLS).by_field()
    rows = [PoolStats(*values) for values in zip(*map(list, columns.values()), strict=True)]
    assert list(map(repr, rows)) == [repr(PoolStats(*map(np_value, pool))) for pool in POOLS]


def np_value(value: object) -> object:
    """Return a value as its column has it."""
    return {bool: np.bool_, float: np.float64}.get(type(value), lambda same: same)(value)


def test_no_pools_are_empty_columns() -> None:
    columns = StatsColumns.of([])
    assert {len(column) for column in columns.by_field().values()} == {0}
    assert columns.total.dtype == np.float64


@pytest.mark.parametrize("name", ["p", "pool 1", "größe", "x" * 255])
def test_printable_text_is_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "\x00", "\ud800", "x" * 256, None, 7, b"p"])
def test_anything_else_is_no_name(value: object) -> None:
    assert not is_name(value)


def test_remarks_and_errors_name_pool_field_and_value() -> None:
    assert str(Remark("p", "code", "free exceeds total")) == "pool 'p': free exceeds total"
    assert str(BadField("p", "free_capacity_gb", "x", "not a number")) == (
        "pool 'p': free_capacity_gb is 'x': not a number"
    )
