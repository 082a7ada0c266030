# SPDX-License-Identifier: Apache-2.0
"""The scheduler without its RPC: its parts, around one decision thread.

Every method may be called from any thread; it hands its work to the decision thread and waits.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.catalog import volume_usage
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, heartbeats, reports
from tonnage.notifications.announcer import Announcer
from tonnage.quotas.external_usage import NOTHING
from tonnage.rpc.batching.command_sender import Messenger
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.batching.request_batch import Order
from tonnage.rpc.messages import (
    CreateGroup,
    CreateVolume,
    DeleteVolume,
    ExtendVolume,
    Hello,
    Listing,
    ManageVolume,
    Outcome,
    Outlook,
    PoolQuery,
    PoolView,
    Receipt,
    RetypeVolume,
    SetBackendState,
    SpelledPoolQuery,
    SpelledPools,
    StampQuery,
    UnmanageVolume,
    Welcome,
    WhatIf,
)
from tonnage.rpc.node_fit_messages import FitAnswer, FitQuery
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.claims.outcome_handler import OutcomeHandler
from tonnage.scheduler.claims.periodic_tasks import PeriodicTasks, Purge
from tonnage.scheduler.claims.sweep import ClaimRecovery, Sweep, SweepTimer
from tonnage.scheduler.claims.volume_operations import VolumeOperations
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.compute.instance_hosts import InstanceHosts
from tonnage.scheduler.compute.nova import Nova
from tonnage.scheduler.decisions import lookups, quota_owners, request_spec
from tonnage.scheduler.decisions.builtin_filters import BackendStateFilter
from tonnage.scheduler.decisions.decision_thread import DecisionThread, Handler
from tonnage.scheduler.decisions.placement_requests import Move, Retry
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.audit_thread import AuditThread
from tonnage.scheduler.reports.backend_monitor import BackendMonitor
from tonnage.scheduler.reports.cache_refresh import CacheRefresh
from tonnage.scheduler.reports.capacity_alerts import CapacityAlerts
from tonnage.scheduler.reports.deferred_reports import DeferredReports
from tonnage.scheduler.reports.driver_audit import DriverAudit
from tonnage.scheduler.reports.registration import Registration
from tonnage.scheduler.reports.report_handler import ReportHandler
from tonnage.scheduler.settings import Mutable, Settings
from tonnage.scheduler.simulation import pool_views
from tonnage.scheduler.simulation.decision_log import DecisionLog, LogFile
from tonnage.scheduler.simulation.node_fit import NodeFit
from tonnage.scheduler.simulation.pool_view_text import Spelling
from tonnage.scheduler.simulation.simulator import Moment, Oracle
from tonnage.scheduler.unread_functions import UnreadFunctions
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: What is decided: anything that takes capacity.
Placeable: TypeAlias = CreateVolume | CreateGroup | ExtendVolume | Move | RetypeVolume

#: Seconds between two looks at the ledger for claims that nobody works on, and between two signs of life; less where
#: a scheduler counts as down sooner.
_SWEEP = 10.0

#: Seconds that the scheduler whose turn it is has to apply a report, before another one applies it: by far more than it
#: needs, so that two do not do the same work at the same time.
_PATIENCE = 3.0

#: Seconds between two batches of what agents tell, for which nobody waits, and the most that they are.
_PAUSE = 0.25
_LONGEST_PAUSE = 1.0


class SchedulerCore:
    """One scheduler."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        agents: Messenger,
        filters: FilterChain,
        weighers: WeigherChain,
        clock: Callable[[], float] = time.monotonic,
        log_file: LogFile | None = None,
        nova: Nova | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._agents = agents
        self._clock = clock
        sweep = min(_SWEEP, settings.service_down_time / 3)
        self._hosts = hosts = HostManager(settings.default_ratio, settings.calculation, settings.service_down_time)
        self._cache_refresh = cache_refresh = CacheRefresh(hosts, clock)
        self._membership = membership = Membership(settings, database, sweep)
        self._rules_agreement = RulesAgreement(database, cache_refresh, membership, clock)
        dispatcher = Dispatcher(agents, hosts, settings.claim_lease, clock)
        self._state = BackendStateFilter(
            lambda backend: hosts.silence(backend, clock()),
            settings.service_down_time,
            lambda pool: hosts.age(pool, clock()),
        )
        self._filters, self._weighers = self._all_of(filters, settings.calculation), weighers
        self._dispatcher = dispatcher
        log = None if log_file is None else DecisionLog(log_file, settings.host, hosts, clock)
        self._placer = Placer(
            database,
            hosts,
            self._filters,
            weighers,
            dispatcher,
            cache_refresh,
            membership.is_alone,
            log,
            self._catch_up,
            settings.quotas,
            lambda item: self._thread.submit(self._placer.place, item),
        )
        self._audit = AuditThread(DriverAudit(database), agents, clock)
        self._alerts = None if announcer is None else CapacityAlerts(hosts, announcer)
        outcome_handler = OutcomeHandler(database, hosts, dispatcher, settings.max_attempts, self)
        self._registration = Registration(database, cache_refresh, dispatcher, agents, self._audit)
        self._report_handler = ReportHandler(
            database, cache_refresh, self._registration, outcome_handler, clock, self._alerts, self._audit
        )
        patience = min(_PATIENCE, settings.service_down_time / 10)
        self._deferred_reports = DeferredReports(
            database, cache_refresh, self._registration, self._report_handler, clock, patience
        )
        self._backend_monitor = BackendMonitor(database, cache_refresh, clock)
        self._sweep_timer = SweepTimer(sweep, clock)
        recovery = ClaimRecovery(settings, hosts, dispatcher, outcome_handler, self, clock)
        self._periodic_tasks = PeriodicTasks(
            [
                self._deferred_reports,
                self._backend_monitor,
                Sweep(database, self._sweep_timer, membership, self._rules_agreement, self, cache_refresh, recovery),
                Purge(database, clock, announcer),
            ]
        )
        self._instance_hosts = InstanceHosts(database, nova)
        self._oracle = Oracle(
            database, lambda: self._thread.call(self._moments, None), self._instance_hosts, settings.quotas
        )
        self._spelling = Spelling()
        self._node_fit = NodeFit(database)
        self._operations = VolumeOperations(database, hosts, dispatcher, self._sweep_timer, settings.quotas)
        pauses: dict[Handler[Any, Any], Callable[[], float]] = {
            self._report_handler.outcomes: self._pause,
            self._report_handler.reports: self._pause,
        }
        self._unread = UnreadFunctions(hosts)
        self._thread = DecisionThread(settings.batch_size, self._keep_house, pauses=pauses)

    def start(self) -> None:
        """Load what the ledger knows, start deciding, and ask the agents for reports.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers go by other rules.
        """
        with self._database.reading() as session:
            absence = backends.unheard(session, heartbeats.SCHEDULER) or 0.0
        self._membership.join()
        # Other options may limit what others did not.
        self._database.run(volume_usage.distrust_all)
        self._hosts.apply_rules(self._settings.default_ratio, self._settings.calculation, self._membership.generation)
        with self._database.reading() as session:
            self._cache_refresh.refresh(session, absence=absence)
            pools = backends.load_pools(session)
            self._membership.refresh(session)
        self._rules_agreement.restate(pools)
        self._hosts.update_statuses(self._clock())
        LOG.info("Loaded %d backend(s) and %d pool(s) from the ledger", len(list(self._hosts.backends())), len(pools))
        self._thread.start()
        self._audit.start()

    def ask_for_reports(self) -> None:
        """Ask all agents for a report now; those that are not there will say hello when they come.

        They are heard by now. A start that fails before that is no time in which they were silent.
        """
        self._membership.listening = True
        for backend in list(self._hosts.backends()):
            self._agents.report_now(backend.name)

    @property
    def schedulers(self) -> int:
        """How many schedulers there are, this one among them."""
        return self._membership.scheduler_count

    def has_turn(self, work: str) -> bool:
        """Tell whether it is this scheduler that does some work which one of all is to do."""
        return self._membership.has_turn(work)

    def reporting(self) -> set[str]:
        """Return the names of the backends that have reported since this scheduler started."""
        return {backend.name for backend in list(self._hosts.backends()) if backend.reported_here}

    def change(self, settings: Mutable) -> None:
        """Decide by other settings from now on. What is in hand is decided by those of before.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers that are up go by another
        default ratio or calculation; nothing is changed then.
        """
        self._thread.call(self._change, settings)

    def stop(self) -> None:
        """Finish what was accepted, then end."""
        self._rules_agreement.stop()
        self._thread.stop()
        self._audit.stop()
        self._instance_hosts.stop()
        try:
            self._membership.leave()
        except errors.TonnageError as error:
            LOG.warning("The ledger could not be told that this scheduler ends: %s", error)

    def hello(self, message: Hello) -> Welcome:
        """Give an agent process its epoch."""
        return self._thread.call(self._registration.hellos, message)

    def listing(self, message: Listing) -> Receipt:
        """Take in what a backend holds."""
        return self._thread.call(self._registration.listings, message)

    def report(self, message: PackedReport) -> None:
        """Take in a backend's figures, in a while.

        All schedulers get each report, and one of them has its turn to apply it at once. The others look a moment later
        what it has become, so that they do not get into each other's way; if nobody has applied it they do.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that cannot be opened.
        """
        if self._membership.has_turn(message.backend):
            self._thread.submit(self._report_handler.reports, message.opened())
        else:
            self._thread.submit(self._deferred_reports.put, message)

    def stamps(self, query: StampQuery) -> dict[str, int]:
        """Give a look at storages that is about to begin its stamps."""
        return self._database.run_past_duplicates(reports.stamp, query.storage_ids)

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt]:
        """Take in how operations ended."""
        waiting = [self._thread.submit(self._report_handler.outcomes, message) for message in messages]
        return [each.result() for each in waiting]

    def place(self, work: Placeable) -> Any:
        """Decide, claim and order a new volume, a group of them, the growth, the move or another type of one.

        Returns after the commit. The refusal of a retype says why the volume cannot stay where it is or, if it might
        move, why there is no other place for it.
        """
        self._read_usage([work])
        [located] = self._instance_hosts.located([work])
        return self._thread.call(self._placer.place, located)

    def manage(self, message: ManageVolume) -> None:
        """Take over what is on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool,
        :class:`~tonnage.capacity.errors.InvalidInput` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._read_usage([message])
        self._thread.call(self._operations.manage, message)

    def unmanage(self, message: UnmanageVolume) -> None:
        """Forget a volume and leave it on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._operations.unmanage, message)

    def set_backend_state(self, message: SetBackendState) -> None:
        """Enable, disable or drain a backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._thread.call(self._operations.set_backend_state, message)

    def delete(self, message: DeleteVolume) -> None:
        """Order a deletion.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._operations.delete, message)

    def orders(self, messages: Sequence[Order]) -> list[object]:
        """Take requests that came together; each has its own answer, or its own error in place of one."""
        self._read_usage(messages)
        waiting: list[futures.Future[Any]] = [
            self._thread.submit(self._operations.delete, message)
            if isinstance(message, DeleteVolume)
            else self._thread.submit(self._placer.place, message)
            for message in self._instance_hosts.located(messages)
        ]
        return [each.exception() or each.result() for each in waiting]

    def undelivered(self, claim_ids: Sequence[str]) -> None:
        """Note that the bus did not take commands."""
        self._thread.submit(self._undelivered, claim_ids)

    def get_pools(self, query: PoolQuery) -> list[PoolView]:
        """Return the pools asked for, by name.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type.
        """
        picture, wanted = self._seen(query)
        return pool_views.asked_for(picture, query, wanted)

    def spelled_pools(self, query: SpelledPoolQuery) -> list[SpelledPools]:
        """Return the same as text. Raises the same."""
        picture, wanted = self._seen(query)
        return self._spelling.of(picture, query, wanted)

    def explain(self, message: CreateVolume) -> Explanation:
        """Return how a create would be decided now.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a request that could not be decided at all.
        """
        self._read_usage([message])
        return self._oracle.explain(message)

    def what_if(self, question: WhatIf) -> list[Outlook]:
        """Return how requests would be decided one after another if some things were different, or as they are.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        self._read_usage([each for asked in question.requests for each in (asked.create, asked.group, asked.extend)])
        return self._oracle.what_if(question)

    def fit_nodes(self, query: FitQuery) -> FitAnswer:
        """Return which nodes of a cluster take volumes together.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for volumes that cannot be meant.
        """
        return self._node_fit.answer(query)

    def _read_usage(self, messages: Sequence[object]) -> None:
        """Find out what the projects of requests use that the ledger does not know: here nothing is held yet."""
        beside = self._settings.quotas.beside
        if beside is not NOTHING:
            beside.read(quota_owners.projects(self._database, messages))

    def _request(self, message: CreateVolume) -> Request:
        with self._database.reading() as session:
            return request_spec.create(message, lookups.look_up(session, [message])).request

    def _pause(self) -> float:
        """Return the seconds between two batches of what agents tell.

        Schedulers share that, and each batch is a transaction: the more there are, the less often each takes some up.
        """
        return min(_LONGEST_PAUSE, _PAUSE * self.schedulers)

    def place_later(self, work: Retry | Move) -> None:
        """Place or move a volume in a later batch, once it is known where its instance runs."""
        self._instance_hosts.locate_later(work, lambda work: self._thread.submit(self._placer.place, work))

    def _all_of(self, filters: FilterChain, calculation: Calculation) -> FilterChain:
        """Return the filters after the one that is always there."""
        return FilterChain([self._state, *filters.filters], calculation)

    # Work of the decision thread.

    def _keep_house(self) -> None:
        self._periodic_tasks.run()
        self._unread.look(self._filters, self._weighers)

    def _change(self, wanted: Sequence[Mutable]) -> list[Exception | None]:
        results: list[Exception | None] = []
        for settings in wanted:
            try:
                # Other options may limit what others did not.
                self._database.run(volume_usage.distrust_all)
                self._rules_agreement.agree(settings.default_ratio, settings.calculation)
            except (errors.ConfigurationError, errors.Unavailable) as error:
                results.append(error)
                continue
            self._decide_by(self._all_of(settings.filters, settings.calculation), settings.weighers)
            self._rules_agreement.apply_rules(settings.default_ratio, settings.calculation)
            if self._alerts is not None and settings.announcements is not None:
                self._alerts.change(settings.announcements)
            results.append(None)
        return results

    def _decide_by(self, filters: FilterChain, weighers: WeigherChain) -> None:
        self._filters, self._weighers = filters, weighers
        self._placer.decide_by(filters, weighers)

    def apply_calculation(self, calculation: Calculation) -> None:
        """Decide by another calculation from now on."""
        self._decide_by(self._filters.judged_by(calculation), self._weighers.judged_by(calculation))

    def _catch_up(self) -> None:
        self._rules_agreement.catch_up(self.apply_calculation)

    def _undelivered(self, messages: Sequence[Sequence[str]]) -> list[Exception | None]:
        for claim_ids in messages:
            self._dispatcher.undelivered(claim_ids)
        return [None] * len(messages)

    def _seen(self, query: PoolQuery) -> tuple[pool_views.Picture, Request | None]:
        """Return what there is to be seen now, and what the pools that are asked for must have."""
        wanted = None if query.volume_type is None else self._request(request_spec.probe(query.volume_type))
        # Only the copying is done in the decision thread, however many pools there are to show.
        return self._thread.call(self._pictures, None), wanted

    def _pictures(self, items: Sequence[None]) -> list[pool_views.Picture | Exception]:
        return [pool_views.picture(self._hosts, self._clock(), self._audit.found)] * len(items)

    def _moments(self, items: Sequence[None]) -> list[Moment | Exception]:
        rules = Rules(self._filters, self._weighers, self._hosts.calculation)
        zone = self._settings.availability_zone
        return [
            Moment(self._hosts.table.snapshot(), rules, self._hosts.default_ratio, dict(self._hosts.entries), zone)
        ] * len(items)
