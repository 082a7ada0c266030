# SPDX-License-Identifier: Apache-2.0
"""The simulator: it decides requests on a copy of the pools, as they are or as they would be, without any effect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tonnage.capacity import errors, over_subscription
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import hypothetical_pools
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.quotas import limits, reservations
from tonnage.quotas import options as quota_options
from tonnage.quotas.quota_check import Demand, QuotaBudget, ReservedQuota
from tonnage.rpc.messages import MigrateVolume, SimulatedRequest, SimulationResult, WhatIf
from tonnage.scheduler.cache.backend_state import PoolEntry
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.decisions.decider import Decider
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.requests import quota_demands
from tonnage.scheduler.requests.ignored_keys import IgnoredKeys
from tonnage.scheduler.requests.placement_requests import Move, Work, by_volume
from tonnage.scheduler.requests.pool_selection import Rules, set_volume_numbers
from tonnage.scheduler.requests.request_spec import Lookup
from tonnage.scheduler.simulation.explainer import Explainer

#: The largest number of requests in one question.
MAX_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that decides at one moment: a copy of the pools, the rules, and the defaults.

    ``doubts`` has, by backend, why it is not responsive, without those that are.
    """

    pools: PoolTable
    rules: Rules
    default_ratio: float | str
    entries: Mapping[str, PoolEntry]
    availability_zone: str
    doubts: Mapping[str, str] = field(default_factory=dict)

    def changed(self, changes: hypothetical_pools.Changes) -> "Snapshot":
        """Return the snapshot as it would be with these changes."""
        names = {name for name, entry in self.entries.items() if entry.stats.ratio is None}
        defaults = hypothetical_pools.Defaults(self.default_ratio, names, self.availability_zone)
        pools = self.pools.snapshot()
        hypothetical_pools.apply(pools, changes, defaults)
        rules = self.rules.with_calculation(changes.calculation or self.rules.calculation)
        return replace(self, pools=pools, rules=rules)

    def auto_ratios(self) -> dict[str, over_subscription.AutoRatio]:
        """Return the derivation of each ``auto`` ratio, for the pools that still have that ratio."""
        ratios = {}
        for name, entry in self.entries.items():
            if (self.default_ratio if entry.stats.ratio is None else entry.stats.ratio) != over_subscription.AUTO:
                continue
            index = self.pools.index(name)
            if index is not None and self.pools.ratio[index] == entry.ratio:
                auto_ratio = over_subscription.describe_auto_ratio(entry.stats, entry.ratio, self.default_ratio)
                if auto_ratio is not None:
                    ratios[name] = auto_ratio
        return ratios


class DecisionSnapshots:
    """Takes snapshots of the pools and the rules by which a scheduler decides."""

    def __init__(self, thread: DecisionThread, hosts: HostManager, rules: RulesInForce, availability_zone: str) -> None:
        self._thread, self._hosts, self._rules = thread, hosts, rules
        self._availability_zone = availability_zone

    def take(self) -> Snapshot:
        """Return a copy of the pools with the rules in force, made by the decision thread between its other work."""
        return self._thread.call(self._snapshots, None)

    def _snapshots(self, items: Sequence[None]) -> list[Snapshot | Exception]:
        hosts, rules = self._hosts, self._rules.current
        pools, entries = hosts.table.snapshot(), dict(hosts.entries)
        doubts = {backend.name: doubt for backend in hosts.backends() if (doubt := backend.doubt) is not None}
        return [Snapshot(pools, rules, hosts.default_ratio, entries, self._availability_zone, doubts)] * len(items)


