# SPDX-License-Identifier: Apache-2.0
"""Selection of a pool by its weights: the best one, or a weighted random one."""

import abc
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import stable_hash
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Weights

# Odd constants of the splitmix64 generator, by Sebastiano Vigna.
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_ALL = 2**64 - 1

#: Up to this number of rows, numbers are computed one by one, which is faster.
_FEW = 8


def shuffled(
    pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str = ""
) -> npt.NDArray[np.uint64]:
    """Return numbers that order these rows at random. Numbers for different purposes are independent."""
    mixed: npt.NDArray[np.uint64] = _mixed(pools.name_hash[rows] ^ np.uint64(stable_hash(purpose + request.request_id)))
    return mixed


def first(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> int:
    """Return the first row in the order of :func:`shuffled`."""
    if len(rows) == 1:
        return int(rows[0])
    if len(rows) > _FEW:
        return int(rows[shuffled(pools, request, rows).argmin()])
    seed = stable_hash(request.request_id)
    order = [_mixed(number ^ seed) for number in pools.name_hash[rows].tolist()]
    return int(rows[order.index(min(order))])


def _mixed(bits: Any) -> Any:
    """Mix the 64 bits of a number, or of each number in a column."""
    bits = bits * _MIX_1 & _ALL
    return (bits ^ bits >> 31) * _MIX_2 & _ALL


def chances(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str) -> npt.NDArray[np.float64]:
    """Return for each of these rows a uniform random number between 0 and 1, both excluded."""
    return ((shuffled(pools, request, rows, purpose) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


class Selection(abc.ABC):
    """A rule that selects a pool by raw weights. All methods receive only candidates with finite weights."""

    #: Whether :meth:`scaled` reverses the weights for a negative multiplier. Else the multiplier does.
    reverses: ClassVar[bool] = False

    @abc.abstractmethod
    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return one weigher's weights, of which ``low`` and ``high`` are the extremes, scaled to 0..1."""

    @abc.abstractmethod
    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        """Return finite scores of these rows from their totals: the largest score is selected."""


class Ordered(Selection):
    """Selects the pool with the largest total.

    Weights are scaled linearly over the candidates: the smallest to 0, the largest to 1; equal weights all to 0.
    """

    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return the weights scaled linearly to 0..1."""
        if low == high:
            return np.zeros(raw.size)
        scaled = raw - low
        scaled /= high - low
        return scaled

    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        return totals


class Stochastic(Selection):
    """Selects a random pool, with a probability in proportion to its weights.

    Each weigher has shares that add up to 1, in proportion to its raw weights; its multiplier is the size of its part
    among the weighers. So the units of the weighers do not matter. If a weigher returns negative weights, its smallest
    weight counts as 0. A negative multiplier reverses the weights: ``smallest + largest - weight``.

    The algorithm is that of Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006): for random
    numbers *u* between 0 and 1, the pool with the largest ``ln(u) / total`` is selected. The next one in this order is
    the pool that would be selected without the first.
    """

    reverses = True

    def scaled(self, raw: Weights, low: float, high: float, multiplier: float) -> Weights:
        """Return each weight as a share of the sum."""
        least = min(low, 0.0)
        largest = high - least
        if largest == 0:
            return np.full(raw.size, 1 / raw.size)
        directed = raw - least if multiplier >= 0 else low + (high - least) - raw
        weights = directed / largest
        return np.asarray(weights / weights.sum())

    def scores(self, totals: Weights, pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> Weights:
        """Return random scores; pools without a share come last."""
        last = np.finfo(np.float64).min
        with np.errstate(divide="ignore", over="ignore"):
            drawn = np.log(chances(pools, request, rows, "selection")) / totals
        return np.asarray(np.maximum(np.where(totals > 0, drawn, last), last))


_HANDLERS: dict[str, type[Selection]] = {
    "OrderedHostWeightHandler": Ordered,
    "StochasticHostWeightHandler": Stochastic,
}


def named(name: str) -> Selection:
    """Return the selection with that name, with or without its Cinder module as a prefix.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unknown name.
    """
    selection_class = _HANDLERS.get(name.strip().rpartition(".")[2])
    if selection_class is None:
        names = ", ".join(_HANDLERS)
        raise errors.ConfigurationError(f"scheduler_weight_handler names '{name}', which is unknown; known are {names}")
    return selection_class()
