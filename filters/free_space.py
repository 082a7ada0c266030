# SPDX-License-Identifier: Apache-2.0
"""Keeps some of every pool's physical space free."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from oslo_config import cfg

from tonnage.capacity import arithmetic, units
from tonnage.capacity.decision import Rejection
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.expressions.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request, judged_thin
from tonnage.filters.base import Filter, Mask

#: Options of the filter, of the sections of backends and pools, and capabilities that these report.
_CREATE = "min_free_capacity_percentage"
_EXTEND = "min_free_capacity_extend_percentage"


class FreeSpaceFilter(Filter):
    """Accepts pools in which a least share of the total capacity stays physically free.

    What is free is what was reported, less what has been claimed since and may be taken at once, less a volume that
    would be thick. It bounds what no rule for thin volumes bounds: how full the storage gets under them.

    Where free is unknown or infinite nothing is compared; where only total is, the pool is refused.

    A pool that reports a capability of an option's name goes by that. What is no percentage refuses it.
    """

    options: ClassVar = (
        cfg.FloatOpt(
            _CREATE,
            default=10.0,
            min=0,
            max=100,
            help="Least share of a pool's total capacity, in percent, that has to stay physically free for "
            "FreeSpaceFilter to accept it. 0: any. The section of a backend or pool may have another.",
        ),
        cfg.FloatOpt(
            _EXTEND,
            min=0,
            max=100,
            help="The same for extending a volume where it is. Not set: min_free_capacity_percentage.",
        ),
    )

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the shares."""
        least = self._least(request, lambda name: _column(pools, name))
        left = np.asarray(_left(pools, request))
        with np.errstate(invalid="ignore"):
            enough = left + arithmetic.TOLERANCE_GB >= pools.total * (np.asarray(least) / 100)
        known = np.isfinite(pools.total) & (pools.total > 0)
        return np.asarray(np.equal(least, 0) | (np.greater(least, 0) & (~np.isfinite(left) | (enough & known))))

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the share that would be left and the one that has to."""
        least = float(self._least(request, lambda name: _percentage(pool.capabilities.get(name, MISSING))))
        if least < 0:
            wrong = {
                name: pool.capabilities[name]
                for name in (_CREATE, _EXTEND)
                if _percentage(pool.capabilities.get(name, MISSING)) < 0
            }
            listed = " and ".join(f"{name} = {value!r}" for name, value in wrong.items())
            return Rejection("free_space_wrong", f"reports {listed}, which is no percentage from 0 to 100", wrong)
        left = float(_left(pool, request))
        numbers = {
            "total": units.to_wire(pool.total),
            "free": units.to_wire(pool.free),
            "in_flight": pool.in_flight_physical,
            "left": left,
            "least_percentage": least,
        }
        if not 0 < pool.total < float("inf"):
            problem = f"has a total capacity of {units.to_wire(pool.total)}, of which {least:g} % cannot be kept free"
            return Rejection("total_unknown", problem, numbers)
        share = 100 * left / pool.total
        problem = (
            f"would have {left:.2f} GiB free, {share:.2f} % of its {pool.total:g}, and has to keep {least:g} % "
            f"(free {pool.free:g}, in flight {pool.in_flight_physical:g})"
        )
        return Rejection("free_space", problem, numbers)

    def _least(self, request: Request, reported: Callable[[str], Floats]) -> Floats:
        """Return the least percentage, of one pool or of each, by what is ``reported``; see :func:`_percentage`.

        For each of the two that of the pool goes before that of the configuration, and where none is for extends, that
        for new volumes counts.
        """
        least = _first(reported(_CREATE), self.conf.min_free_capacity_percentage)
        if request.operation is Operation.EXTEND:
            of_extend = self.conf.min_free_capacity_extend_percentage
            least = _first(_first(reported(_EXTEND), np.nan if of_extend is None else of_extend), least)
        return least


def _first(wanted: Floats, otherwise: Floats) -> Floats:
    return np.where(np.isnan(wanted), otherwise, wanted)[()]


def _column(pools: PoolTable, name: str) -> Floats:
    """Return what the pools report as a percentage, each distinct value looked at once."""
    codes, values = pools.capability(name)
    percentages = np.array([_percentage(value) for value in values], dtype=np.float64)
    # Nobody reports it, as a rule.
    return np.nan if np.isnan(percentages).all() else percentages[codes]


def _percentage(value: object) -> float:
    """Return a reported percentage, ``nan`` where there is none and -1 for what is none."""
    if value is MISSING or value is None:
        return np.nan
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return -1.0
    try:
        number = float(value)
    except ValueError:
        return -1.0
    return number if 0 <= number <= 100 else -1.0


def _left(pools: PoolTable | Pool, request: Request) -> Floats:
    """Return the GiB that would be free with this volume there: one that is thin takes none at once."""
    thin = judged_thin(pools.thin, pools.thick, request.provisioning)
    return np.subtract(arithmetic.physical_free(pools), np.where(thin, 0.0, request.size_gb))
