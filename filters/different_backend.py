# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume away from others."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter
from tonnage.filters.base import Mask


class DifferentBackendFilter(Filter):
    """Refuses pools on the backends of the volumes that the hint ``different_host`` names."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the backends."""
        if request.different_backends is None:
            return np.ones(len(pools), dtype=np.bool_)
        return ~pools.on_backends(request.different_backends)

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without the hint."""
        return () if request.different_backends is None else None

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the backend that is to be avoided."""
        return Rejection(
            "same_backend",
            f"is on {pool.backend}, where a volume is that the hint different_host names",
            {"backend": pool.backend},
        )
