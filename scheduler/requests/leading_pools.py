# SPDX-License-Identifier: Apache-2.0
"""The pools with the largest weights, from which most requests are decided without a look at all pools.

Among a million pools, a comparison of every pool with the size of a request takes some milliseconds. The request goes
to the pool with the largest weight that has room for it, so it is enough to look at the pools with the largest weights,
as long as one of them has room. Which pools these are changes with the pools that a claim or a report has changed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Mask
from tonnage.weighers import selection
from tonnage.weighers.base import Weights

#: The number of pools from which on leading pools are kept. Fewer pools are compared in less time.
SMALLEST_TABLE = 50_000

#: The number of leading pools when they are found, and the most to which it may grow.
_USUAL, _MOST = 1024, 8192

#: The most sets of leading pools, of which each is for one kind of requests.
_MOST_SETS = 64

#: The largest absolute weight, in GiB. Weights have two decimals, and when larger ones are scaled, they could be equal.
_LARGEST = 1e12

_Rows = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Leaders:
    """All acceptable pools with a weight of at least ``least``, by row, as of so many changes of the table."""

    rows: _Rows
    least: float
    change_count: int


class LeadingPools:
    """The leading pools of a table for each kind of requests. Belongs to the thread of the table."""

    def __init__(self) -> None:
        self._sets: OrderedDict[Hashable, _Leaders] = OrderedDict()

    def best(
        self, pools: PoolTable, request: Request, key: Hashable, accepted: Mask, weights: Weights, bounds: Weights
    ) -> int | None:
        """Return the row of the responsive pool with the largest finite weight among those that take the request.

        ``accepted`` are the pools that all filters but that of the capacity accept, ``bounds`` has the largest size
        that each pool accepts. ``accepted`` and ``weights`` depend on nothing but ``key`` and the pool. None: no
        leading pool takes the request.
        """
        leaders = self._sets.get(key)
        if leaders is None or not _update(leaders, pools, accepted, weights):
            leaders = self._sets[key] = _find(pools, accepted, weights)
            if len(self._sets) > _MOST_SETS:
                self._sets.popitem(last=False)
        self._sets.move_to_end(key)
        rows = leaders.rows[bounds[leaders.rows] >= request.size_gb]
        if not rows.size:
            return None
        own = weights[rows]
        return selection.first(pools, request, rows[own == own.max()])


def _find(pools: PoolTable, accepted: Mask, weights: Weights) -> _Leaders:
    """Return the leading pools after a look at all pools; no pools if too many of them have the same weight."""
    acceptable = accepted & pools.responsive & np.isfinite(weights)
    rows = np.flatnonzero(acceptable)
    own = weights[rows]
    least = -np.inf
    if rows.size and np.abs(own).max() > _LARGEST:
        rows, least = rows[:0], np.inf
    elif rows.size > _USUAL:
        least = float(np.partition(own, rows.size - _USUAL)[rows.size - _USUAL])
        rows = rows[own >= least]
    if rows.size > _MOST:
        rows, least = rows[:0], np.inf
    return _Leaders(rows, least, pools.change_count)


def _update(leaders: _Leaders, pools: PoolTable, accepted: Mask, weights: Weights) -> bool:
    """Bring leading pools up to the changes of the table; return False if they have to be found again."""
    if leaders.change_count == pools.change_count:
        return True
    changed = pools.changed_since(leaders.change_count)
    if changed is None:
        return False
    if leaders.least == np.inf:
        # They cannot be kept, and another look at all pools would show the same until many of them have changed.
        return True
    rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
    own = weights[rows]
    is_finite = np.isfinite(own)
    if (np.abs(own[is_finite]) > _LARGEST).any():
        return False
    leads = accepted[rows] & pools.responsive[rows] & is_finite & (own >= leaders.least)
    unchanged = leaders.rows[~np.isin(leaders.rows, rows)]
    leaders.rows = np.concatenate([unchanged[unchanged < len(pools)], rows[leads]])
    leaders.change_count = pools.change_count
    return leaders.rows.size <= _MOST and (leaders.rows.size > 0 or leaders.least == -np.inf)
