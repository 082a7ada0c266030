# SPDX-License-Identifier: Apache-2.0
"""The composition of a scheduler: its parts, built in two groups around one decision thread."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import Answer
from tonnage.scheduler.agents.deferred_reports import DeferredReports
from tonnage.scheduler.agents.notice_handler import NoticeHandler
from tonnage.scheduler.agents.outcome_handler import OutcomeHandler
from tonnage.scheduler.agents.registration import Registration
from tonnage.scheduler.agents.report_handler import ReportHandler
from tonnage.scheduler.agents.report_inbox import ReportInbox
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions import decision_metrics
from tonnage.scheduler.decisions.decision_metrics import DecisionMetrics
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.extension_parts import ExtensionParts, PartsBuilder, SchedulerContext
from tonnage.scheduler.observers.audit_thread import AuditThread
from tonnage.scheduler.observers.driver_audit import DriverAudit
from tonnage.scheduler.observers.extension_events import ExtensionEvents
from tonnage.scheduler.periodic.periodic_tasks import BackendMonitor, PeriodicTasks, Purge
from tonnage.scheduler.periodic.sweep import ClaimRecovery, Sweep, SweepTimer
from tonnage.scheduler.requests.placement_requests import Move, Retry
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.requests.preparation import Message, Preparation
from tonnage.scheduler.simulation.simulator import DecisionSnapshots, Simulator
from tonnage.scheduler.volume_operations import VolumeOperations

Clock = Callable[[], float]

#: Seconds between two searches of the ledger for claims without progress, and between two heartbeats; less where a
#: scheduler counts as down sooner.
_SWEEP = 10.0

#: The longest time in seconds that the scheduler whose turn it is may take for a report before another applies it.
_PATIENCE = 3.0


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

    def notice(self, backend: str) -> str | None:
        """Return the reason that the agent of a backend has given for its silence, None if it has given none."""
        return self.hosts.notice(backend)

    def is_draining(self, backend: str) -> bool:
        """Return whether the volumes of a backend are moved away."""
        return self.hosts.is_draining(backend)


class DecisionParts:
    """The parts that decide requests, to place them or to answer questions, and the parts of extensions."""

    def __init__(
        self,
        base: Foundation,
        rules: Rules,
        dispatcher: Dispatcher,
        thread: DecisionThread,
        builders: Mapping[str, PartsBuilder],
    ) -> None:
        settings = base.settings
        self._thread = thread
        self._state = BackendStateFilter(settings.service_down_time, base)
        self.rules = RulesInForce(self.with_state_filter(rules))
        self.simulator = Simulator(base.database, settings.quotas)
        self.snapshots = DecisionSnapshots(thread, base.hosts, self.rules, settings.availability_zone)
        self.extensions = ExtensionParts.build(
            builders,
            SchedulerContext(
                settings,
                base.database,
                base.hosts,
                base.membership,
                self.simulator,
                self.snapshots,
                base.clock,
                self.move,
                ExtensionEvents(),
            ),
        )
        self.preparations: Sequence[Preparation] = self.extensions.preparations
        self.placer = Placer(
            base.database,
            base.cache_refresh,
            self.rules,
            dispatcher,
            settings.quotas,
            base.rules_agreement,
            thread,
            [DecisionMetrics(), *self.extensions.decision_observers],
        )

    def with_state_filter(self, rules: Rules) -> Rules:
        """Return rules whose first filter is the one of the state of backends, which is always enabled."""
        filters = FilterChain([self._state, *rules.filters.filters], rules.calculation)
        return Rules(filters, rules.weighers, rules.calculation)

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return requests with the additions of the preparations. Threads of requests call this, and may wait here."""
        for preparation in self.preparations:
            messages = preparation.prepare(messages)
        return messages

    def move(self, work: Move) -> Answer:
        """Decide the request of an extension to move a volume, and return after the commit.

        Raises the errors of :meth:`tonnage.scheduler.manager.SchedulerManager.place`.
        """
        with decision_metrics.timed([work]):
            [prepared] = self.prepare([work])
            answer = self._thread.call(self.placer.place, prepared)
            assert isinstance(answer, Answer)  # noqa: S101  -- a move is no group
            return answer

    def place_later(self, work: Retry | Move) -> None:
        """Have a volume placed or moved in a later batch, once it is prepared."""
        submit: Callable[[Retry | Move], object] = partial(self._thread.submit, self.placer.place)
        for preparation in reversed(self.preparations):
            submit = partial(preparation.prepare_later, submit=submit)
        submit(work)


class ReportParts:
    """The parts that apply reports and outcomes of agents, and that recover claims without progress."""

    def __init__(
        self,
        base: Foundation,
        decisions: DecisionParts,
        dispatcher: Dispatcher,
        agents: AgentMessages,
        thread: DecisionThread,
    ) -> None:
        settings, database, clock = base.settings, base.database, base.clock
        hosts, cache_refresh, extensions = base.hosts, base.cache_refresh, decisions.extensions
        self.audit = AuditThread(DriverAudit(database), agents, clock)
        self.registration = Registration(database, cache_refresh, dispatcher, agents, self.audit)
        self.notice_handler = NoticeHandler(database, cache_refresh)
        self.outcome_handler = OutcomeHandler(
            database, hosts, self.registration, dispatcher, decisions, settings.max_attempts
        )
        self.report_handler = ReportHandler(
            database,
            cache_refresh,
            self.registration,
            dispatcher,
            self.outcome_handler,
            clock,
            lambda message: self.report_inbox.put(message),
            self.audit,
            extensions.report_observers,
        )
        self.report_inbox = ReportInbox(
            lambda backend: thread.submit(self.report_inbox.apply, backend), self.report_handler
        )
        self.deferred_reports = DeferredReports(
            database,
            cache_refresh,
            self.registration,
            dispatcher,
            self.report_inbox.put,
            clock,
            min(_PATIENCE, settings.service_down_time / 10),
        )
        sweep_timer = SweepTimer(base.sweep, clock)
        recovery = ClaimRecovery(settings, hosts, dispatcher, self.outcome_handler, decisions, clock)
        self.periodic_tasks = PeriodicTasks(
            [
                self.deferred_reports,
                BackendMonitor(database, cache_refresh, clock),
                Sweep(
                    sweep_timer,
                    database,
                    cache_refresh,
                    base.membership,
                    base.rules_agreement,
                    decisions.rules,
                    recovery,
                ),
                Purge(database, clock, extensions.purges),
            ]
        )
        self.operations = VolumeOperations(database, hosts, dispatcher, agents, sweep_timer, settings.quotas)
