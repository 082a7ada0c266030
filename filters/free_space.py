# SPDX-License-Identifier: Apache-2.0
"""Keeps some of every pool's physical space free."""

from typing import ClassVar

import numpy as np
from oslo_config import cfg

from tonnage.capacity import arithmetic
from tonnage.capacity import units
from tonnage.capacity.arithmetic import Floats
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Operation
from tonnage.capacity.request import Request
from tonnage.capacity.request import judged_thin
from tonnage.filters.base import Filter
from tonnage.filters.base import Mask


class FreeSpaceFilter(Filter):
    """Accepts pools in which a least share of the total capacity stays physically free.

    What is free is what was reported, less what has been claimed since and may be taken at once, less a volume that
    would be thick. It bounds what no rule for thin volumes bounds: how full the storage gets under them.

    Where free is unknown or infinite nothing is compared; where only total is, the pool is refused.
    """

    options: ClassVar = (
        cfg.FloatOpt(
            "min_free_capacity_percentage",
            default=10.0,
            min=0,
            max=100,
            help="Least share of a pool's total capacity, in percent, that has to stay physically free for "
            "FreeSpaceFilter to accept it. 0: any.",
        ),
        cfg.FloatOpt(
            "min_free_capacity_extend_percentage",
            min=0,
            max=100,
            help="The same for extending a volume where it is. Not set: min_free_capacity_percentage.",
        ),
    )

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the shares."""
        least = self._least(request)
        if least == 0:
            return np.ones(len(pools), dtype=np.bool_)
        left = np.asarray(_left(pools, request))
        with np.errstate(invalid="ignore"):
            enough = left + arithmetic.TOLERANCE_GB >= pools.total * (least / 100)
        known = np.isfinite(pools.total) & (pools.total > 0)
        return np.asarray(~np.isfinite(left) | (enough & known))

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the share that would be left and the one that has to."""
        least, left = self._least(request), float(_left(pool, request))
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

    def _least(self, request: Request) -> float:
        of_extend = self.conf.min_free_capacity_extend_percentage
        if request.operation is Operation.EXTEND and of_extend is not None:
            return float(of_extend)
        return float(self.conf.min_free_capacity_percentage)


def _left(pools: PoolTable | Pool, request: Request) -> Floats:
    """Return the GiB that would be free with this volume there: one that is thin takes none at once."""
    thin = judged_thin(pools.thin, pools.thick, request.provisioning)
    return np.subtract(arithmetic.physical_free(pools), np.where(thin, 0.0, request.size_gb))
