# SPDX-License-Identifier: Apache-2.0
"""What pools' own functions come to: the expressions that drivers report for the scheduler to work out."""

from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import numpy as np

from tonnage.capacity import attributes
from tonnage.capacity import expressions
from tonnage.capacity.attributes import Rows
from tonnage.capacity.expressions import Expression
from tonnage.capacity.expressions import ExpressionError
from tonnage.capacity.expressions import Name
from tonnage.capacity.expressions import Value
from tonnage.capacity.pools import MISSING
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request

#: What one evaluation came to.
Result: TypeAlias = Value | ExpressionError

#: Names of which a pool may report several values: the protocols that it speaks, or spellings of one.
_PROTOCOL = frozenset({("stats", "storage_protocol"), ("capabilities", "storage_protocol")})


def results(pools: PoolTable, request: Request, rows: Rows, function: str) -> Iterator[tuple[int, list[Result]]]:
    """Yield each of these rows whose pool reports that function, with what it comes to.

    That is one result, or, where the function looks at the storage protocol, one for each that the pool reports. What
    is wrong with a function is its result.
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
    """Return what of the request any pool's function looks at: with the same, each comes to the same until it changes.

    Results may be kept under it, see :meth:`~tonnage.capacity.pools.PoolTable.derived`.
    """
    _, texts = pools.capability(function)
    parsed = (_parsed(str(text)) for text in texts if text is not MISSING and text is not None)
    names = {name for found in parsed if isinstance(found, Expression) for name in found.names}
    return tuple(
        (name, attributes.of_request(request, name)) for name in sorted(names) if name[0] not in attributes.OF_POOLS
    )


def described(pools: PoolTable, request: Request, row: int, function: str) -> dict[str, Any]:
    """Return the values of the names that a row's function looks at, by name, without those that have none."""
    names = expressions.compiled(str(pools.capabilities[row][function])).names
    values = {
        ".".join(name): attributes.column(pools, request, np.array([row], dtype=np.intp), name)[0] for name in names
    }
    return {name: value for name, value in values.items() if value is not MISSING}


def _parsed(text: str) -> Expression | ExpressionError:
    try:
        return expressions.compiled(text)
    except ExpressionError as error:
        return error


def _result(expression: Expression, values: Sequence[Any]) -> Result:
    try:
        return expression.value(values)
    except ExpressionError as error:
        return error


def _variants(names: Sequence[Name], values: list[Any]) -> Iterator[list[Any]]:
    """Yield the values once for each protocol that a pool reports."""
    protocols = next((values[i] for i, name in enumerate(names) if name in _PROTOCOL), None)
    if not isinstance(protocols, (list, tuple)):
        yield values
        return
    for protocol in protocols:
        yield [protocol if name in _PROTOCOL else value for name, value in zip(names, values, strict=True)]
