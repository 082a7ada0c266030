# SPDX-License-Identifier: Apache-2.0
"""Columns of pools: read-only, by zone and backend, and compared bit by bit."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tonnage.capacity.pools import columns
from tonnage.capacity.pools.columns import FIGURES, POSITION
from tonnage.capacity.pools.pool_table import Pool, PoolTable

POOLS = [
    Pool(name="h1@b#p0", total=100.0, free=math.nan, availability_zone="north", thin=True, storage_id="array"),
    Pool(name="h1@b#p1", total=50.0, free=20.0, availability_zone="south", capabilities={"color": "red"}),
    Pool(name="h2@b#p0", total=math.inf, free=7.0, availability_zone="north", up=False),
]


@pytest.fixture
def table() -> PoolTable:
    return PoolTable(POOLS)


def test_a_row_has_all_fields_of_its_pool(table: PoolTable) -> None:
    assert [repr(pool) for pool in table] == [repr(pool) for pool in POOLS]
    assert repr(table.get("h1@b#p1")) == repr(POOLS[1])
    assert table.get("absent") is None
    assert table.index("absent") is None


def test_the_values_of_a_row_are_its_figures_and_flags(table: PoolTable) -> None:
    values = table.row_values(1)
    assert (values.total, values.free, values.thin, values.up) == (50.0, 20.0, False, True)


def test_a_column_cannot_be_written(table: PoolTable) -> None:
    with pytest.raises(ValueError, match="read-only"):
        table.free[1] = 99.0


def test_masks_select_zones_and_backends(table: PoolTable) -> None:
    assert table.in_zone("north").tolist() == [True, False, True]
    assert table.in_zone("west").tolist() == [False] * 3
    assert table.on_backends(["h1@b", "absent"]).tolist() == [True, True, False]
    assert table.on_backends([]).tolist() == [False] * 3


def test_unknown_figures_do_not_differ_from_themselves(table: PoolTable) -> None:
    assert table.differing(PoolTable(POOLS)).tolist() == [False] * 3
    changed = PoolTable([POOLS[0], replace(POOLS[1], free=21.0), replace(POOLS[2], up=True)])
    assert table.differing(changed).tolist() == [False, True, True]


def test_columns_grow_past_the_first_block() -> None:
    table = PoolTable(Pool(name=f"h@b#{number}", total=float(number), free=0.0) for number in range(40))
    np.testing.assert_array_equal(table.total, np.arange(40.0))
    assert table.in_zone("").all()


def test_a_single_value_stands_for_a_whole_column() -> None:
    assert columns.column_values({"thin": True}, "thin", 3) == [True] * 3
    assert columns.column_values({"thin": [True, False]}, "thin", 2) == [True, False]
    assert columns.column_values({}, "ratio", 2) == [1.0, 1.0]
    assert columns.column_values({}, "capabilities", 1) == [{}]


@pytest.mark.parametrize("rows", [[2, 3, 4], [4, 2, 7]])
def test_rows_are_read_and_set_by_slice_or_by_index(rows: list[int]) -> None:
    where = columns.row_index(np.array(rows))
    assert isinstance(where, slice) is (rows == [2, 3, 4])
    values = list("abcdefgh")
    assert columns.take_values(values, where) == [values[row] for row in rows]
    assert columns.matching_rows(where, np.array([True, False, True])) == [rows[0], rows[2]]
    columns.set_values(values, where, ["X", "Y", "Z"])
    assert [values[row] for row in rows] == ["X", "Y", "Z"]
    assert values[0] == "a"


def figures(**values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    block = np.zeros(len(FIGURES))
    for name, value in {"storage_free": math.nan, **values}.items():
        block[POSITION[name]] = value
    columns.update_totals(block)
    return block


def test_claims_of_other_pools_use_the_same_storage_physically() -> None:
    block = figures(claimed=3, claimed_physical=2, shared_in_flight=10, shared_in_flight_physical=5)
    assert block[POSITION["in_flight"]] == 13
    assert block[POSITION["in_flight_physical"]] == 7
    assert block[POSITION["storage_room"]] == math.inf


def test_a_part_of_a_storage_shares_only_its_room() -> None:
    block = figures(claimed_physical=2, shared_in_flight_physical=5, storage_free=30)
    assert block[POSITION["in_flight_physical"]] == 2
    assert block[POSITION["storage_room"]] == 23


def test_foreign_and_shared_volumes_count_as_those_of_others() -> None:
    assert figures(shared_allocated=4, external=1.5)[POSITION["others"]] == 5.5
