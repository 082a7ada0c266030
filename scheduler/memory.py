# SPDX-License-Identifier: Apache-2.0
"""What a scheduler remembers of a backend and of a pool."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import NamedTuple

from tonnage.capacity.lifetimes import lifetime
from tonnage.capacity.stats import PoolStats
from tonnage.filters import driver
from tonnage.ledger.backends import BackendRow
from tonnage.ledger.counters import Counters
from tonnage.weighers import goodness

#: What pools may say that a plugin reads which is not enabled unless it is asked for.
FUNCTIONS = (driver.FUNCTION, goodness.FUNCTION)


@dataclass(slots=True)
class Backend:
    """One backend. ``heard`` is when it last reported, by this process's monotonic clock, or later where it was not
    heard for want of somebody to hear it; ``reported`` is when it began to collect what it did, which a slow driver
    takes a while for.

    ``seq`` and ``covers`` are those of the report that the pools' figures here are from, or of an older one.

    ``reported_here`` is true once this scheduler has applied one of its reports. ``lifetimes`` are for how many seconds
    after a report figures may be used, of pools that set a limit; ``expired`` are the pools whose may not be any more.
    ``functions`` are the pools that have each of :data:`FUNCTIONS`.
    """

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    rpc_version: str
    epoch: int
    seq: int
    covers: int
    heard: float
    up: bool = True
    draining: bool = False
    reported: float = -math.inf
    reported_here: bool = False
    reported_at: datetime.datetime | None = None
    pools: set[str] = field(default_factory=set)
    warned: set[tuple[str, str]] = field(default_factory=set)
    lifetimes: dict[str, float] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    #: At most the least of the lifetimes.
    shortest: float = math.inf
    functions: dict[str, set[str]] = field(default_factory=lambda: {function: set() for function in FUNCTIONS})

    def hear(self, row: BackendRow, now: float) -> None:
        """Take over when any scheduler has heard it last, by the ledger."""
        if row.silence is not None:
            self.heard = max(self.heard, now - row.silence)
            self.reported = max(self.reported, now - row.silence - row.report_age)

    def put(self, pool: str, capabilities: Mapping[str, Any]) -> None:
        """Take over a pool that it has, with what that reports."""
        self.pools.add(pool)
        seconds = lifetime(capabilities)
        if seconds < math.inf:
            self.lifetimes[pool] = seconds
            self.shortest = min(self.shortest, seconds)
        else:
            self.lifetimes.pop(pool, None)
        for function, pools in self.functions.items():
            if capabilities.get(function) is None:
                pools.discard(pool)
            else:
                pools.add(pool)

    def drop(self, pool: str) -> None:
        """Forget a pool."""
        self.pools.discard(pool)
        self.lifetimes.pop(pool, None)
        self.expired.discard(pool)
        for pools in self.functions.values():
            pools.discard(pool)

    def expire(self, now: float) -> set[str]:
        """Note whose figures are too old, and return the pools of which that is new."""
        age, before = now - self.reported, self.expired
        if age <= self.shortest and not before:
            return set()
        self.expired = {pool for pool, seconds in self.lifetimes.items() if age > seconds}
        return (before ^ self.expired) & self.pools


class PoolEntry(NamedTuple):
    """What lies behind a row of the table: the ledger's id and counters, and the figures as they were reported.

    ``ratio`` is the over-subscription ratio that counts, worked out when the report was applied.
    """

    id: int
    generation: int
    stats: PoolStats
    raw: Mapping[str, Any]
    counters: Counters
    ratio: float
