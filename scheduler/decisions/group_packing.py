# SPDX-License-Identifier: Apache-2.0
"""Several volumes at once, all or none: fitted jointly.

One after the other in the order asked for, each where the weighers like it best, is tried first. If that leaves one
over although a better arrangement may exist, the largest go first, each into the pool that it leaves the least room in;
and then a search goes through the arrangements, within bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Placement, Refusal
from tonnage.capacity.names import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.decisions.group_affinity import Group
from tonnage.weighers.chain import WeigherChain

#: How many volumes the search places, over all arrangements, before it gives up. For each it looks at all pools, and
#: all other requests wait: so it ends at so many rows, but not before it has placed more than any group has.
_BUDGET = 2000
_ROWS = 20_000_000
_LEAST_BUDGET = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One of several volumes. ``same`` and ``different`` are places of others beside or away from which it shall be.

    ``mates`` are the places of those that are for the same group of the ledger (``group``), where there is one.
    """

    request: Request
    copied_gb: int = 0
    same: frozenset[int] = frozenset()
    different: frozenset[int] = frozenset()
    mates: frozenset[int] = frozenset()
    group: Group | None = None


@dataclass(slots=True)
class JointFit:
    """Finds pools for the members of one group. The table is as it was when :meth:`find` returns."""

    pools: PoolTable
    filters: FilterChain
    weighers: WeigherChain
    calculation: Calculation
    members: Sequence[Member]
    _placed: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    _budget: int = 0

    def find(self) -> list[Placement] | Refusal:
        """Return a placement for each member, or the refusal of the first one that is left over."""
        in_order = list(range(len(self.members)))
        by_size = sorted(in_order, key=lambda number: -self.members[number].request.size_gb)
        try:
            refusal = self._greedily(in_order)
            if refusal is None:
                return self._placements()
            if not all(self._alone(number) for number in in_order):
                return refusal
            if self._tightly(by_size) or self._search(by_size):
                return self._placements()
            return refusal
        finally:
            self.undo()

    def _greedily(self, order: Sequence[int]) -> Refusal | None:
        for number in order:
            request = self.request(number)
            index = self.weighers.rank(self.pools, request, self.filters.candidates(self.pools, request))
            if index is None:
                refusal = self.filters.refusal(self.pools, request, self.filters.run(self.pools, request))
                place = f"volume {number + 1} of {len(self.members)}, all or none"
                return replace(refusal, what=f"{refusal.what} ({place})")
            self.claim(number, index)
        return None

    def _alone(self, number: int) -> bool:
        """Tell whether a member would fit if it were the only one."""
        self.undo()
        return bool(self.filters.candidates(self.pools, self.request(number)).any())

    def _tightly(self, order: Sequence[int]) -> bool:
        self.undo()
        for number in order:
            candidates = self._candidates(number)
            if not len(candidates):
                return False
            self.claim(number, int(candidates[0]))
        return True

    def _search(self, order: Sequence[int]) -> bool:
        self.undo()
        self._budget = min(_BUDGET, max(_LEAST_BUDGET, _ROWS // len(self.pools)))
        return self._place_rest(order, 0)

    def _place_rest(self, order: Sequence[int], depth: int) -> bool:
        if depth == len(order):
            return True
        number = order[depth]
        for index in self._candidates(number).tolist():
            if self._budget <= 0:
                return False
            self._budget -= 1
            self.claim(number, index)
            if self._place_rest(order, depth + 1):
                return True
            self._release(number)
        return False

    def _candidates(self, number: int) -> npt.NDArray[np.intp]:
        """Return the rows that a member may go to, the tightest first."""
        request = self.request(number)
        rows = np.flatnonzero(self.filters.candidates(self.pools, request))
        thin = judged_thin(self.pools.thin, self.pools.thick, request.provisioning)
        headroom = np.asarray(arithmetic.headroom(self.pools, thin, self.calculation))[rows]
        # Where equally tight, in an order that is the same in every scheduler.
        return rows[np.lexsort((self.pools.name_hash[rows], headroom))]

    def request(self, number: int) -> Request:
        """Return a member's request with what its place beside others means now."""
        member = self.members[number]
        same = self._backends(member.same)
        different = self._backends(member.different)
        together = self._backends(member.mates)
        # Each draws its own lot: with the same one, chance would send all members to one pool.
        request = replace(member.request, request_id=f"{member.request.request_id}.{number}")
        if together:
            request = replace(request, backends=together)
        if same:
            request = replace(request, same_backends=same | (request.same_backends or frozenset()))
        if different:
            request = replace(request, different_backends=different | (request.different_backends or frozenset()))
        return request

    def _backends(self, numbers: frozenset[int]) -> frozenset[str]:
        placed = (self._placed[number][0] for number in numbers if number in self._placed)
        return frozenset(backend_of(self.pools.names[index]) for index in placed)

    def claim(self, number: int, index: int) -> None:
        """Count a member in the pool of that row, for those that are looked at after it."""
        member = self.members[number]
        size = float(member.request.size_gb)
        thin = self._thin(number, index)
        physical = float(member.copied_gb) if thin else size
        self.pools.claim(index, size, physical)
        self._count(index, 1)
        self._placed[number] = (index, size, physical)

    def _release(self, number: int) -> None:
        index, size, physical = self._placed.pop(number)
        self.pools.claim(index, -size, -physical)
        self._count(index, -1)

    def _count(self, index: int, more: int) -> None:
        self.pools.set_volumes({self.pools.names[index]: int(self.pools.volumes[index]) + more})

    def undo(self) -> None:
        """Take back what was counted."""
        for number in list(self._placed):
            self._release(number)

    def _thin(self, number: int, index: int) -> bool:
        asked = self.members[number].request.provisioning
        return bool(judged_thin(bool(self.pools.thin[index]), bool(self.pools.thick[index]), asked))

    def _placements(self) -> list[Placement]:
        return [
            Placement(
                self.pools.names[self._placed[number][0]],
                Provisioning.THIN if self._thin(number, self._placed[number][0]) else Provisioning.THICK,
            )
            for number in range(len(self.members))
        ]


def bonds(ids: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> dict[int, frozenset[int]]:
    """Return for each member of a group, by its place, those of the group that it is bound to, whoever said so.

    ``wanted`` has for each volume those that its hint names.
    """
    places = {volume_id: number for number, volume_id in enumerate(ids)}
    found: dict[int, set[int]] = {number: set() for number in range(len(ids))}
    for volume_id, others in wanted.items():
        for other in others:
            if other in places and other != volume_id:
                found[places[volume_id]].add(places[other])
                found[places[other]].add(places[volume_id])
    return {number: frozenset(others) for number, others in found.items()}
