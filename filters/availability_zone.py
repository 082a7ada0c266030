# SPDX-License-Identifier: Apache-2.0
"""Filter that keeps a volume in the availability zone of its request."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask


class AvailabilityZoneFilter(Filter):
    """Accepts pools in the zone that the request names, and every pool where it names none."""

    is_categorical = True
    trigger_fields = ("availability_zone",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        if not request.availability_zone:
            return np.ones(len(pools), dtype=np.bool_)
        return pools.in_zone(request.availability_zone)

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Cache one set of verdicts for each zone."""
        return (request.availability_zone,)

    def reason(self, pool: Pool, request: Request) -> Rejection:
        return Rejection(
            "wrong_zone",
            f"is in availability zone '{pool.availability_zone}', not '{request.availability_zone}'",
            {"availability_zone": pool.availability_zone, "asked": request.availability_zone},
        )
