# SPDX-License-Identifier: Apache-2.0
"""Filter that excludes pools on which an earlier attempt failed."""

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask


class RetryFilter(Filter):
    """Refuses pools that this request was sent to before.

    The scheduler excludes these pools before the filters run, even if this filter is disabled. The filter exists for
    configurations that name it, and for programs that run a filter chain themselves.
    """

    reads_figures = False
    trigger_fields = ("attempted",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        accepted = np.ones(len(pools), dtype=np.bool_)
        tried = [pools.index(name) for name in request.attempted]
        accepted[[row for row in tried if row is not None]] = False
        return accepted

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the number of attempted pools."""
        count = len(request.attempted)
        return Rejection(
            "attempted",
            f"was tried for this volume before (one of {count} pool{'' if count == 1 else 's'} tried)",
            {"attempted": count},
        )
