# SPDX-License-Identifier: Apache-2.0
"""The rules that select a pool for one request: filters, weighers and the calculation of capacity.

Nothing here depends on the ledger. The scheduler selects from its own table of pools, a simulation from a copy.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tonnage.capacity import plugin_errors, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.filters.base import Mask
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.free_space import FreeSpaceFilter
from tonnage.filters.topology import Ranks, TopologyFilter
from tonnage.scheduler.cache.backend_state import PoolEntry
from tonnage.scheduler.requests import leading_pools
from tonnage.scheduler.requests.leading_pools import LeadingPools
from tonnage.weighers.chain import WeigherChain

#: Filters that compare a request with the room in a pool.
_ROOM = (CapacityFilter, FreeSpaceFilter)


@dataclass(frozen=True)
class Rules:
    """The filters, the weighers and the calculation that decide."""

    filters: FilterChain
    weighers: WeigherChain
    calculation: Calculation

    @functools.cached_property
    def counts_volumes(self) -> bool:
        """Return whether a weigher reads the number of volumes in each pool."""
        return any(weigher.needs_volumes for weigher in self.weighers.weighers)

    @functools.cached_property
    def _topology(self) -> TopologyFilter | None:
        return next((plugin for plugin in self.filters.filters if isinstance(plugin, TopologyFilter)), None)

    @functools.cached_property
    def without_room(self) -> "Rules":
        """The same rules without the filters that look at room: for a volume that stays in its pool as it is."""
        kept = [plugin for plugin in self.filters.filters if not isinstance(plugin, _ROOM)]
        return replace(self, filters=FilterChain(kept))

    def with_calculation(self, calculation: Calculation) -> "Rules":
        """Return the same rules under another calculation."""
        if calculation is self.calculation:
            return self
        return Rules(
            self.filters.with_calculation(calculation), self.weighers.with_calculation(calculation), calculation
        )

    def best(self, pools: PoolTable, request: Request, candidates: Mask) -> int | None:
        """Return the row of the best candidate, None if there is none.

        Pools in a preferred topology of the request come before others, and among these the weights decide.
        """
        return self.weighers.rank(pools, request, candidates, self._ranks(pools, request))

    def choose(self, pools: PoolTable, request: Request) -> Decision:
        """Return the pool for a request, or the refusal."""
        index = self._leading(pools, request)
        if index is None:
            index = self.best(pools, request, self.filters.candidates(pools, request))
        if index is None:
            return with_printable_figures(self.filters.refusal(pools, request, self.filters.run(pools, request)))
        return Placement(pools.names[index], provisioning_in(pools, index, request))

    def explain(self, pools: PoolTable, request: Request, chosen: str | None = None) -> Explanation:
        """Return the verdict of every filter and weigher on every pool; nothing is placed.

        ``chosen`` is the pool of the decision, where other members of a group decided it together with the weights.
        """
        result = self.filters.run(pools, request)
        weights = self.weighers.weights(pools, request, result.remaining)
        verdicts = []
        for verdict in self.filters.explain(pools, request, result):
            if verdict.pool in weights:
                pool_weights, total = weights[verdict.pool]
                verdict = replace(verdict, weights=pool_weights, total_weight=total)
            verdicts.append(verdict)
        text, names = request.describe(), tuple(plugin.name for plugin in self.filters.filters)
        best = self.best(pools, request, result.remaining)
        if best is None:
            refusal = with_printable_figures(self.filters.refusal(pools, request, result))
            return Explanation(text, None, refusal.message, tuple(verdicts), names, refusal)
        count = int(result.remaining.sum())
        best_name = pools.names[best]
        message = f"{text} goes to {chosen or best_name}, the best of {count} candidate{'' if count == 1 else 's'}"
        ranks = self._ranks(pools, request)
        if ranks is not None and np.ptp(ranks[result.remaining]):
            preferred = int((ranks[result.remaining] == ranks[best]).sum())
            message = f"{message}, {preferred} of them in the preferred topology"
        if chosen not in (None, best_name):
            message = (
                f"{text} goes to {chosen}, so that there is room for the whole group; alone it would go to {best_name}"
            )
        return Explanation(text, chosen or best_name, message, tuple(verdicts), names)

    def _leading(self, pools: PoolTable, request: Request) -> int | None:
        """Return the row of the best candidate if that shows without a look at all pools, else None."""
        is_limited = (request.pool, request.backend, request.backends) != (None, None, None)
        if len(pools) < leading_pools.SMALLEST_TABLE or is_limited or request.hints:
            return None
        try:
            weights = self.weighers.sole_column(pools, request)
            if weights is None:
                return None
            key, accepted, uncached = self.filters.cached_verdicts(pools, request)
            if len(uncached) != 1 or type(uncached[0]) is not CapacityFilter:
                return None
            bounds = uncached[0].bounds(pools, request)
        except plugin_errors.CAUGHT:
            # The look at all pools logs the failure.
            return None
        leaders = pools.attached.setdefault(LeadingPools, LeadingPools())
        best: int | None = leaders.best(
            pools, request, (self.weighers, request.provisioning, key), accepted, weights, bounds
        )
        return best

    def _ranks(self, pools: PoolTable, request: Request) -> Ranks | None:
        """Return the order of the pools by the preferred topologies of a request, None if it prefers none."""
        return self._topology.ranks(pools, request) if request.hints and self._topology is not None else None


def provisioning_in(pools: PoolTable, index: int, request: Request) -> Provisioning:
    """Return how the request is judged and made in the pool of row ``index``."""
    thin = judged_thin(bool(pools.thin[index]), bool(pools.thick[index]), request.provisioning)
    return Provisioning.THIN if thin else Provisioning.THICK


def physical_gb(placement: Placement, request: Request, copied_gb: int) -> int:
    """Return how many GiB of physical room a placement takes at once.

    ``copied_gb`` is the part of a thin volume that is written when it is made.
    """
    return request.size_gb if placement.provisioning is Provisioning.THICK else min(request.size_gb, copied_gb)


def set_volume_numbers(pools: PoolTable, entries: Mapping[str, PoolEntry], numbers: Mapping[int, int]) -> None:
    """Write the number of volumes of each pool into the table.

    ``numbers`` is by the ledger's pool ids; pools that are not in it have no volumes.
    """
    counted = {name: numbers[entry.id] for name, entry in entries.items() if entry.id in numbers}
    shown = {pools.names[row]: int(pools.volumes[row]) for row in np.flatnonzero(pools.volumes).tolist()}
    differ = {name for name, _ in counted.items() ^ shown.items()}
    pools.set_volumes({name: counted.get(name, 0) for name in differ})


def with_printable_figures(refusal: Refusal) -> Refusal:
    """Return the refusal with unknown and infinite figures as words, as messages and the ledger carry them."""
    if refusal.nearest is None:
        return refusal
    numbers: dict[str, Any] = {
        key: units.to_wire(value) if isinstance(value, float) else value
        for key, value in refusal.nearest.rejection.numbers.items()
    }
    rejection = replace(refusal.nearest.rejection, numbers=numbers)
    return replace(refusal, nearest=replace(refusal.nearest, rejection=rejection))
