# SPDX-License-Identifier: Apache-2.0
"""The packing of several volumes that are placed all or none.

The first attempt places the volumes in the order of the request, each in the pool with the best weight. If one volume
is left over although another arrangement may exist, the second attempt places the largest volume first, each in the
pool that it leaves the least room in. The third attempt is a bounded search through the arrangements.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic
from tonnage.capacity.decision import Placement, Refusal
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.scheduler.requests.pool_selection import Rules, provisioning_in, with_printable_figures
from tonnage.scheduler.requests.request_spec import Group

#: How many volumes the search places, over all arrangements, before it ends. For each volume it examines every pool
#: while all other requests wait: so the rows that it examines are bounded too, but never below the largest group.
_BUDGET = 2000
_ROWS = 20_000_000
_LEAST_BUDGET = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One of several volumes that are placed together.

    ``same`` and ``different`` are the indexes of the members that must, or must not, share this member's backend;
    ``mates`` those of the members of the same group in the ledger (``group``).
    """

    request: Request
    copied_gb: int = 0
    same: frozenset[int] = frozenset()
    different: frozenset[int] = frozenset()
    mates: frozenset[int] = frozenset()
    group: Group | None = None


@dataclass(slots=True)
class GroupPacking:
    """Finds pools for the members of one group. :meth:`placements` leaves the table as it was."""

    pools: PoolTable
    rules: Rules
    members: Sequence[Member]
    _placed: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    _budget: int = 0

    def placements(self) -> list[Placement] | Refusal:
        """Return a placement for each member, or the refusal of the first one that is left over."""
        in_order = list(range(len(self.members)))
        by_size = sorted(in_order, key=lambda number: -self.members[number].request.size_gb)
        try:
            refusal = self._greedily(in_order)
            if refusal is None:
                return self._placements()
            if not all(self._alone(number) for number in in_order):
                return with_printable_figures(refusal)
            if self._tightly(by_size) or self._search(by_size):
                return self._placements()
            return with_printable_figures(refusal)
        finally:
            self.undo()

    def _greedily(self, order: Sequence[int]) -> Refusal | None:
        for number in order:
            request, filters = self.request(number), self.rules.filters
            index = self.rules.best(self.pools, request, filters.candidates(self.pools, request))
            if index is None:
                refusal = filters.refusal(self.pools, request, filters.run(self.pools, request))
                position = f"volume {number + 1} of {len(self.members)}, all or none"
                return replace(refusal, request=f"{refusal.request} ({position})")
            self.claim(number, index)
        return None

    def _alone(self, number: int) -> bool:
        """Return whether a member would fit if it were the only one."""
        self.undo()
        return bool(self.rules.filters.candidates(self.pools, self.request(number)).any())

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
        """Return the rows that a member may go to, the tightest first and those not responsive last."""
        request = self.request(number)
        rows = np.flatnonzero(self.rules.filters.candidates(self.pools, request))
        thin = judged_thin(self.pools.thin, self.pools.thick, request.provisioning)
        headroom = np.asarray(arithmetic.headroom(self.pools, thin, self.rules.calculation))[rows]
        # Ties are in an order that is the same in every scheduler.
        return rows[np.lexsort((self.pools.name_hash[rows], headroom, ~self.pools.responsive[rows]))]

    def request(self, number: int) -> Request:
        """Return a member's request as the members that are placed already determine it."""
        member = self.members[number]
        same = self._backends(member.same)
        different = self._backends(member.different)
        together = self._backends(member.mates)
        # Each member has its own seed for ties: with the same one, chance would send all members to one pool.
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
        """Count a member in the pool of row ``index``, for the members that are placed after it."""
        member = self.members[number]
        size = float(member.request.size_gb)
        thin = provisioning_in(self.pools, index, member.request) is Provisioning.THIN
        physical = float(member.copied_gb) if thin else size
        self.pools.claim(index, size, physical)
        self._count(index, 1)
        self._placed[number] = (index, size, physical)

    def claim_in(self, number: int, pool: str) -> None:
        """Count a member in the pool of that name."""
        index = self.pools.index(pool)
        if index is not None:
            self.claim(number, index)

    def _release(self, number: int) -> None:
        index, size, physical = self._placed.pop(number)
        self.pools.claim(index, -size, -physical)
        self._count(index, -1)

    def _count(self, index: int, more: int) -> None:
        self.pools.set_volumes({self.pools.names[index]: int(self.pools.volumes[index]) + more})

    def undo(self) -> None:
        """Count no member any more."""
        for number in list(self._placed):
            self._release(number)

    def _placements(self) -> list[Placement]:
        rows = [self._placed[number][0] for number in range(len(self.members))]
        return [
            Placement(self.pools.names[row], provisioning_in(self.pools, row, member.request))
            for row, member in zip(rows, self.members, strict=True)
        ]
