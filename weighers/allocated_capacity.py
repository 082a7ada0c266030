# SPDX-License-Identifier: Apache-2.0
"""Weigher that spreads volumes by allocated capacity."""

from typing import ClassVar

from oslo_config import cfg

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Weigher, Weights


class AllocatedCapacityWeigher(Weigher):
    """Prefers the pool with the least allocated capacity, as its multiplier is negative by default."""

    options: ClassVar = (
        cfg.FloatOpt(
            "allocated_capacity_weight_multiplier",
            default=-1.0,
            help="How much allocated capacity counts when a pool is chosen. Positive numbers fill one pool before the "
            "next.",
        ),
    )

    @property
    def multiplier(self) -> float:
        """The value of the option ``allocated_capacity_weight_multiplier``."""
        return float(self.conf.allocated_capacity_weight_multiplier)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return the allocated capacity in GiB."""
        return pools.allocated.copy()
