# SPDX-License-Identifier: Apache-2.0
"""The sums of the active claims on the pools of a driver, which change with each claim.

Thousands of claims may be active. So what a decision does with them depends on the number of pools, not of claims.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from tonnage.extensions.kubernetes.capacity.node_packing import Ints

#: Storage class, ``<fallback>`` or ``<ephemeral>``, and name of a pool.
PoolKey: TypeAlias = tuple[str, str]

#: Sums are exact in columns below it.
_LIMIT = 2**62


class ActiveClaim(NamedTuple):
    """A claim on a pool, in bytes, and the pool's backing and capacity at the time of the claim, if known."""

    pool: PoolKey
    size: int
    backing_id: str | None = None
    capacity: int | None = None


class ClaimSums:
    """Claims and their sums. Not thread-safe. ``total`` is the sum of all claims, in bytes."""

    def __init__(self, claims: Iterable[ActiveClaim] = ()) -> None:
        self.total = 0
        self._claims: dict[PoolKey, dict[ActiveClaim, int]] = {}
        #: The pools of the columns of the last call, the sum of the claims on each, and the pools that are not there.
        self._row_of: Mapping[PoolKey, int] | None = None
        self._sums: Ints = np.zeros(0, dtype=np.int64)
        self._removed: set[PoolKey] = set()
        for claim in claims:
            self.add(claim)

    def add(self, claim: ActiveClaim) -> None:
        """Add a claim."""
        self._count(claim, 1)

    def remove(self, claim: ActiveClaim) -> None:
        """Remove a claim that was added."""
        self._count(claim, -1)

    def by_row(self, row_of: Mapping[PoolKey, int]) -> Ints | None:
        """Return the sum of the claims on each of these pools, in bytes; None if it may be too large.

        ``row_of`` has all pools of the driver. The result changes with the claims.
        """
        if self.total >= _LIMIT:
            return None
        if self._row_of is not row_of:
            self._row_of, self._sums, self._removed = row_of, np.zeros(len(row_of), dtype=np.int64), set()
            for pool, numbers in self._claims.items():
                self._add_to_row(pool, sum(claim.size * number for claim, number in numbers.items()))
        return self._sums

    def on_removed_pools(self) -> list[PoolKey]:
        """Return the pools with claims that the last call of :meth:`by_row` did not have."""
        return [pool for pool in self._removed if pool in self._claims]

    def on(self, pools: Iterable[PoolKey] | None = None) -> Iterator[tuple[ActiveClaim, int]]:
        """Yield the claims on some pools, None for all, and how many of the same there are."""
        for pool in self._claims if pools is None else pools:
            yield from self._claims.get(pool, {}).items()

    def _count(self, claim: ActiveClaim, number: int) -> None:
        numbers = self._claims.setdefault(claim.pool, {})
        numbers[claim] = numbers.get(claim, 0) + number
        if not numbers[claim]:
            del numbers[claim]
        if not numbers:
            del self._claims[claim.pool]
        self.total += number * claim.size
        if self.total >= _LIMIT:
            self._row_of = None
        elif self._row_of is not None:
            self._add_to_row(claim.pool, number * claim.size)

    def _add_to_row(self, pool: PoolKey, size: int) -> None:
        row = (self._row_of or {}).get(pool)
        if row is None:
            self._removed.add(pool)
        else:
            self._sums[row] += size
