# SPDX-License-Identifier: Apache-2.0
"""Lets pools say themselves what they take."""

from typing import Any

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions import evaluation
from tonnage.capacity.expressions.parser import ExpressionError
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

FUNCTION = "filter_function"


class DriverFilter(Filter):
    """Accepts pools whose ``filter_function`` holds, and those that report none.

    The function is an expression of :mod:`tonnage.capacity.expressions.parser`. One that is wrong, or that comes to a
    text, keeps its pool out and no other. Where it looks at the storage protocol and the pool reports several, or one
    that has several spellings, one of them has to do.
    """

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Work out the functions of all pools; what they come to is kept until a pool changes."""
        return _VERDICTS.of_all(pools, request)

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Work out the functions of the pools that are still in, where these are few."""
        return _VERDICTS.of_some(pools, request, still_in)

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Quote the function with the values in it, or what is wrong with it."""
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
        shown = ", ".join(f"{name} is {_spelled(value)}" for name, value in values.items())
        problem = f"has the filter_function '{text}', which does not hold" + (f" ({shown})" if shown else "")
        return Rejection("filter_function", problem, {"filter_function": text, **values})


def _holds(result: evaluation.Result) -> bool:
    return not isinstance(result, (str, ExpressionError)) and bool(result)


_VERDICTS = evaluation.Judged(FUNCTION, np.True_, lambda pools, row, results: any(map(_holds, results)))


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def _plain(value: Any) -> float | str:
    return value if isinstance(value, (int, float)) else _shortened(str(value))


def _spelled(value: float | str) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
