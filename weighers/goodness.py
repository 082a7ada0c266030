# SPDX-License-Identifier: Apache-2.0
"""Weigher that evaluates the ``goodness_function`` of each pool."""

import functools
import logging

import numpy as np

from tonnage.capacity import plugin_errors
from tonnage.capacity.expressions import evaluation
from tonnage.capacity.expressions.parser import ExpressionError
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Mask, Weigher, Weights

LOG = logging.getLogger(__name__)

FUNCTION = "goodness_function"

#: The best result of a function; the worst is 0.
BEST = 100.0

#: The largest number of characters of an invalid function in the log.
_MAX_QUOTED = 200


class GoodnessWeigher(Weigher):
    """Prefers pools with a larger result of their ``goodness_function``, from 0 (poor) to 100; true is 100, false is 0.

    The function is an expression of :mod:`tonnage.capacity.expressions.parser`. A pool counts as poor if it has no
    function, an invalid one, or any other result. If the function reads the storage protocol and the pool reports
    several, or one with several aliases, the best result counts.
    """

    reads = (FUNCTION,)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Evaluate the functions of all pools. The results are cached until a pool changes."""
        return _GOODNESS.of_all(pools, request)

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        """Evaluate the functions of the candidates only, if these are few."""
        return _GOODNESS.of_some(pools, request, candidates)


def _rating(pools: PoolTable, row: int, result: evaluation.Result) -> float:
    if isinstance(result, bool):
        return BEST if result else 0.0
    if isinstance(result, (int, float)) and 0 <= result <= BEST:
        return float(result)
    problem = result.message if isinstance(result, ExpressionError) else f"comes to {result!r}, not to 0 to 100"
    function = plugin_errors.one_line(str(pools.capabilities[row][FUNCTION]), _MAX_QUOTED)
    _warn(backend_of(pools.names[row]), function, plugin_errors.one_line(problem))
    return 0.0


@functools.lru_cache(maxsize=1000)
def _warn(backend: str, function: str, problem: str) -> None:
    """Log the error of a function; because of the cache, each one is logged once for all pools and decisions."""
    LOG.warning("Backend %s: the goodness_function %r %s; its pools count as poor", backend, function, problem)


_GOODNESS = evaluation.FunctionColumn(
    FUNCTION,
    np.float64(0.0),
    lambda pools, row, results: max((_rating(pools, row, result) for result in results), default=0.0),
)
