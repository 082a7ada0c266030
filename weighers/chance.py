# SPDX-License-Identifier: Apache-2.0
"""Weigher that spreads volumes at random."""

import numpy as np

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers import selection
from tonnage.weighers.base import Weigher, Weights


class ChanceWeigher(Weigher):
    """Gives every pool a random weight for each request."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return a random number between 0 and 1 for each pool."""
        return selection.chances(pools, request, np.arange(len(pools)), "weight")
