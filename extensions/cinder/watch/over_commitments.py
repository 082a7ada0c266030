# SPDX-License-Identifier: Apache-2.0
"""Over-commitments that Cinder made: pools over their limit by figures that contain the volumes, and the volumes.

Only the driver's own figures count, or the rows where it has none. So no finding depends on claims in flight. A pool
that shrank, or in which other systems made volumes, is not Cinder's over-commitment: the rows of Cinder's volumes,
with the capacity that other systems held when the pool was last quiet, have to be more than the limit.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool
from tonnage.extensions.cinder.decoding.cinder_messages import Command
from tonnage.extensions.cinder.watch.findings import Category, Finding, Key
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity

#: The largest difference that rounding to two decimals causes.
_ROUNDING_GB = 0.011


@dataclass(slots=True)
class _Watched:
    """A pool. ``held`` and ``limit`` are its last figures within the limit; ``commands`` came since then.

    ``foreign_gb`` is what it held beside Cinder's volumes when it was last quiet and within the limit.
    """

    held: float = math.nan
    limit: float = math.nan
    foreign_gb: float = math.nan
    commands: list[Command] = field(default_factory=list)


class OverCommitments:
    """Follows the figures and the commands of each pool.

    ``earlier`` are open findings of the shadow before this one, which go on until their pools are within the limit.
    """

    def __init__(self, promised: PromisedCapacity, calculation: Calculation, earlier: Iterable[Finding] = ()) -> None:
        self._promised, self._calculation = promised, calculation
        self._pools: dict[str, _Watched] = {}
        self._earlier = {
            finding.subject: finding for finding in earlier if finding.category is Category.OVER_COMMITMENT
        }

    def note(self, command: Command) -> None:
        """Note a command that the scheduler sent."""
        if command.size_gb > 0:
            self._pools.setdefault(command.pool, _Watched()).commands.append(command)

    def check(self, names: Iterable[str]) -> tuple[list[Finding], list[Key]]:
        """Check pools with new figures; return the findings, and the keys of pools within their limits."""
        findings, ended = [], []
        for name in names:
            pool = self._promised.table.get(name)
            if pool is None:
                continue
            held, limit = self._figures(pool)
            if not (math.isfinite(held) and math.isfinite(limit)):
                continue
            watched = self._pools.setdefault(name, _Watched())
            is_within = held <= limit + _ROUNDING_GB
            foreign_gb = held - self._promised.row_sum(name)
            if is_within and self._promised.is_quiet(name):
                watched.foreign_gb = foreign_gb
            elif math.isnan(watched.foreign_gb) and self._promised.has_rows:
                # The figures may lack volumes of the rows: it is at least this.
                watched.foreign_gb = max(0.0, foreign_gb)
            if is_within:
                ended.append((Category.OVER_COMMITMENT.value, name, "limit"))
                self._earlier.pop(name, None)
                in_flight = {promise.command.volume_id for promise in self._promised.promises_of(name)}
                kept = [command for command in watched.commands if command.volume_id in in_flight]
                self._pools[name] = _Watched(held, limit, watched.foreign_gb, kept)
            elif (finding := self._judge(pool, watched, held, limit)) is not None:
                findings.append(finding)
        return findings, ended

    def _figures(self, pool: Pool) -> tuple[float, float]:
        """Return the capacity that a pool holds for certain, and its limit, in GiB."""
        limit = float(arithmetic.promise_limit(pool, self._calculation))
        if not pool.thin:
            return pool.total - pool.free, limit
        held = self._promised.row_sum(pool.name) if math.isnan(pool.provisioned) else pool.provisioned
        return held, limit

    def _judge(self, pool: Pool, watched: _Watched, held: float, limit: float) -> Finding | None:
        """Return the over-commitment of a pool that is over its limit, None if Cinder did not cause it."""
        earlier = self._earlier.get(pool.name)
        if earlier is None and not self._is_caused(pool, watched, limit):
            return None
        earlier_numbers = {} if earlier is None else earlier.numbers
        before = earlier_numbers.get("before", 0.0) if math.isnan(watched.held) else watched.held
        sizes = {(command.verb, command.volume_id): command.size_gb for command in watched.commands}
        placed = earlier_numbers.get("placed", 0.0) + sum(sizes.values())
        before_restart = () if earlier is None else earlier.volumes
        volumes = tuple(dict.fromkeys((*before_restart, *(command.volume_id for command in watched.commands))))
        return Finding(
            category=Category.OVER_COMMITMENT,
            subject=pool.name,
            code="limit",
            text=f"holds {held:g} GiB, {held - limit:g} more than its limit of {limit:g}; it was within the limit with "
            f"{before:g}; in flight then, or placed since, are {placed:g} GiB in {len(volumes)} volume(s)",
            numbers={"held": held, "limit": limit, "placed": float(placed), "before": before},
            volumes=volumes,
        )

    def _is_caused(self, pool: Pool, watched: _Watched, limit: float) -> bool:
        """Return whether the commands of Cinder made a pool hold more than its limit."""
        if not watched.commands or math.isnan(watched.foreign_gb):
            return False
        largest_limit = limit if math.isnan(watched.limit) else max(limit, watched.limit)
        return watched.foreign_gb + self._promised.row_sum(pool.name) > largest_limit + _ROUNDING_GB
