# SPDX-License-Identifier: Apache-2.0
"""Derived columns: after any changes of a table, cached columns equal newly computed ones."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.unit.capacity.pools.test_pool_table import NAMES, NEW_POOLS
from tonnage.capacity.pools import derived_columns
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable

VALUES = st.sampled_from([0, 1, True, False, 1.0, "1", "x", None, [1], [True], {"deeper": 1}, {"deeper": [1.0]}])
CAPABILITIES = st.dictionaries(st.sampled_from(["a", "b"]), VALUES)


def room(pools: PoolTable) -> Any:
    return pools.free - pools.in_flight_physical


def kind(pools: PoolTable) -> Any:
    named = [hash((name, zone)) for name, zone in zip(pools.names, pools.zones, strict=True)]
    return np.array(named, dtype=np.int64) ^ pools.up


def codes(pools: PoolTable) -> Any:
    return pools.name_hash


class Kept(RuleBasedStateMachine):
    """Columns may be asked for at any time, rarely or often, in a table that changes as it likes."""

    limit = derived_columns.BYTES_PER_ROW
    least = derived_columns.MIN_RECORDED

    def __init__(self) -> None:
        super().__init__()
        self.table = PoolTable()

    @initialize(limit=st.sampled_from([9, 512]), least=st.sampled_from([0, 3, 1024]))
    def bound(self, limit: int, least: int) -> None:
        derived_columns.BYTES_PER_ROW, derived_columns.MIN_RECORDED = limit, least

    def teardown(self) -> None:
        derived_columns.BYTES_PER_ROW, derived_columns.MIN_RECORDED = self.limit, self.least

    @rule(pools=st.lists(NEW_POOLS, min_size=1, max_size=8), capabilities=CAPABILITIES)
    def put(self, pools: list[Pool], capabilities: dict[str, Any]) -> None:
        self.table.put_all(
            dataclasses.replace(pool, capabilities=capabilities if number % 2 else {"a": number})
            for number, pool in enumerate(pools)
        )

    @rule()
    def put_again(self) -> None:
        self.table.put_all(list(self.table))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.table.remove(name)

    @rule(names=st.lists(NAMES, min_size=1, max_size=5), size=st.integers(-5, 5))
    def claim(self, names: list[str], size: int) -> None:
        for name in names:
            index = self.table.index(name)
            if index is not None:
                self.table.claim(index, size, size)

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.table = self.table.snapshot()

    @rule(column=st.sampled_from([room, codes]))
    def by_figures(self, column: Callable[[PoolTable], Any]) -> None:
        found = self.table.derived(column, column)
        np.testing.assert_array_equal(found, column(PoolTable(self.table)))
        assert not found.flags.writeable

    @rule(column=st.sampled_from([kind, codes]))
    def by_traits(self, column: Callable[[PoolTable], Any]) -> None:
        found = self.table.derived_from_traits(column, column)
        np.testing.assert_array_equal(found, column(PoolTable(self.table)))

    @rule(path=st.sampled_from([("a",), ("b",), ("a", "deeper")]))
    def capability(self, path: tuple[str, ...]) -> None:
        numbers, values = self.table.capability(*path)
        found = [values[number] for number in numbers.tolist()]
        expected: list[Any] = []
        for pool in self.table:
            value: Any = pool.capabilities
            for key in path:
                value = value.get(key, MISSING) if isinstance(value, dict) else MISSING
            expected.append(value)
        assert list(map(repr, found)) == list(map(repr, expected))


TestKept = Kept.TestCase
TestKept.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


class Counted:
    """Free space, and how many rows it has been worked out for."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, pools: PoolTable) -> Any:
        self.rows += len(pools)
        return pools.free.copy()


def table(count: int = 100, **figures: Any) -> PoolTable:
    return PoolTable(Pool(name=f"h@b#{i}", total=100.0, free=float(i), **figures) for i in range(count))


def test_a_claim_computes_one_row_and_no_traits() -> None:
    pools, figures, traits = table(), Counted(), Counted()
    for _ in range(3):
        pools.claim(7, 1, 1)
        pools.derived("f", figures)
        pools.derived_from_traits("t", traits)
    assert (figures.rows, traits.rows) == (102, 100)


def test_an_unchanged_row_is_not_computed_again() -> None:
    pools, figures, traits = table(provisioned=math.nan, capabilities={"a": [1]}), Counted(), Counted()
    for _ in range(3):
        pools.put_all([Pool(name="h@b#3", total=100.0, free=3.0, capabilities={"a": [1]})])
        pools.derived("f", figures)
        pools.derived_from_traits("t", traits)
    assert (figures.rows, traits.rows) == (100, 100)
    pools.put(Pool(name="h@b#3", total=100.0, free=3.0, capabilities={"a": [True]}))
    pools.derived_from_traits("t", traits)
    assert traits.rows == 101


def test_a_failed_computation_is_not_cached() -> None:
    pools, figures = table(), Counted()

    def fail(pools: PoolTable) -> Any:
        raise ValueError("no")

    for broken, works in ((fail, figures), (fail, figures)):
        pools.claim(1, 1, 1)
        with pytest.raises(ValueError, match="no"):
            pools.derived("f", broken)
        assert pools.derived("f", works)[2] == 2
    assert figures.rows == 101


def test_unused_distinct_values_are_dropped() -> None:
    pools = table(2)
    for number in range(3000):
        pools.put(Pool(name="h@b#0", total=1.0, free=1.0, capabilities={"serial": number}))
        numbers, values = pools.capability("serial")
        assert values[numbers[0]] == number
        assert len(values) <= 2 * len(pools) + 1025


def test_unused_columns_are_dropped() -> None:
    pools, counted = table(), Counted()
    for number in range(1000):
        pools.derived(number, counted)
    counted.rows = 0
    pools.derived(999, counted)
    assert counted.rows == 0
    pools.derived(0, counted)
    assert counted.rows == 100
