# SPDX-License-Identifier: Apache-2.0
"""Filter that evaluates the ``filter_function`` of each pool."""

from typing import Any

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions import evaluation
from tonnage.capacity.expressions.parser import ExpressionError
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.filters.base import Filter, Mask

FUNCTION = "filter_function"

#: Capabilities with the limits in GiB of the size of a new volume, which the functions of their pools apply.
LARGEST, SMALLEST = "maximum_volume_size_gb", "minimum_volume_size_gb"


class DriverFilter(Filter):
    """Accepts pools whose ``filter_function`` is true, and pools without one.

    The function is an expression of :mod:`tonnage.capacity.expressions.parser`. An invalid expression, or an expression
    whose value is a text, excludes its own pool only. If the expression uses the storage protocol, and the pool reports
    several protocols or a protocol with several names, it has to be true for one of them.
    """

    reads = (FUNCTION,)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Evaluate the functions of all pools. The results are cached until a pool changes."""
        return _VERDICTS.of_all(pools, request)

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Evaluate the functions of the remaining pools, if these are few."""
        return _VERDICTS.of_some(pools, request, still_in)

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the size limit that the request breaks; or quote the function with the values of its variables, or the
        error in it.
        """
        if (limit := _broken_limit(pool, request)) is not None:
            return limit
        table, text = PoolTable([pool]), _shortened(str(pool.capabilities[FUNCTION]))
        [(_, results)] = evaluation.results(table, request, np.arange(1), FUNCTION)
        wrong = next((result for result in results if isinstance(result, (str, ExpressionError))), None)
        if isinstance(wrong, ExpressionError):
            problem = f"has the filter_function '{text}', which {wrong.message}"
            return Rejection("filter_function_wrong", problem, {"filter_function": text})
        if wrong is not None:
            problem = f"has the filter_function '{text}', which is the text '{_shortened(wrong)}' and no yes or no"
            return Rejection("filter_function_wrong", problem, {"filter_function": text})
        values = {name: _plain(value) for name, value in evaluation.described(table, request, 0, FUNCTION).items()}
        shown = ", ".join(f"{name} is {_formatted(value)}" for name, value in values.items())
        problem = f"has the filter_function '{text}', which does not hold" + (f" ({shown})" if shown else "")
        return Rejection("filter_function", problem, {"filter_function": text, **values})


def _broken_limit(pool: Pool, request: Request) -> Rejection | None:
    """Return the limit of the sizes of new volumes that the pool reports and the request breaks."""
    largest, smallest = pool.capabilities.get(LARGEST), pool.capabilities.get(SMALLEST)
    if request.operation is Operation.EXTEND:
        return None
    if isinstance(largest, (int, float)) and request.size_gb > largest:
        return Rejection(
            "volume_too_large", f"makes no such volume: largest volume is {largest:g} GiB", {LARGEST: largest}
        )
    if isinstance(smallest, (int, float)) and request.size_gb < smallest:
        return Rejection(
            "volume_too_small", f"makes no such volume: smallest volume is {smallest:g} GiB", {SMALLEST: smallest}
        )
    return None


def _holds(result: evaluation.Result) -> bool:
    return not isinstance(result, (str, ExpressionError)) and bool(result)


_VERDICTS = evaluation.FunctionColumn(FUNCTION, np.True_, lambda pools, row, results: any(map(_holds, results)))


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def _plain(value: Any) -> float | str:
    return value if isinstance(value, (int, float)) else _shortened(str(value))


def _formatted(value: float | str) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
