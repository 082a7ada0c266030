# SPDX-License-Identifier: Apache-2.0
"""Filter that keeps a share of every pool's physical capacity free."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from oslo_config import cfg

from tonnage.capacity import arithmetic, units
from tonnage.capacity.decision import Rejection
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import rule_fields
from tonnage.capacity.request import Operation, Request, judged_thin
from tonnage.filters.base import Filter, Mask

#: Names of the filter's options, of options in the sections of backends and pools, and of reported capabilities.
_CREATE = "min_free_capacity_percentage"
_EXTEND = "min_free_capacity_extend_percentage"


class FreeSpaceFilter(Filter):
    """Accepts pools in which a minimum share of the total capacity stays physically free.

    The free capacity is the reported one, less the later claims that may allocate physical space at once, less the
    requested size if the volume is thick. The rules for thin volumes do not limit the physical use of the storage; this
    filter does.

    A pool whose free capacity is unknown or infinite is accepted. A pool with a known free capacity, but an unknown or
    infinite total capacity, is refused.

    A capability with the name of an option overrides the option for its pool. A value that is not a percentage from 0
    to 100 refuses the pool.
    """

    reads = (_CREATE, _EXTEND)
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
        """Compare the share that stays free with the minimum."""
        minimum = self._minimum(request, lambda name: _column(pools, name))
        remaining = np.asarray(_free_after(pools, request))
        with np.errstate(invalid="ignore"):
            enough = remaining + arithmetic.TOLERANCE_GB >= pools.total * (np.asarray(minimum) / 100)
        total_known = np.isfinite(pools.total) & (pools.total > 0)
        return np.asarray(
            np.equal(minimum, 0) | (np.greater(minimum, 0) & (~np.isfinite(remaining) | (enough & total_known)))
        )

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the share that would stay free and the minimum."""
        minimum = float(self._minimum(request, lambda name: _percentage(pool.capabilities.get(name, MISSING))))
        if minimum < 0:
            wrong = {
                name: pool.capabilities[name]
                for name in (_CREATE, _EXTEND)
                if _percentage(pool.capabilities.get(name, MISSING)) < 0
            }
            listed = " and ".join(f"{name} = {value!r}" for name, value in wrong.items())
            return Rejection("free_space_wrong", f"reports {listed}, which is no percentage from 0 to 100", wrong)
        remaining = float(_free_after(pool, request))
        numbers = {
            "total": units.to_wire(pool.total),
            "free": units.to_wire(pool.free),
            "in_flight": pool.in_flight_physical,
            "left": remaining,
            "least_percentage": minimum,
        }
        if not 0 < pool.total < float("inf"):
            problem = f"has a total capacity of {units.to_wire(pool.total)}, of which {minimum:g} % cannot be kept free"
            return Rejection("total_unknown", problem, numbers)
        share = 100 * remaining / pool.total
        problem = (
            f"would have {remaining:.2f} GiB free, {share:.2f} % of its {pool.total:g}, and has to keep {minimum:g} % "
            f"(free {pool.free:g}, in flight {pool.in_flight_physical:g})"
        )
        return Rejection("free_space", problem, numbers)

    def _minimum(self, request: Request, reported: Callable[[str], Floats]) -> Floats:
        """Return the minimum percentage of one pool or, as an array, of each pool.

        ``reported`` returns the percentage that pools report under a name, as defined by :func:`_percentage`. It
        precedes the configured value. Without a value for extends the value for new volumes applies to extends too.
        """
        minimum = _or_default(reported(_CREATE), self.conf.min_free_capacity_percentage)
        if request.operation is Operation.EXTEND:
            for_extend = self.conf.min_free_capacity_extend_percentage
            minimum = _or_default(_or_default(reported(_EXTEND), np.nan if for_extend is None else for_extend), minimum)
        return minimum


def _or_default(percentages: Floats, default: Floats) -> Floats:
    return np.where(np.isnan(percentages), default, percentages)[()]


def _column(pools: PoolTable, name: str) -> Floats:
    """Return the percentages that pools report under a name; each distinct value is parsed once."""
    codes, values = pools.capability(name)
    percentages = np.array([_percentage(value) for value in values], dtype=np.float64)
    # Usually no pool reports it.
    return np.nan if np.isnan(percentages).all() else percentages[codes]


def _percentage(value: object) -> float:
    """Return a reported percentage, ``nan`` for a missing value, and -1 for any other value."""
    if value is MISSING or value is None:
        return np.nan
    number = rule_fields.percentage(value)
    return -1.0 if math.isnan(number) else number


def _free_after(pools: PoolTable | Pool, request: Request) -> Floats:
    """Return the free GiB after placing the volume. A thin volume takes no physical space at once."""
    thin = judged_thin(pools.thin, pools.thick, request.provisioning)
    return np.subtract(arithmetic.physical_free(pools), np.where(thin, 0.0, request.size_gb))
