# SPDX-License-Identifier: Apache-2.0
"""Weigher that spreads volumes by the number of volumes in each pool."""

from typing import ClassVar

from oslo_config import cfg

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.base import Weigher, Weights


class VolumeNumberWeigher(Weigher):
    """Prefers the pool with the fewest volumes, as its multiplier is negative by default."""

    options: ClassVar = (
        cfg.FloatOpt(
            "volume_number_multiplier",
            default=-1.0,
            help="How much the number of volumes counts when a pool is chosen. Positive numbers fill one pool before "
            "the next.",
        ),
    )
    needs_volumes: ClassVar[bool] = True

    @property
    def multiplier(self) -> float:
        """The value of the option ``volume_number_multiplier``."""
        return float(self.conf.volume_number_multiplier)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return the number of volumes in each pool."""
        return pools.volumes.copy()
