# SPDX-License-Identifier: Apache-2.0
"""What a scheduler remembers of a backend and of a pool."""

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tonnage.capacity.reports.figure_lifetime import lifetime
from tonnage.capacity.reports.pool_stats import PoolStats
from tonnage.filters import driver
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.inventory.backends import BackendRow
from tonnage.weighers import goodness

#: What pools may say that a plugin reads which is not enabled unless it is asked for.
FUNCTIONS = (driver.FUNCTION, goodness.FUNCTION)


@dataclass(slots=True)
class BackendEntry:
    """One backend. ``heard`` is when it last reported, by this process's monotonic clock, or later where it was not
    heard for want of somebody to hear it; ``reported`` is when it began to collect what it did, which a slow driver
    takes a while for.

    ``seq`` and ``covers`` are those of the report that the pools' figures here are from, or of an older one, and
    ``begun`` is when it began to collect that one. ``kept`` are the pools of which that one had no figures that could
    be used, each with when it began to collect those that are here.

    ``reported_here`` is true once this scheduler has applied one of its reports. ``lifetimes`` are for how many seconds
    after a report figures may be used, of pools that set a limit; ``expired`` are the pools whose may not be any more.
    ``functions`` are the pools that have each of :data:`FUNCTIONS`.
    """

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    epoch: int
    seq: int
    covers: int
    last_seen: float
    up: bool = True
    draining: bool = False
    last_collected: float = -math.inf
    figures_collected: float = -math.inf
    reported_here: bool = False
    reported_at: datetime.datetime | None = None
    pools: set[str] = field(default_factory=set)
    warned: set[tuple[str, str]] = field(default_factory=set)
    lifetimes: dict[str, float] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    stale_since: dict[str, float] = field(default_factory=dict)
    #: At most the least of the lifetimes.
    shortest: float = math.inf
    functions: dict[str, set[str]] = field(default_factory=lambda: {function: set() for function in FUNCTIONS})

    def update_last_seen(self, row: BackendRow, now: float) -> None:
        """Take over when any scheduler has heard it last, by the ledger."""
        if row.silence is not None:
            self.last_seen = max(self.last_seen, now - row.silence)
            self.last_collected = max(self.last_collected, now - row.silence - row.report_age)

    def collected_at(self, pool: str) -> float:
        """Return when it began to collect the figures of a pool."""
        return self.stale_since.get(pool, self.last_collected)

    def set_collected(self, begun: float, unheard: Iterable[str]) -> None:
        """Take over when it began to collect a report, which has no figures of ``unheard`` pools that can be used."""
        self.stale_since = {pool: self.stale_since.get(pool, self.figures_collected) for pool in unheard}
        self.last_collected = self.figures_collected = begun

    def add_pool(self, pool: str, capabilities: Mapping[str, Any]) -> None:
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

    def remove_pool(self, pool: str) -> None:
        """Forget a pool."""
        self.pools.discard(pool)
        self.lifetimes.pop(pool, None)
        self.expired.discard(pool)
        self.stale_since.pop(pool, None)
        for pools in self.functions.values():
            pools.discard(pool)

    def update_expired(self, now: float) -> set[str]:
        """Note whose figures are too old, and return the pools of which that is new."""
        before = self.expired
        if now - self.last_collected <= self.shortest and not before and not self.stale_since:
            return set()
        self.expired = {pool for pool, seconds in self.lifetimes.items() if now - self.collected_at(pool) > seconds}
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
