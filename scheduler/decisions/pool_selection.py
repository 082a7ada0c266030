# SPDX-License-Identifier: Apache-2.0
"""Choosing: filters and weighers over a table, for one request, and what the choice takes from the pool.

Nothing here knows of a ledger. What the scheduler does with requests, what-if questions do with copies of its table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tonnage.capacity import units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Operation, Provisioning, Request, judged_thin
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.decisions.group_packing import JointFit, Member
from tonnage.weighers.chain import WeigherChain

#: Colons in a ``location_info`` that names a place on a machine, ``driver:host:place``, and not the machine alone.
_PLACE = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides."""

    filters: FilterChain
    weighers: WeigherChain
    calculation: Calculation

    @property
    def count_volumes(self) -> bool:
        """Whether some weigher wants to know how many volumes there are."""
        return any(each.needs_volumes for each in self.weighers.weighers)

    def judged_by(self, calculation: Calculation) -> "Rules":
        """Return the same rules under another calculation."""
        if calculation is self.calculation:
            return self
        return Rules(self.filters.judged_by(calculation), self.weighers.judged_by(calculation), calculation)

    def choose(self, pools: PoolTable, request: Request) -> Decision:
        """Return the pool for a request, or the refusal."""
        return choose(pools, request, self.filters, self.weighers)

    def fit(self, pools: PoolTable, members: Sequence[Member]) -> list[Placement] | Refusal:
        """Return the pools for several volumes, all or none. The table is as it was afterwards."""
        found = JointFit(pools, self.filters, self.weighers, self.calculation, members).find()
        return worded(found) if isinstance(found, Refusal) else found

    def explain(self, pools: PoolTable, request: Request, chosen: str | None = None) -> Explanation:
        """Return what every filter and weigher makes of every pool; nothing is placed.

        ``chosen`` is the pool if something else than the weights has decided.
        """
        result = self.filters.run(pools, request)
        weights = self.weighers.weights(pools, request, result.remaining)
        verdicts = []
        for verdict in self.filters.explain(pools, request, result):
            if verdict.pool in weights:
                each, total = weights[verdict.pool]
                verdict = replace(verdict, weights=each, total_weight=total)
            verdicts.append(verdict)
        what, names = request.describe(), tuple(plugin.name for plugin in self.filters.filters)
        best = self.weighers.rank(pools, request, result.remaining)
        if best is None:
            refusal = worded(self.filters.refusal(pools, request, result))
            return Explanation(what, None, refusal.message, tuple(verdicts), names, refusal)
        count = int(result.remaining.sum())
        best_name = pools.names[best]
        message = f"{what} goes to {chosen or best_name}, the best of {count} candidate{'' if count == 1 else 's'}"
        if chosen not in (None, best_name):
            message = (
                f"{what} goes to {chosen}, so that there is room for the whole group; alone it would go to {best_name}"
            )
        return Explanation(what, chosen or best_name, message, tuple(verdicts), names)


def choose(pools: PoolTable, request: Request, filters: FilterChain, weighers: WeigherChain) -> Decision:
    """Return the pool for a request, or the refusal."""
    index = weighers.rank(pools, request, filters.candidates(pools, request))
    if index is None:
        return worded(filters.refusal(pools, request, filters.run(pools, request)))
    return Placement(pools.names[index], kind_in(pools, index, request))


def kind_in(pools: PoolTable, index: int, request: Request) -> Provisioning:
    """Return how the request is judged and made in the pool of that row."""
    thin = judged_thin(bool(pools.thin[index]), bool(pools.thick[index]), request.provisioning)
    return Provisioning.THIN if thin else Provisioning.THICK


def claim(pools: PoolTable, placement: Placement, request: Request, copied_gb: int) -> None:
    """Count a placement in the table. ``copied_gb`` is what of a thin volume is written at once."""
    index = pools.index(placement.pool)
    if index is None:
        return
    pools.claim(index, request.size_gb, physical_gb(placement, request, copied_gb))
    if request.operation is not Operation.EXTEND:
        pools.set_volumes({placement.pool: int(pools.volumes[index]) + 1})


def kept_apart(pools: PoolTable, request: Request, source: str | None) -> Request:
    """Return the request of a volume that moves out of the pool ``source``, kept out of that place under other names.

    A copy there would be the volume itself.
    """
    pool = None if source is None else pools.get(source)
    location = None if pool is None else pool.capabilities.get("location_info")
    # Pools whose location names no more than a machine are told apart by their driver alone.
    if request.operation is not Operation.MIGRATE or str(location).count(":") < _PLACE:
        return request
    same = {
        name
        for name, capabilities in zip(pools.names, pools.capabilities, strict=True)
        if capabilities.get("location_info") == location
    }
    return replace(request, attempted=request.attempted | same)


def physical_gb(placement: Placement, request: Request, copied_gb: int) -> int:
    """Return how many GiB of the physical room a placement takes at once."""
    return request.size_gb if placement.provisioning is Provisioning.THICK else min(request.size_gb, copied_gb)


def worded(refusal: Refusal) -> Refusal:
    """Return the refusal with unknown and infinite figures as words, as messages and the ledger carry them."""
    if refusal.nearest is None:
        return refusal
    numbers: dict[str, Any] = {
        key: units.to_wire(value) if isinstance(value, float) else value
        for key, value in refusal.nearest.rejection.numbers.items()
    }
    rejection = replace(refusal.nearest.rejection, numbers=numbers)
    return replace(refusal, nearest=replace(refusal.nearest, rejection=rejection))
