# SPDX-License-Identifier: Apache-2.0
"""Lets pools say themselves how well a request suits them."""

import functools
import logging

import numpy as np

from tonnage.capacity import plugin_errors
from tonnage.capacity.expressions import evaluation
from tonnage.capacity.expressions.parser import ExpressionError
from tonnage.capacity.names import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Mask, Weigher, Weights

LOG = logging.getLogger(__name__)

FUNCTION = "goodness_function"

#: The best that a function can say; the worst is 0.
BEST = 100.0

#: So many characters of a wrong function are quoted in the log: drivers may report any number of them.
_MOST = 200


class GoodnessWeigher(Weigher):
    """Prefers pools whose ``goodness_function`` comes to more, from 0 (poor) to 100 (perfect); yes is 100 and no is 0.

    The function is an expression of :mod:`tonnage.capacity.expressions.parser`. A pool without one, with one that is
    wrong, or that comes to anything else, counts as poor. Where it looks at the storage protocol and the pool reports
    several, or one that has several spellings, the best one counts.
    """

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Work out the functions of all pools; what they come to is kept until a pool changes."""
        return _GOODNESS.of_all(pools, request)

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        """Work out the functions of the candidates, where these are few."""
        return _GOODNESS.of_some(pools, request, candidates)


def _rating(pools: PoolTable, row: int, result: evaluation.Result) -> float:
    if isinstance(result, bool):
        return BEST if result else 0.0
    if isinstance(result, (int, float)) and 0 <= result <= BEST:
        return float(result)
    problem = result.message if isinstance(result, ExpressionError) else f"comes to {result!r}, not to 0 to 100"
    function = plugin_errors.one_line(str(pools.capabilities[row][FUNCTION]), _MOST)
    _warn(backend_of(pools.names[row]), function, plugin_errors.one_line(problem))
    return 0.0


@functools.lru_cache(maxsize=1000)
def _warn(backend: str, function: str, problem: str) -> None:
    """Log what is wrong with a function; the cache makes it once, however many pools and decisions meet it."""
    LOG.warning("Backend %s: the goodness_function %r %s; its pools count as poor", backend, function, problem)


_GOODNESS = evaluation.Judged(
    FUNCTION,
    np.float64(0.0),
    lambda pools, row, results: max((_rating(pools, row, result) for result in results), default=0.0),
)
