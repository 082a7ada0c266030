# SPDX-License-Identifier: Apache-2.0
"""The entries of the cache for a backend and for a pool."""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tonnage.capacity.pool_stats import PoolStats
from tonnage.filters.base import Filter
from tonnage.filters.driver import DriverFilter
from tonnage.filters.free_space import FreeSpaceFilter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter
from tonnage.ledger.inventory.backends import BackendRow
from tonnage.ledger.locks.backend_notices import Notice
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.weighers.base import Weigher
from tonnage.weighers.goodness import GoodnessWeigher

#: The capability, and the option of backends and pools, that limits the age of figures, in seconds.
LIFETIME = "report_lifetime"

#: The plug-ins of the core without which some fields of reports have no effect. None is enabled by default.
READERS: Sequence[type[Filter | Weigher]] = (
    DriverFilter,
    FreeSpaceFilter,
    StorageClassFilter,
    TopologyFilter,
    GoodnessWeigher,
)

_FIELDS = frozenset(field for reader in READERS for field in reader.reads)

#: The capabilities that :meth:`BackendEntry.add_pool` reads.
_READ = _FIELDS | {LIFETIME, "provisioner"}

#: The fields that Kubernetes' provisioners read, if a pool names its ``provisioner``.
_OF_PROVISIONERS = frozenset({*StorageClassFilter.reads, *TopologyFilter.reads})


@dataclass(slots=True)
class BackendEntry:
    """One backend. Times are seconds of this process's monotonic clock.

    ``last_seen`` is the time of the last report. Time in which no scheduler listened is not counted as silence: it
    moves ``last_seen`` forward. ``last_collected`` is when the driver began to collect that report, which takes a slow
    driver a while.

    ``report_seq`` and ``report_covers`` belong to the report that the cached figures are from; figures of some pools
    may be newer. ``figures_collected`` is when the driver began to collect that report. ``stale_since`` maps each pool
    without usable figures in it to the time when the driver began to collect the pool's cached figures.

    ``last_word`` is the time of the last report or hello, whoever listened. ``notice`` is the agent's reason for
    sending no report since. A backend is ``responsive`` unless its agent has given a notice, or has said nothing since
    this scheduler listens: then volumes go to other backends if they can.

    ``reported_at`` is when the driver collected the last report, by UTC. ``reported_here`` is true once a report of the
    backend has come to this scheduler. ``lifetimes`` maps pools that limit the age of their figures to that limit in
    seconds, ``shortest`` is at most the least of these limits, and ``expired`` are the pools with older figures.
    ``rules`` maps pools to their fields that have an effect only through one of :data:`READERS`. ``warned`` are the
    pools and fields that a warning was logged for, ``unstamped`` maps the pools whose storage the last report had no
    stamp of to the first such report.
    """

    id: int
    name: str
    availability_zone: str
    enabled: bool
    disabled_reason: str | None
    epoch: int
    report_seq: int
    report_covers: int
    last_seen: float
    up: bool = True
    draining: bool = False
    last_collected: float = -math.inf
    figures_collected: float = -math.inf
    reported_here: bool = False
    last_word: float = -math.inf
    notice: Notice | None = None
    responsive: bool = True
    reported_at: datetime.datetime | None = None
    pools: set[str] = field(default_factory=set)
    warned: set[tuple[str, str]] = field(default_factory=set)
    unstamped: dict[str, int] = field(default_factory=dict)
    lifetimes: dict[str, float] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    stale_since: dict[str, float] = field(default_factory=dict)
    shortest: float = math.inf
    rules: dict[str, frozenset[str]] = field(default_factory=dict)

    def update_last_seen(self, row: BackendRow, now: float) -> None:
        """Take over from the ledger when any scheduler received the last report, and a notice that came later."""
        self.notice = row.notice
        if row.silence is not None:
            self.last_word = max(self.last_word, now - row.silence)
            self.last_seen = max(self.last_seen, now - row.silence)
            self.last_collected = max(self.last_collected, now - row.silence - row.report_age)

    def update_responsive(self, listening_since: float) -> bool:
        """Find whether the backend is responsive, and return whether that has changed."""
        before = self.responsive
        self.responsive = self.notice is None and self.last_word >= listening_since
        return self.responsive != before

    @property
    def doubt(self) -> str | None:
        """Why the backend is not responsive, as the end of a sentence about it; None if it is."""
        if self.responsive:
            return None
        return "has not reported since the scheduler started" if self.notice is None else self.notice.sentence

    def collected_at(self, pool: str) -> float:
        """Return when the driver began to collect the figures of a pool."""
        return self.stale_since.get(pool, self.last_collected)

    def set_collected(self, collected: float, unusable: Iterable[str]) -> None:
        """Note when the driver began to collect a report, which has no usable figures of the ``unusable`` pools."""
        self.stale_since = {pool: self.stale_since.get(pool, self.figures_collected) for pool in unusable}
        self.last_collected = self.figures_collected = collected

    def add_pool(self, pool: str, capabilities: Mapping[str, Any]) -> None:
        """Add a pool with the capabilities that it reports, or update it."""
        self.pools.add(pool)
        if not self.lifetimes and not self.rules and _READ.isdisjoint(capabilities):
            return  # the usual case, of nearly all pools that a scheduler reads at its start
        seconds = _lifetime(capabilities.get(LIFETIME))
        if seconds < math.inf:
            self.lifetimes[pool] = seconds
            self.shortest = min(self.shortest, seconds)
        else:
            self.lifetimes.pop(pool, None)
        fields = _FIELDS.intersection(capabilities)
        if capabilities.get("provisioner") is not None:
            fields -= _OF_PROVISIONERS
        if fields:
            self.rules[pool] = fields
        else:
            self.rules.pop(pool, None)

    def remove_pool(self, pool: str) -> None:
        """Remove a pool."""
        self.pools.discard(pool)
        self.lifetimes.pop(pool, None)
        self.expired.discard(pool)
        self.stale_since.pop(pool, None)
        self.rules.pop(pool, None)

    def update_expired(self, now: float) -> set[str]:
        """Find the pools whose figures are too old, and return the pools for which that has changed."""
        before = self.expired
        if now - self.last_collected <= self.shortest and not before and not self.stale_since:
            return set()
        self.expired = {pool for pool, seconds in self.lifetimes.items() if now - self.collected_at(pool) > seconds}
        return (before ^ self.expired) & self.pools


class PoolEntry(NamedTuple):
    """The facts from which a row of the pool table is made.

    ``id``, ``generation`` and ``counters`` are the ledger's, ``raw`` is the last report of the pool and ``stats`` the
    same validated. ``ratio`` is the effective over-subscription ratio, computed when the report was applied.
    """

    id: int
    generation: int
    stats: PoolStats
    raw: Mapping[str, Any]
    counters: Counters
    ratio: float


def _lifetime(value: object) -> float:
    """Return for how many seconds figures may be used: ``inf`` without a limit, 0 for a value that is not a number.

    Using no figures is safer than using figures that are too old.
    """
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return 0.0
    return float(value)
