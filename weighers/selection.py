# SPDX-License-Identifier: Apache-2.0
"""How a pool is chosen by its weights: the best one, or by lot."""

import abc

import numpy as np
import numpy.typing as npt

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers import tie_break
from tonnage.weighers.base import Weights


class Selection(abc.ABC):
    """What becomes of raw weights. Everything here is about candidates alone, and finite weights."""

    @abc.abstractmethod
    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return one weigher's weights, which lie between low and high, brought to 0..1. At least one is given."""

    @abc.abstractmethod
    def part(self, scaled: Weights, multiplier: float) -> Weights:
        """Return what the scaled weights add to the totals."""

    @abc.abstractmethod
    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        """Return finite scores of these rows, whose totals are given: the largest is chosen."""


class Ordered(Selection):
    """The pool of the largest total is chosen.

    Weights are scaled linearly over the candidates: the smallest to 0, the largest to 1, all to 0 where all are equal.
    """

    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return the weights from 0, the smallest, to 1."""
        if low == high:
            return np.zeros(raw.size)
        scaled = raw - low
        scaled /= high - low
        return scaled

    def part(self, scaled: Weights, multiplier: float) -> Weights:
        """Return the product."""
        return scaled * multiplier

    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        """Return the totals."""
        return totals


class Stochastic(Selection):
    """Every pool has a chance, which is as large as its share of the weights.

    Each weigher deals out shares that add up to 1, in proportion to its raw weights; its multiplier says how many such
    lots it has among the weighers. So whatever units weighers use, none drowns the others. Where a weigher gives
    negative weights, its smallest counts as 0. A negative multiplier turns the weights round, the smallest for the
    largest: ``smallest + largest - weight``.

    The lots are drawn as in Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006): with chances
    *u* between 0 and 1 the largest ``ln(u) / total`` wins, and the next one is what would win without the first.
    """

    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return each weight's share of all."""
        least = min(low, 0.0)
        largest = high - least
        if largest == 0:
            return np.full(raw.size, 1 / raw.size)
        turned = raw - least if multiplier >= 0 else low + (high - least) - raw
        weights = turned / largest
        return np.asarray(weights / weights.sum())

    def part(self, scaled: Weights, multiplier: float) -> Weights:
        """Return the shares as many times as the multiplier says, whatever its sign: that has turned the weights."""
        return scaled * abs(multiplier)

    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        """Draw; what has no share comes last."""
        last = np.finfo(np.float64).min
        with np.errstate(divide="ignore", over="ignore"):
            drawn = np.log(tie_break.chances(pools, request, rows, "selection")) / totals
        return np.asarray(np.maximum(np.where(totals > 0, drawn, last), last))


_HANDLERS: dict[str, type[Selection]] = {
    "OrderedHostWeightHandler": Ordered,
    "StochasticHostWeightHandler": Stochastic,
}


def named(name: str) -> Selection:
    """Return the selection of that name, which may have the name of its Cinder module before it.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for any other.
    """
    kind = _HANDLERS.get(name.strip().rpartition(".")[2])
    if kind is None:
        known = ", ".join(_HANDLERS)
        raise errors.ConfigurationError(f"scheduler_weight_handler names '{name}', which is unknown; known are {known}")
    return kind()