@dataclass(frozen=True, slots=True)
class SimulatedRequests:
    """The requests of one question, with the rows that they refer to, their demands on quotas, and these if any."""

    work: Sequence[Work]
    lookup: Lookup
    demands: Sequence[Sequence[Demand]]
    held: ReservedQuota | None
    independent: bool

    def decide(self, snapshot: Snapshot, *, detail: bool) -> list[list[Explanation]]:
        """Return the explanations of each request. Placements stay in the snapshot unless ``independent`` is true."""
        explainer = Explainer(detail=detail)
        budget = None if self.held is None else QuotaBudget(self.held)
        decider = Decider(snapshot.pools, snapshot.rules, budget, [explainer], counting=not self.independent)
        auto_ratios = snapshot.auto_ratios() if detail else {}
        ignored_keys = IgnoredKeys(snapshot.rules.filters.filters)
        explanations = []
        for item, demands in zip(self.work, self.demands, strict=True):
            decided = decider.decide(item, self.lookup, demands)
            hints = {key: value for spec in decided.specs for key, value in spec.request.hints.items()}
            specs = {key: value for spec in decided.specs for key, value in spec.request.extra_specs.items()}
            ignored_hints, ignored_specs = tuple(ignored_keys.hints(hints)), tuple(ignored_keys.specs(specs))
            explanations.append(
                [
                    _completed(
                        replace(explanation, ignored_hints=ignored_hints, ignored_specs=ignored_specs),
                        auto_ratios,
                        snapshot.doubts,
                    )
                    for explanation in explainer.explanations(item, decided)
                ]
            )
        return explanations


class Simulator:
    """Answers questions about decisions, by the database's rows and the snapshot of the moment."""

    def __init__(self, database: Database, quotas: quota_options.Settings | None = None) -> None:
        self._database = database
        self._quotas = quotas or quota_options.Settings()

    def what_if(self, question: WhatIf, work: Sequence[Work], snapshot: Snapshot) -> list[SimulationResult]:
        """Return how each request would be decided, after those before it.

        ``work`` are the requests of the question. ``snapshot`` may be shared with other questions.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        snapshot = replace(snapshot, pools=snapshot.pools.snapshot())
        requests = self._requests(question, work, snapshot)
        if question.changes == hypothetical_pools.NO_CHANGES:
            return [
                SimulationResult(volumes=explanations)
                for explanations in requests.decide(snapshot, detail=question.detail)
            ]
        changed = requests.decide(snapshot.changed(question.changes), detail=question.detail)
        unchanged = requests.decide(snapshot, detail=False)
        return [SimulationResult(volumes=then, unchanged=now) for then, now in zip(changed, unchanged, strict=True)]

    def _requests(self, question: WhatIf, work: Sequence[Work], snapshot: Snapshot) -> SimulatedRequests:
        with self._database.reading() as session:
            lookup = resolution.read_references(session, by_volume(work))
            demands: list[list[Demand]] = [[] for _ in work]
            held = None
            if limits.has_volume_limits(session, self._quotas.defaults):
                # A question without a project is about the pools alone.
                demands = [
                    [demand for demand in quota_demands.of_request(item, lookup) if demand.project_id] for item in work
                ]
                held = reservations.preview(
                    session, self._quotas, [demand for request_demands in demands for demand in request_demands]
                )
            if snapshot.rules.counts_volumes:
                set_volume_numbers(snapshot.pools, snapshot.entries, volumes.per_pool(session))
        return SimulatedRequests(work, lookup, demands, held, question.apart)


def requests_of(question: WhatIf) -> list[Work]:
    """Return the requests of a question. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    if not 1 <= len(question.requests) <= MAX_REQUESTS:
        raise errors.InvalidInput(f"requests are {len(question.requests)}: a question takes 1 to {MAX_REQUESTS}")
    return [_request_of(request, index) for index, request in enumerate(question.requests)]


def _request_of(request: SimulatedRequest, index: int) -> Work:
    all_kinds = (request.create, request.group, request.extend, request.migrate, request.retype)
    messages = [message for message in all_kinds if message is not None]
    if len(messages) != 1:
        raise errors.InvalidInput(f"requests[{index}] takes one of create, group, extend, migrate and retype")
    [work] = messages
    return Move(work) if isinstance(work, MigrateVolume) else work


def _completed(
    explanation: Explanation, auto_ratios: Mapping[str, over_subscription.AutoRatio], doubts: Mapping[str, str]
) -> Explanation:
    """Add to the verdicts the derivation of the ratio that binds a thin volume, and why a candidate is ranked last."""
    if not auto_ratios and not doubts:
        return explanation
    verdicts = tuple(
        replace(
            verdict,
            auto_ratio=auto_ratios.get(verdict.pool) if verdict.thin else None,
            ranked_last=doubts.get(backend_of(verdict.pool)) if verdict.filter is None else None,
        )
        for verdict in explanation.verdicts
    )
    return replace(explanation, verdicts=verdicts)
