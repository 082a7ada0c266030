# SPDX-License-Identifier: Apache-2.0
"""The composition of a scheduler: its parts, built in two groups around one decision thread."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.notifications.announcer import Announcer
from tonnage.rpc.batching.command_sender import Messenger
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.claims.outcome_handler import Concluding
from tonnage.scheduler.claims.periodic_tasks import Housekeeper
from tonnage.scheduler.claims.volume_operations import Verbs
from tonnage.scheduler.cluster.membership import Peers
from tonnage.scheduler.cluster.rules_agreement import Changeover
from tonnage.scheduler.compute.instance_hosts import Localities
from tonnage.scheduler.compute.nova import Nova
from tonnage.scheduler.decisions.builtin_filters import BackendStateFilter
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.placement_requests import Move, Retry
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.audit_thread import Auditing
from tonnage.scheduler.reports.cache_refresh import Freshness
from tonnage.scheduler.reports.capacity_alerts import Announcing
from tonnage.scheduler.reports.driver_audit import Inspector
from tonnage.scheduler.reports.report_handler import Intake
from tonnage.scheduler.settings import Settings
from tonnage.scheduler.simulation.decision_log import DecisionLog, LogFile
from tonnage.scheduler.simulation.simulator import Simulator, Snapshot

Clock = Callable[[], float]

#: Seconds between two searches of the ledger for claims without progress, and between two heartbeats; less where a
#: scheduler counts as down sooner.
_SWEEP = 10.0


@dataclass(frozen=True, slots=True)
class Integrations:
    """Optional collaborators: a file for the decision log, Nova, and the sender of announcements."""

    log_file: LogFile | None = None
    nova: Nova | None = None
    announcer: Announcer | None = None


class Foundation:
    """The parts that all others use: the ledger, the cache of it, the other schedulers and the decision thread."""

    def __init__(self, settings: Settings, database: Database, clock: Clock = time.monotonic) -> None:
        self.settings = settings
        self.database = database
        self.clock = clock
        self.sweep = min(_SWEEP, settings.service_down_time / 3)
        self.hosts = HostManager(settings.default_ratio, settings.calculation, settings.service_down_time)
        self.peers = Peers(settings, database, self.sweep)
        self.agreement = Changeover(database, self.hosts, self.peers, clock)

    def silence(self, backend: str) -> float:
        """Return for how many seconds a backend has been silent."""
        return self.hosts.silence(backend, self.clock())

    def figures_age(self, pool: str) -> float:
        """Return the age in seconds of the figures of a pool."""
        return self.hosts.age(pool, self.clock())


class DecisionParts:
    """The parts that decide requests, to place them or to answer questions."""

    def __init__(
        self,
        base: Foundation,
        rules: Rules,
        dispatcher: Dispatcher,
        thread: DecisionThread,
        integrations: Integrations,
    ) -> None:
        settings, file = base.settings, integrations.log_file
        log = None if file is None else DecisionLog(file, settings.host, base.hosts, base.clock)
        self._base = base
        self._thread = thread
        self._state = BackendStateFilter(base.silence, settings.service_down_time, base.figures_age)
        self.rules = RulesInForce(self.with_state_filter(rules), log)
        self.placer = Placer(
            base.database,
            Freshness(base.hosts, base.clock),
            self.rules,
            dispatcher,
            settings.quotas,
            base.agreement,
            thread,
        )
        self.instance_hosts = Localities(base.database, integrations.nova)
        self.simulator = Simulator(base.database, settings.quotas)

    def with_state_filter(self, rules: Rules) -> Rules:
        """Return rules whose first filter is the one of the state of backends, which is always enabled."""
        filters = FilterChain([self._state, *rules.filters.filters], rules.calculation)
        return Rules(filters, rules.weighers, rules.calculation)

    def snapshot(self) -> Snapshot:
        """Return everything that decides now. Belongs to the decision thread."""
        hosts = self._base.hosts
        return Snapshot(
            hosts.table.snapshot(),
            self.rules.current,
            hosts.default_ratio,
            dict(hosts.entries),
            self._base.settings.availability_zone,
        )

    def place_later(self, work: Retry | Move) -> None:
        """Have a volume placed or moved in a later batch, once the host of its instance is known."""
        self.instance_hosts.locate_later(work, self._submit)

    def retry_later(self, volume_id: str) -> None:
        """Have a volume tried in another pool in a later batch."""
        self.place_later(Retry(volume_id))

    def _submit(self, work: Retry | Move) -> None:
        self._thread.submit(self.placer.place, work)


class ReportParts:
    """The parts that apply what agents send, and that take care of claims."""

    def __init__(
        self,
        base: Foundation,
        decisions: DecisionParts,
        dispatcher: Dispatcher,
        agents: Messenger,
        announcer: Announcer | None,
    ) -> None:
        settings, database, hosts, peers = base.settings, base.database, base.hosts, base.peers
        self.auditing = Auditing(Inspector(database), agents, base.clock)
        self.announcing = None if announcer is None else Announcing(hosts, announcer)
        concluding = Concluding(database, hosts, dispatcher, settings.max_attempts, decisions.retry_later)
        self.intake = Intake(
            database,
            hosts,
            dispatcher,
            agents,
            concluding,
            base.clock,
            self.announcing,
            self.auditing,
        )
        self.housekeeper = Housekeeper(
            settings,
            database,
            hosts,
            dispatcher,
            self.intake,
            concluding,
            peers,
            decisions.place_later,
            base.clock,
            base.sweep,
            decisions.placer.follow_rules,
            self.announcing,
        )
        self.verbs = Verbs(database, hosts, dispatcher, self.housekeeper.sweep_soon, settings.quotas)
