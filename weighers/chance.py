# SPDX-License-Identifier: Apache-2.0
"""Spreads volumes by chance."""

import numpy as np

from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers import shuffle
from tonnage.weighers.base import Weigher
from tonnage.weighers.base import Weights


class ChanceWeigher(Weigher):
    """Gives every pool a weight by chance, drawn anew for each request."""

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Draw a number between 0 and 1 for every pool."""
        return shuffle.chances(pools, request, np.arange(len(pools)), "weight")
