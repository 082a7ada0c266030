# SPDX-License-Identifier: Apache-2.0
"""Spreads volumes by chance."""

import numpy as np

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers import tie_break
from tonnage.weighers.base import Weigher, Weights


class ChanceWeigher(Weigher):
    """Gives every pool a weight by chance, drawn anew for each request."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Draw a number between 0 and 1 for every pool."""
        return tie_break.chances(pools, request, np.arange(len(pools)), "weight")
