# SPDX-License-Identifier: Apache-2.0
"""Volumes of one group stay together: on one backend, that of those which have a place.

The first of them goes to a backend that all others can follow to: one that has a pool for each type that they may have,
and is what the group's own type asks for. How much room there is then is not looked at; who knows how many will come.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tonnage.capacity.names import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group that volumes are placed for. ``backend`` is where its volumes are, None while none has a place.

    ``asks`` are what its backend has to have a pool for: requests of size 0, one for each type.
    """

    id: str
    backend: str | None
    asks: tuple[Request, ...]


@dataclass(slots=True)
class Together:
    """Knows where groups are, those of which volumes were placed just now among them.

    ``fitting`` are the filters that do not look at room.
    """

    pools: PoolTable
    fitting: FilterChain
    _placed: dict[str, str] = field(default_factory=dict)

    def confined(self, request: Request, group: Group | None) -> Request:
        """Return a request limited to the backends that its group may be on."""
        if group is None:
            return request
        backend = self._placed.get(group.id, group.backend)
        backends = self._suiting(group.asks) if backend is None else frozenset({backend})
        return replace(request, backends=backends)

    def place(self, group: Group | None, pool: str) -> None:
        """Note that a volume of a group goes to a pool."""
        if group is not None:
            self._placed[group.id] = backend_of(pool)

    def _suiting(self, asks: Sequence[Request]) -> frozenset[str]:
        suiting: set[str] | None = None
        for request in asks:
            rows = np.flatnonzero(self.fitting.candidates(self.pools, request)).tolist()
            backends = {backend_of(self.pools.names[row]) for row in rows}
            suiting = backends if suiting is None else suiting & backends
        return frozenset(suiting or ())


def mates(groups: Sequence[Group | None]) -> list[frozenset[int]]:
    """Return for each of several volumes the places of the others that are for the same group."""
    places: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        if group is not None:
            places.setdefault(group.id, set()).add(number)
    return [
        frozenset() if group is None else frozenset(places[group.id] - {number}) for number, group in enumerate(groups)
    ]
