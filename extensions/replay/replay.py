# SPDX-License-Identifier: Apache-2.0
"""The replay of a decision log by other rules: each decision is made again, on the pools as they were then.

The consequences of a different decision are not carried on: every decision is compared with the recorded one of the
same figures. By the rules that were in force nothing differs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import hypothetical_pools
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.log_records import Decided
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.decisions.decider import Decider
from tonnage.scheduler.requests.pool_selection import Rules


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded decision, and the decision now: pools volume by volume, or the refusal."""

    recorded: Decided
    pools: tuple[str, ...]
    refusal: str | None

    @property
    def differs(self) -> bool:
        """Return whether the pools differ from the recorded ones."""
        return tuple(self.recorded.pools) != self.pools


class Replay:
    """Plays a log. ``broken`` are the numbers of lines that could not be read."""

    def __init__(self, rules: Rules, default_ratio: float | str, down_time: float) -> None:
        state = BackendStateFilter(down_time)
        filters = FilterChain([state, *rules.filters.filters], rules.calculation)
        self._rules = Rules(filters, rules.weighers, rules.calculation)
        self._default_ratio = default_ratio
        self.broken: list[int] = []
        #: Whether a weigher reads the numbers of volumes and the log does not contain them.
        self.lacks_volumes = False
        self._forget()

    def _forget(self) -> None:
        self._pools = PoolTable()
        self._figures: dict[str, list[float | str | None]] = {}
        self._traits: dict[str, log_records.Traits] = {}
        self._changed: dict[str, None] = {}
        self._logged_rules: log_records.Rules | None = None

    def play(self, lines: Iterable[bytes]) -> Iterator[Replayed]:
        """Return each decision of a log.

        A line that cannot be read, as whoever wrote it was killed, and all that follows is left out until the log
        begins anew.
        """
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                line = log_records.decode(text)
            except errors.InvalidInput:
                self.broken.append(number)
                self._forget()
                continue
            if isinstance(line, Decided):
                if self._logged_rules is not None:
                    yield self._decide(line)
            else:
                self._take(line)

    def _take(self, line: log_records.Rules | log_records.PoolLine | log_records.Gone) -> None:
        if isinstance(line, log_records.Rules):
            self._take_rules(line)
        elif isinstance(line, log_records.Gone):
            for name in line.names:
                self._pools.remove(name)
                self._changed.pop(name, None)
                self._figures.pop(name, None)
                self._traits.pop(name, None)
        elif self._logged_rules is not None:
            if line.figures is not None:
                self._figures[line.name] = line.figures
            if line.traits is not None:
                self._traits[line.name] = line.traits
            self._changed[line.name] = None

    def _take_rules(self, line: log_records.Rules) -> None:
        if line.begins:
            self._forget()
        elif self._logged_rules is None:
            # In the middle of a log whose beginning is not there.
            return
        self._logged_rules = line
        self.lacks_volumes |= self._rules.counts_volumes and not line.volumes
        self._changed = dict.fromkeys(self._figures)

    def _decide(self, line: Decided) -> Replayed:
        self._pools.put_all([self._pool(name) for name in self._changed])
        self._changed.clear()
        decider = Decider(self._pools, self._rules)
        if line.together:
            result = decider.pack(line.members)
            if isinstance(result, Refusal):
                return Replayed(line, (), result.message)
            return Replayed(line, tuple(placement.pool for placement in result), None)
        decision = decider.choose(line.requests[0], in_place=line.in_place)
        if isinstance(decision, Refusal):
            return Replayed(line, (), decision.message)
        return Replayed(line, (decision.pool,), None)

    def _pool(self, name: str) -> Pool:
        pool, reported = log_records.pool(name, self._figures[name], self._traits[name])
        logged_ratio = None if self._logged_rules is None else self._logged_rules.default_ratio
        if reported is None and logged_ratio != self._default_ratio:
            return replace(pool, ratio=hypothetical_pools.ratio(pool, self._default_ratio))
        return pool
