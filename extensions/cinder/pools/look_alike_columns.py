# SPDX-License-Identifier: Apache-2.0
"""The traits of pools, and functions of their figures, as columns for filters and weighers that judge all pools."""

import threading
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike
from tonnage.filters.base import Mask
from tonnage.filters.chain import FilterChain, FilterResult


class LookAlikeColumns(PoolTable):
    """A table with a row for each pool, in the order of the pools. Pools are replaced, but neither added nor removed.

    Its columns of figures have no values, as figures of Cinder may be words: :meth:`computed` reads them from the
    pools. Any thread may call the methods of this class.
    """

    def __init__(self, states: Collection[PoolLookAlike]) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._states: dict[str, PoolLookAlike] = {}
        self.show(states)

    def show(self, states: Collection[PoolLookAlike]) -> None:
        """Replace pools."""
        with self._lock:
            self._states.update((state.backend_id, state) for state in states)
            changed = [state for state in states if not self._has_traits_of(state)]
            if changed:
                columns = {
                    **dict.fromkeys(("total", "free"), np.nan),
                    "availability_zone": [_zone(state) for state in changed],
                    "capabilities": [state.capabilities for state in changed],
                }
                self.put_columns([state.backend_id for state in changed], columns)
            self._changed([self._index[state.backend_id] for state in states])

    def accepted_by(self, filters: FilterChain, request: Request) -> Mask:
        """Return the pools that all of these filters accept."""
        with self._lock:
            return filters.candidates(self, request)

    def accepted_by_each(self, filters: FilterChain, request: Request) -> FilterResult:
        """Return the pools that each of these filters accepts."""
        with self._lock:
            return filters.run(self, request)

    def computed(self, function: Callable[[Any], float]) -> npt.NDArray[np.float64]:
        """Return a function of the figures of each pool as a column. It is called again only for changed pools."""

        def column(part: PoolTable) -> npt.NDArray[np.float64]:
            return np.array([function(self._states[name]) for name in part.names], dtype=np.float64)

        with self._lock:
            values: npt.NDArray[np.float64] = self._by_figures.column(
                self, function, column, lambda row: function(self._states[self.names[row]])
            )
        return values

    def _has_traits_of(self, state: PoolLookAlike) -> bool:
        row = self.index(state.backend_id)
        return row is not None and self.capabilities[row] is state.capabilities and self.zones[row] == _zone(state)


def _zone(state: PoolLookAlike) -> str:
    return str(state.service.get("availability_zone") or "")
