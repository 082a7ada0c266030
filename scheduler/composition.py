# SPDX-License-Identifier: Apache-2.0
"""The composition of a scheduler: its parts, built in two groups around one decision thread."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tonnage.extensions.announcements.announcer import Announcer
from tonnage.extensions.announcements.capacity_alerts import CapacityAlerts
from tonnage.extensions.compute.instance_hosts import InstanceHosts
from tonnage.extensions.compute.nova import Nova
from tonnage.extensions.history.daily_forecasts import Forecaster
from tonnage.extensions.history.history_thread import HistoryThread
from tonnage.extensions.history.history_writer import HistoryWriter
from tonnage.extensions.history.refusal_forecasts import RefusalForecaster
from tonnage.extensions.replay.decision_log import DecisionLog, LogFile
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.scheduler.agents.deferred_reports import DeferredReports
from tonnage.scheduler.agents.outcome_handler import OutcomeHandler
from tonnage.scheduler.agents.registration import Registration
from tonnage.scheduler.agents.report_handler import ReportHandler
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions.decision_metrics import MeteredPlacer
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.observers.audit_thread import AuditThread
from tonnage.scheduler.observers.driver_audit import DriverAudit
from tonnage.scheduler.periodic.periodic_tasks import BackendMonitor, PeriodicTasks, Purge
from tonnage.scheduler.periodic.sweep import ClaimRecovery, Sweep, SweepTimer
from tonnage.scheduler.requests.placement_requests import Move, Retry
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.simulation.simulator import DecisionSnapshots, Simulator
from tonnage.scheduler.volume_operations import VolumeOperations

Clock = Callable[[], float]

#: Seconds between two searches of the ledger for claims without progress, and between two heartbeats; less where a
#: scheduler counts as down sooner.
_SWEEP = 10.0

#: The longest time in seconds that the scheduler whose turn it is may take for a report before another applies it.
_REPORT_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Integrations:
    """Optional collaborators: a file for the decision log, Nova, and the sender of announcements.

    With ``metrics`` decisions are counted and timed.
    """

    log_file: LogFile | None = None
    nova: Nova | None = None
    announcer: Announcer | None = None
    metrics: bool = False


class Foundation:
    """The parts that all others use: the ledger, its cache, the other schedulers and the rules agreed with them."""

    def __init__(self, settings: Settings, database: Database, clock: Clock = time.monotonic) -> None:
        self.settings = settings
        self.database = database
        self.clock = clock
        self.sweep = min(_SWEEP, settings.service_down_time / 3)
        self.hosts = HostManager(settings.default_ratio, settings.calculation, settings.service_down_time)
        self.cache_refresh = CacheRefresh(self.hosts, clock)
        self.membership = Membership(settings, database, self.sweep)
        self.rules_agreement = RulesAgreement(database, self.cache_refresh, self.membership, clock)

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
        self._thread = thread
        self._state = BackendStateFilter(settings.service_down_time, base)
        self.rules = RulesInForce(self.with_state_filter(rules), log)
        self.placer = (MeteredPlacer if integrations.metrics else Placer)(
            base.database,
            base.cache_refresh,
            self.rules,
            dispatcher,
            settings.quotas,
            base.rules_agreement,
            thread,
        )
        nova = integrations.nova
        self.instance_hosts = None if nova is None else InstanceHosts(base.database, nova)
        self.simulator = Simulator(base.database, settings.quotas)
        self.snapshots = DecisionSnapshots(thread, base.hosts, self.rules, settings.availability_zone)

    def with_state_filter(self, rules: Rules) -> Rules:
        """Return rules whose first filter is the one of the state of backends, which is always enabled."""
        filters = FilterChain([self._state, *rules.filters.filters], rules.calculation)
        return Rules(filters, rules.weighers, rules.calculation)

    def place_later(self, work: Retry | Move) -> None:
        """Have a volume placed or moved in a later batch, once the host of its instance is known."""
        if self.instance_hosts is None:
            self._submit(work)
        else:
            self.instance_hosts.locate_later(work, self._submit)

    def _submit(self, work: Retry | Move) -> None:
        self._thread.submit(self.placer.place, work)


class ReportParts:
    """The parts that apply reports and outcomes of agents, and that recover claims without progress."""

    def __init__(
        self,
        base: Foundation,
        decisions: DecisionParts,
        dispatcher: Dispatcher,
        agents: AgentMessages,
        announcer: Announcer | None,
    ) -> None:
        settings, database, hosts, clock = base.settings, base.database, base.hosts, base.clock
        self.audit = AuditThread(DriverAudit(database), agents, clock)
        writer = HistoryWriter(database, settings.service_down_time)
        refusals = RefusalForecaster(database, decisions.simulator, decisions.snapshots)
        self.history = HistoryThread(writer, [Forecaster(database), refusals], base.membership)
        self.alerts = None if announcer is None else CapacityAlerts(hosts, announcer)
        self.registration = Registration(database, base.cache_refresh, dispatcher, agents, self.audit)
        self.outcome_handler = OutcomeHandler(self.registration, settings.max_attempts, decisions)
        self.report_handler = ReportHandler(self.outcome_handler, clock, self.alerts)
        self.deferred_reports = DeferredReports(
            self.report_handler, min(_REPORT_TIMEOUT, settings.service_down_time / 10)
        )
        sweep_timer = SweepTimer(base.sweep, clock)
        recovery = ClaimRecovery(settings, self.outcome_handler, clock)
        self.periodic_tasks = PeriodicTasks(
            [
                self.deferred_reports,
                BackendMonitor(database, base.cache_refresh, clock),
                Sweep(sweep_timer, base.rules_agreement, decisions.rules, recovery),
                Purge(database, clock, announcer),
            ]
        )
        self.operations = VolumeOperations(database, hosts, dispatcher, agents, sweep_timer, settings.quotas)
