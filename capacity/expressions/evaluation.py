# SPDX-License-Identifier: Apache-2.0
"""Evaluation of the functions of pools: the expressions that drivers report in ``filter_function`` and the like."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import storage_protocols
from tonnage.capacity.expressions import attributes, parser
from tonnage.capacity.expressions.attributes import Rows
from tonnage.capacity.expressions.parser import Expression, ExpressionError, Name, Value
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request

#: The result of one evaluation.
Result: TypeAlias = Value | ExpressionError

#: Names with several values in a pool: the protocols that it supports, or the aliases of one.
_PROTOCOL = frozenset({("stats", "storage_protocol"), ("capabilities", "storage_protocol")})

#: If fewer than one in this many pools is needed, evaluating these is cheaper than caching a column for all pools.
_FEW = 16

ScalarT = TypeVar("ScalarT", np.bool_, np.float64)


@dataclass(frozen=True, slots=True)
class FunctionColumn(Generic[ScalarT]):
    """A column that is computed from one function of the pools.

    ``function`` is the capability with the function. ``convert`` returns the value for a row of a table from the
    results of the row's function. ``default`` is the value for pools that report no function.
    """

    function: str
    default: ScalarT
    convert: Callable[[PoolTable, int, Sequence[Result]], bool | float]

    def of_all(self, pools: PoolTable, request: Request) -> npt.NDArray[ScalarT]:
        """Return the column, which is cached and computed again for changed pools."""

        def compute(pools: PoolTable) -> npt.NDArray[ScalarT]:
            return self._compute(pools, request, np.arange(len(pools)))

        key = (self.function, of_request(pools, request, self.function))
        column: npt.NDArray[ScalarT] = pools.derived(key, compute)
        return column

    def of_some(self, pools: PoolTable, request: Request, mask: npt.NDArray[np.bool_]) -> npt.NDArray[ScalarT]:
        """Return the column. Its values outside ``mask`` are undefined."""
        rows = np.flatnonzero(mask)
        return self._compute(pools, request, rows) if rows.size < len(pools) / _FEW else self.of_all(pools, request)

    def _compute(self, pools: PoolTable, request: Request, rows: Rows) -> npt.NDArray[ScalarT]:
        column = np.full(len(pools), self.default)
        for row, row_results in results(pools, request, rows, self.function):
            column[row] = self.convert(pools, row, row_results)
        return column


def results(pools: PoolTable, request: Request, rows: Rows, function: str) -> Iterator[tuple[int, list[Result]]]:
    """Yield each of these rows whose pool reports the function, with the function's results.

    There is one result or, if the function reads the storage protocol, one for each reported protocol and each of its
    aliases. The result of an invalid function is its error.
    """
    codes, values_of_function = pools.capability_values(function)
    parsed = values_of_function.results(_parsed)
    functions = [
        (row, parsed_function)
        for row, code in zip(rows.tolist(), codes[rows].tolist(), strict=True)
        if (parsed_function := parsed[code])
    ]
    columns: dict[Name, list[Any]] = {}
    for index, (row, expression) in enumerate(functions):
        if isinstance(expression, ExpressionError):
            yield row, [expression]
            continue
        for name in expression.names:
            if name not in columns:
                function_rows = np.array([function_row for function_row, _ in functions], dtype=np.intp)
                columns[name] = attributes.column(pools, request, function_rows, name)
        values = [columns[name][index] for name in expression.names]
        yield row, [_result(expression, variant) for variant in _variants(expression.names, values)]


def of_request(pools: PoolTable, request: Request, function: str) -> tuple[Hashable, ...]:
    """Return the values of the request that the functions of the pools read: a cache key of their results."""
    _, values_of_function = pools.capability_values(function)
    values_of_function.results(_parsed)  # keeps the parsed functions, so that none is parsed again for its names
    names = set().union(*values_of_function.distinct_results(_names_of_request))
    return tuple((name, attributes.of_request(request, name)) for name in sorted(names))


def described(pools: PoolTable, request: Request, row: int, function: str) -> dict[str, Any]:
    """Return the names that a row's function reads, with their values, without names that have none."""
    names = parser.compiled(str(pools.capabilities[row][function])).names
    values = {
        ".".join(name): attributes.column(pools, request, np.array([row], dtype=np.intp), name)[0] for name in names
    }
    return {name: value for name, value in values.items() if value is not MISSING}


def _parsed(function: object) -> Expression | ExpressionError | None:
    """Return a reported function parsed, the error in it, or None if none is reported."""
    return None if function is MISSING or function is None else parser.parsed(str(function))


def _names_of_request(function: object) -> frozenset[Name]:
    """Return the names of a reported function that are values of the request."""
    expression = _parsed(function)
    names = expression.names if isinstance(expression, Expression) else ()
    return frozenset(name for name in names if name[0] not in attributes.OF_POOLS)


def _result(expression: Expression, values: Sequence[Any]) -> Result:
    try:
        return expression.value(values)
    except ExpressionError as error:
        return error


def _variants(names: Sequence[Name], values: list[Any]) -> Iterator[list[Any]]:
    """Yield the values once for each reported protocol and each of its aliases."""
    reported = next((values[i] for i, name in enumerate(names) if name in _PROTOCOL), None)
    protocols = storage_protocols.aliases(reported)
    if not isinstance(protocols, (list, tuple)):
        yield values
        return
    for protocol in protocols:
        yield [protocol if name in _PROTOCOL else value for name, value in zip(names, values, strict=True)]
