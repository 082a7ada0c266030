# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume from pools that have failed it."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask


class RetryFilter(Filter):
    """Refuses pools that this request was sent to before.

    The scheduler keeps them out before any filter is asked, whatever is enabled. The filter is there for
    configurations that name it, and for programs that run filters of their own.
    """

    looks_at_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Leave out the pools that were tried."""
        accepted = np.ones(len(pools), dtype=np.bool_)
        tried = [pools.index(name) for name in request.attempted]
        accepted[[row for row in tried if row is not None]] = False
        return accepted

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request that was not sent anywhere."""
        return None if request.attempted else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Say how many pools were tried."""
        count = len(request.attempted)
        return Rejection(
            "attempted",
            f"was tried for this volume before (one of {count} pool{'' if count == 1 else 's'} tried)",
            {"attempted": count},
        )
