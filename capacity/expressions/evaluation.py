# SPDX-License-Identifier: Apache-2.0
"""What pools' own functions come to: the expressions that drivers report for the scheduler to work out."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import storage_protocols
from tonnage.capacity.expressions import attributes, parser
from tonnage.capacity.expressions.attributes import Rows
from tonnage.capacity.expressions.capability_values import MISSING
from tonnage.capacity.expressions.parser import Expression, ExpressionError, Name, Value
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request

#: What one evaluation came to.
Result: TypeAlias = Value | ExpressionError

#: Names of which a pool may have several values: the protocols that it speaks, or spellings of one.
_PROTOCOL = frozenset({("stats", "storage_protocol"), ("capabilities", "storage_protocol")})

#: Where fewer than one of so many pools is wanted, it is cheaper to work out these than to keep something of all.
_FEW = 16

ScalarT = TypeVar("ScalarT", np.bool_, np.float64)


@dataclass(frozen=True, slots=True)
class Judged(Generic[ScalarT]):
    """A column of what is made of one function of the pools.

    ``judge`` says it of a row of a table by the results of the row's function, ``otherwise`` holds where a pool reports
    none.
    """

    function: str
    otherwise: ScalarT
    judge: Callable[[PoolTable, int, Sequence[Result]], bool | float]

    def of_all(self, pools: PoolTable, request: Request) -> npt.NDArray[ScalarT]:
        """Return the column. It is kept, and worked out anew for pools that have changed."""

        def work_out(pools: PoolTable) -> npt.NDArray[ScalarT]:
            return self._of(pools, request, np.arange(len(pools)))

        key = (self.function, of_request(pools, request, self.function))
        kept: npt.NDArray[ScalarT] = pools.derived(key, work_out)
        return kept

    def of_some(self, pools: PoolTable, request: Request, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[ScalarT]:
        """Return the column, in which rows that are not wanted may have anything."""
        rows = np.flatnonzero(wanted)
        return self._of(pools, request, rows) if rows.size < len(pools) / _FEW else self.of_all(pools, request)

    def _of(self, pools: PoolTable, request: Request, rows: Rows) -> npt.NDArray[ScalarT]:
        column = np.full(len(pools), self.otherwise)
        for row, found in results(pools, request, rows, self.function):
            column[row] = self.judge(pools, row, found)
        return column


def results(pools: PoolTable, request: Request, rows: Rows, function: str) -> Iterator[tuple[int, list[Result]]]:
    """Yield each of these rows whose pool reports that function, with what it comes to.

    That is one result or, where the function looks at the storage protocol, one for each that the pool reports and
    each spelling of that one. What is wrong with a function is its result.
    """
    codes, texts = pools.capability(function)
    parsed = [None if text is MISSING or text is None else _parsed(str(text)) for text in texts]
    having = [
        (row, found) for row, code in zip(rows.tolist(), codes[rows].tolist(), strict=True) if (found := parsed[code])
    ]
    columns: dict[Name, list[Any]] = {}
    for place, (row, expression) in enumerate(having):
        if isinstance(expression, ExpressionError):
            yield row, [expression]
            continue
        for name in expression.names:
            if name not in columns:
                wanted = np.array([each for each, _ in having], dtype=np.intp)
                columns[name] = attributes.column(pools, request, wanted, name)
        values = [columns[name][place] for name in expression.names]
        yield row, [_result(expression, variant) for variant in _variants(expression.names, values)]


def of_request(pools: PoolTable, request: Request, function: str) -> tuple[Hashable, ...]:
    """Return what of the request any pool's function looks at: by the same, each comes to the same till it changes."""
    _, texts = pools.capability(function)
    parsed = (_parsed(str(text)) for text in texts if text is not MISSING and text is not None)
    names = {name for found in parsed if isinstance(found, Expression) for name in found.names}
    return tuple(
        (name, attributes.of_request(request, name)) for name in sorted(names) if name[0] not in attributes.OF_POOLS
    )


def described(pools: PoolTable, request: Request, row: int, function: str) -> dict[str, Any]:
    """Return the values of the names that a row's function looks at, by name, without those that have none."""
    names = parser.compiled(str(pools.capabilities[row][function])).names
    values = {
        ".".join(name): attributes.column(pools, request, np.array([row], dtype=np.intp), name)[0] for name in names
    }
    return {name: value for name, value in values.items() if value is not MISSING}


def _parsed(text: str) -> Expression | ExpressionError:
    try:
        return parser.compiled(text)
    except ExpressionError as error:
        return error


def _result(expression: Expression, values: Sequence[Any]) -> Result:
    try:
        return expression.value(values)
    except ExpressionError as error:
        return error


def _variants(names: Sequence[Name], values: list[Any]) -> Iterator[list[Any]]:
    """Yield the values once for each protocol that a pool reports, in each spelling."""
    reported = next((values[i] for i, name in enumerate(names) if name in _PROTOCOL), None)
    spelled = storage_protocols.spellings(reported)
    if not isinstance(spelled, (list, tuple)):
        yield values
        return
    for protocol in spelled:
        yield [protocol if name in _PROTOCOL else value for name, value in zip(names, values, strict=True)]
