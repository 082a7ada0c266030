# SPDX-License-Identifier: Apache-2.0
"""One pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity.names import backend_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool as decisions see it. Capacities are GiB, ``nan`` unknown, ``inf`` infinite.

    The numbers are the pool's *figures*, which every claim and every report may change. All the rest, its *traits*,
    change seldom: name, flags, zone, capabilities.

    ``claimed`` and ``claimed_physical`` are what this pool's own claims have in flight. Pools of one ``storage_id``
    draw on the same storage: the ``shared`` figures are what the claims of the others add. A pool that reports
    ``storage_free`` is a part carved out of it, which shares the physical room alone. ``external`` is what volumes have
    that Tonnage did not place. ``up`` is false once its backend has been silent for too long, ``expired`` is true once
    the figures are older than the pool itself says that they may be used. ``volumes`` is how many volumes there are; 0
    unless a weigher wants to know.

    ``in_flight``, ``in_flight_physical``, ``others`` and ``storage_room`` are what counts against the figures, see
    :class:`tonnage.capacity.arithmetic.Figures`; the table works them out.
    """

    name: str
    total: float
    free: float
    provisioned: float = float("nan")
    allocated: float = 0.0
    claimed: float = 0.0
    claimed_physical: float = 0.0
    shared_allocated: float = 0.0
    shared_in_flight: float = 0.0
    shared_in_flight_physical: float = 0.0
    external: float = 0.0
    in_flight: float = 0.0
    in_flight_physical: float = 0.0
    others: float = 0.0
    storage_free: float = float("nan")
    storage_room: float = float("inf")
    volumes: float = 0.0
    reserved_percentage: float = 0.0
    ratio: float = 1.0
    thin: bool = False
    thick: bool = False
    up: bool = True
    enabled: bool = True
    expired: bool = False
    storage_id: str | None = None
    availability_zone: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """Name of the backend, ``host@backend``."""
        return backend_of(self.name)
