# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume beside others."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter
from tonnage.filters.base import Mask


class SameBackendFilter(Filter):
    """Accepts pools on the backends of the volumes that the hint ``same_host`` names, and every pool without it."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the backends."""
        if request.same_backends is None:
            return np.ones(len(pools), dtype=np.bool_)
        return pools.on_backends(request.same_backends)

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without the hint."""
        return () if request.same_backends is None else None

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the backends that are meant."""
        wanted = ", ".join(sorted(request.same_backends or ())) or "none that has one of those volumes"
        return Rejection(
            "other_backend", f"is not on the backend that the hint same_host asks for ({wanted})", {"wanted": wanted}
        )
