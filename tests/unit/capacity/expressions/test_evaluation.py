# SPDX-License-Identifier: Apache-2.0
"""Functions of pools are evaluated for rows that report one, with all names of a storage protocol."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tonnage.capacity.expressions import evaluation, parser
from tonnage.capacity.expressions.evaluation import FunctionColumn, Result
from tonnage.capacity.expressions.parser import ExpressionError
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request

FUNCTION = "filter_function"


def table(*functions: str | None, **capabilities: object) -> PoolTable:
    """Return a pool for each function, with 10, 20, 30... GiB."""
    return PoolTable(
        Pool(
            name=f"h@b#p{number}",
            total=10.0 * (number + 1),
            free=5.0,
            capabilities=capabilities | ({} if text is None else {FUNCTION: text}),
        )
        for number, text in enumerate(functions)
    )


def request(size: int = 4) -> Request:
    return Request(request_id="r", size_gb=size, project_id="demo")


def results(pools: PoolTable) -> dict[int, list[Result]]:
    return dict(evaluation.results(pools, request(), np.arange(len(pools)), FUNCTION))


def test_rows_without_a_function_have_no_result() -> None:
    assert results(table("capabilities.total_capacity_gb > 15", None, "volume.size * 2")) == {0: [False], 2: [8]}


def test_an_invalid_function_and_a_missing_name_are_errors_of_their_row_only() -> None:
    row_results = results(table("1 +", "stats.vendor_name == 'Acme'", "volume.size < 5"))
    assert isinstance(row_results[0][0], ExpressionError)
    assert isinstance(row_results[1][0], ExpressionError)
    assert row_results[2] == [True]


@pytest.mark.parametrize(
    ("protocol", "expected"), [("fc", [True, False, False]), (["iSCSI", "NFS"], [False, False]), ("NVMe-TCP", [False])]
)
def test_a_function_is_evaluated_for_each_name_of_the_protocol(protocol: object, expected: list[bool]) -> None:
    assert results(table("stats.storage_protocol == 'FC'", storage_protocol=protocol)) == {0: expected}


def test_a_cache_key_has_the_values_of_the_request_that_functions_read() -> None:
    pools = table("volume.size < 5", "capabilities.total_capacity_gb > 15", "1 +")
    assert evaluation.of_request(pools, request(3), FUNCTION) == ((("volume", "size"), 3),)
    assert evaluation.of_request(table("stats.free_capacity_gb > 1"), request(3), FUNCTION) == ()


def test_the_names_of_a_function_are_described_with_their_values() -> None:
    pools = table("volume.size < 5 and stats.vendor_name == 'x' or capabilities.total_capacity_gb > 1")
    assert evaluation.described(pools, request(), 0, FUNCTION) == {
        "volume.size": 4,
        "capabilities.total_capacity_gb": 10.0,
    }


def any_true(pools: PoolTable, row: int, row_results: Sequence[Result]) -> bool:
    return any(result is True for result in row_results)


COLUMN = FunctionColumn(FUNCTION, np.bool_(True), any_true)


def test_a_column_has_the_default_where_no_function_is_reported() -> None:
    pools = table("volume.size < 5", None, "volume.size > 5")
    np.testing.assert_array_equal(COLUMN.of_all(pools, request()), [True, True, False])
    np.testing.assert_array_equal(COLUMN.of_all(pools, request(6)), [False, True, True])


def test_few_rows_are_computed_alone_and_many_come_from_the_cached_column() -> None:
    pools = table(*["volume.size < 5"] * 32)
    few = np.zeros(32, dtype=np.bool_)
    few[7] = True
    evaluated: list[int] = []

    def counting(pools: PoolTable, row: int, row_results: Sequence[Result]) -> bool:
        evaluated.append(row)
        return any_true(pools, row, row_results)

    column = FunctionColumn(FUNCTION, np.bool_(False), counting)
    assert column.of_some(pools, request(), few)[7]
    assert evaluated == [7]
    for _ in range(2):
        assert column.of_some(pools, request(), ~few)[few | ~few].all()
    assert evaluated == [7, *range(32)]


def test_each_function_is_parsed_once_however_many_the_pools_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """More functions than any cache of the last ones would hold, read again and again in the same order."""
    pools = table(*(f"stats.free_capacity_gb > {number}" for number in range(5000)), "1 +", None)
    parsed = []
    original = parser.Expression.__init__

    def count(expression: parser.Expression, text: str) -> None:
        parsed.append(text)
        original(expression, text)

    monkeypatch.setattr(parser.Expression, "__init__", count)
    for size in range(3):
        evaluation.of_request(pools, request(size), FUNCTION)
        FunctionColumn(FUNCTION, np.True_, lambda pools, row, results: bool(results)).of_all(pools, request(size))
    assert len(parsed) == len(set(parsed)) == 5001
    pools.put(replace(pools.row(7), capabilities={FUNCTION: "stats.free_capacity_gb > 7.5"}))
    results(pools)
    assert parsed[5001:] == ["stats.free_capacity_gb > 7.5"]
