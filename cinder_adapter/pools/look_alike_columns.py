# SPDX-License-Identifier: Apache-2.0
"""The figures and capabilities of pools as columns, for filters and weighers that judge all pools at once."""

import math
import threading
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.cinder_adapter.pools.look_alikes import PoolLookAlike
from tonnage.filters.base import Mask
from tonnage.filters.chain import FilterChain, FilterResult

#: Capacities that Cinder compares as words.
_WORDS = {"infinite": math.inf, "unknown": math.nan, None: math.nan}


class LookAlikeColumns(PoolTable):
    """A table with a row for each pool, in the order of the pools. Pools are replaced, but neither added nor removed.

    Any thread may call the methods of this class.
    """

    def __init__(self, states: Collection[PoolLookAlike]) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._states: dict[str, PoolLookAlike] = {}
        self.show(states)

    def show(self, states: Collection[PoolLookAlike]) -> None:
        """Replace pools."""
        columns = {
            "total": [_number(state.total_capacity_gb) for state in states],
            "free": [_number(state.free_capacity_gb) for state in states],
            "allocated": [state.allocated_capacity_gb for state in states],
            "provisioned": [state.provisioned_capacity_gb for state in states],
            "reserved_percentage": [_number(state.reserved_percentage) for state in states],
            "ratio": [state.max_over_subscription_ratio for state in states],
            "thin": [bool(state.thin_provisioning_support) for state in states],
            "thick": [bool(state.thick_provisioning_support) for state in states],
            "availability_zone": [str(state.service.get("availability_zone") or "") for state in states],
            "capabilities": [state.capabilities for state in states],
        }
        with self._lock:
            self._states.update((state.backend_id, state) for state in states)
            self.put_columns([state.backend_id for state in states], columns)

    def left_by(self, filters: FilterChain, request: Request) -> Mask:
        """Return the pools that all of these filters accept."""
        with self._lock:
            return filters.candidates(self, request)

    def left_by_each(self, filters: FilterChain, request: Request) -> FilterResult:
        """Return the pools that each of these filters left."""
        with self._lock:
            return filters.run(self, request)

    def computed(self, function: Callable[[Any], float]) -> npt.NDArray[np.float64]:
        """Return a function of the figures of each pool as a column. It is called again only for changed pools."""

        def column(part: PoolTable) -> npt.NDArray[np.float64]:
            return np.array([function(self._states[name]) for name in part.names], dtype=np.float64)

        with self._lock:
            found: npt.NDArray[np.float64] = self._by_figures.column(
                self, function, column, lambda row: function(self._states[self.names[row]])
            )
        return found


def _number(value: Any) -> float:
    try:
        return float(_WORDS.get(value, value))
    except (TypeError, ValueError):
        return math.nan
