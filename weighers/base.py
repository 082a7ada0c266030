# SPDX-License-Identifier: Apache-2.0
"""Base classes of weighers.

A weigher is a class with an entry point in the namespace ``tonnage.weighers``, and is enabled by its name in
``scheduler_default_weighers``. It ranks the candidates, which are the pools that passed the filters. It keeps no state,
reads nothing but its arguments, and does not change them.
"""

import abc
import numbers
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.plugin import SchedulerPlugin

Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]


class Weigher(SchedulerPlugin):
    """A weigher that evaluates all pools at once."""

    #: Whether the weigher reads the column ``volumes``. It is filled only for such weighers, because the volumes are
    #: counted for each decision.
    needs_volumes: ClassVar[bool] = False

    @property
    def multiplier(self) -> float:
        """The factor of this weigher's scaled weights; a negative one reverses its order.

        Override it to return the value of an option.
        """
        return 1.0

    @abc.abstractmethod
    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return a weight for each row of ``pools``: a new array of floats, of any scale, where more is better.

        ``nan`` (or an infinity) marks a pool that cannot be ranked, which then comes after all others. With any other
        result, or an exception, this weigher counts 0 for every pool of this decision.
        """

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        """Return the same as :meth:`weigh`, but evaluate only the candidates.

        Override this method if leaving out the other pools saves work. ``candidates`` is a read-only mask. The values
        returned for other pools are ignored.
        """
        return self.weigh(pools, request)


class PoolWeigher(Weigher):
    """A weigher that evaluates one pool at a time, and only candidates."""

    @abc.abstractmethod
    def weigh_pool(self, pool: Pool, request: Request) -> float:
        """Return the weight of this pool, of any scale; more is better, ``nan`` means that it cannot be ranked."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        return self.weigh_candidates(pools, request, np.ones(len(pools), dtype=np.bool_))

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        weights = np.zeros(len(pools))
        for index in np.flatnonzero(candidates).tolist():
            weight: object = self.weigh_pool(pools.row(index), request)
            if not isinstance(weight, numbers.Real):
                raise TypeError(f"weigh_pool returned {weight!r}, expected a number")
            weights[index] = weight
        return weights
