# SPDX-License-Identifier: Apache-2.0
"""What a weigher is.

A weigher is a class, found by its entry point in the namespace ``tonnage.weighers`` and enabled by its name in
``scheduler_default_weighers``. It ranks the pools that the filters left. It keeps no state, works on nothing but the
pools and the request it is given, and changes neither.
"""

import abc
import copy
import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request

Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]


class Weigher(abc.ABC):
    """A weigher that answers for all pools at once."""

    #: What explanations call the weigher: the name it is enabled by, the class name until it is loaded.
    name: str = ""

    #: Options of the weigher, registered in the section ``options_group`` (none: ``[DEFAULT]``) before it is made.
    options: ClassVar[Sequence[cfg.Opt]] = ()
    options_group: ClassVar[str | None] = None

    #: Whether the column ``volumes`` is read. Only then is it filled, as volumes are counted anew for each decision.
    needs_volumes: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, conf: Any) -> None:
        """``conf`` has as attributes the values of the weigher's own options, and ``over_provisioning_calculation``."""
        self.conf = conf

    @property
    def multiplier(self) -> float:
        """How much this weigher counts beside the others; negative turns its order round.

        Override it to return the value of an option.
        """
        return 1.0

    def judged_by(self, calculation: Calculation) -> Self:
        """Return this weigher as it is under another ``over_provisioning_calculation``, for what-if questions."""
        conf = copy.copy(self.conf)
        conf.over_provisioning_calculation = calculation
        other = type(self)(conf)
        other.name = self.name
        return other

    @abc.abstractmethod
    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return a weight for each row of ``pools``: a new array of as many floats, of any scale, more is better.

        ``nan`` (and any infinity) is for a pool that cannot be ranked, which then comes after all others. Whatever else
        is returned, and any exception, makes this weigher count 0 for every pool of this decision.
        """

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        """As :meth:`weigh`, for a weigher that can save work by leaving out pools that are no candidates.

        ``candidates`` is read-only. What is answered for other pools does not matter.
        """
        return self.weigh(pools, request)


class PoolWeigher(Weigher):
    """A weigher that looks at one pool at a time, and only at candidates."""

    @abc.abstractmethod
    def weigh_pool(self, pool: Pool, request: Request) -> float:
        """Return the weight of this pool, of any scale; more is better, ``nan`` cannot be ranked."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Ask for every pool."""
        return self.weigh_candidates(pools, request, np.ones(len(pools), dtype=np.bool_))

    def weigh_candidates(self, pools: PoolTable, request: Request, candidates: Mask) -> Weights:
        """Ask for the candidates."""
        weights = np.zeros(len(pools))
        for index in np.flatnonzero(candidates).tolist():
            weight: object = self.weigh_pool(pools.row(index), request)
            if not isinstance(weight, numbers.Real):
                raise TypeError(f"weigh_pool returned {weight!r}, expected a number")
            weights[index] = weight
        return weights
