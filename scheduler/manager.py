# SPDX-License-Identifier: Apache-2.0
"""The scheduler manager: everything of a scheduler but its RPC.

Every method may be called from any thread; it hands its work to the decision thread and waits.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from types import MappingProxyType
from typing import TypeAlias, overload

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import Request
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, reports
from tonnage.ledger.locks import heartbeats, volume_usage
from tonnage.metrics import instruments
from tonnage.rpc import contract
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    CreateVolume,
    DeleteVolume,
    ExtendVolume,
    GroupAnswer,
    Hello,
    ListBackends,
    Listing,
    ManageVolume,
    Notice,
    Outcome,
    PoolListQuery,
    PoolListText,
    PoolQuery,
    PoolView,
    Receipt,
    RetypeVolume,
    SetBackendState,
    SimulatedRequest,
    SimulationResult,
    StampQuery,
    UnmanageVolume,
    Welcome,
    WhatIf,
)
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.join_admission import JoinAdmission
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.composition import Clock, DecisionParts, Foundation, ReportParts
from tonnage.scheduler.configuration.settings import ReloadableSettings, Settings
from tonnage.scheduler.configuration.unread_fields import UnreadFields
from tonnage.scheduler.decisions import decision_metrics, resolution
from tonnage.scheduler.decisions.decision_thread import LONGEST_WAIT, DecisionThread
from tonnage.scheduler.extension_parts import PartsBuilder
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.simulation import adviser, pool_views, simulator
from tonnage.scheduler.simulation.pool_view_text import PoolListTextCache

LOG = logging.getLogger(__name__)

#: Seconds in one call after which the decision thread counts as stuck, in most cases because the database has stopped
#: to answer on its connection.
_LONGEST_TURN = 3.0

#: Seconds in one call of the decision thread after which a scheduler that stops no longer waits for it.
_STOP_PATIENCE = 10.0

#: A request for one volume that takes capacity.
PlaceableVolume: TypeAlias = CreateVolume | ExtendVolume | Move | RetypeVolume


class SchedulerManager:
    """One scheduler.

    ``agents`` carries commands to the agents. ``builders`` build the parts of the enabled extensions. ``thread`` is the
    decision thread, one of its own if None. The attributes ``hosts``, ``decisions``, ``operations`` and
    ``periodic_tasks`` belong to that thread.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        agents: AgentMessages,
        rules: Rules,
        clock: Clock = time.monotonic,
        builders: Mapping[str, PartsBuilder] = MappingProxyType({}),
        thread: DecisionThread | None = None,
    ) -> None:
        self.database = database
        self._settings = settings
        self._is_stuck = False
        self._agents = agents
        self._clock = clock
        self._thread = thread or DecisionThread(settings.batch_size)
        base = Foundation(settings, database, clock)
        self.hosts, self._cache_refresh = base.hosts, base.cache_refresh
        self.membership, self._rules_agreement = base.membership, base.rules_agreement
        self._dispatcher = Dispatcher(agents, base.hosts, settings.claim_lease, clock)
        self.decisions = DecisionParts(base, rules, self._dispatcher, self._thread, builders)
        self.extensions = self.decisions.extensions
        parts = ReportParts(base, self.decisions, self._dispatcher, agents, self._thread)
        self._audit, self._registration = parts.audit, parts.registration
        self._outcome_handler, self._report_inbox = parts.outcome_handler, parts.report_inbox
        self._notice_handler = parts.notice_handler
        self._deferred_reports = parts.deferred_reports
        self.periodic_tasks, self.operations = parts.periodic_tasks, parts.operations
        # The messages of agents, for which no caller waits.
        self._thread.paced = (self._outcome_handler.outcomes, self._report_inbox.apply)
        self._thread.unbatched = (self._registration.hellos, self._registration.listings)
        self._admission = JoinAdmission()
        self._pool_list_text = PoolListTextCache()
        self._sorted_names = pool_views.SortedNames()
        self._unread_fields = UnreadFields(base.hosts)

    def start(self) -> None:
        """Load backends and pools from the ledger, and start the threads. Raises the errors of :meth:`load`."""
        self.load()
        instruments.QUEUE.set_function(self._thread.waiting)
        self._thread.start(self.run_periodic_tasks)
        self._audit.start()
        self.extensions.start()

    def load(self) -> None:
        """Join the other schedulers, and load backends and pools from the ledger.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers apply other rules.
        """
        with self.database.reading() as session:
            absence = backends.seconds_without_listener(session, heartbeats.SCHEDULER) or 0.0
        self.membership.join()
        # The options may set limits that were not there before.
        self.database.run(volume_usage.mark_all_for_recount)
        self.hosts.apply_rules(self._settings.default_ratio, self._settings.calculation, self.membership.generation)
        self.hosts.listening_since = self._clock()
        limits = self._cache_refresh.load(self.database, absence)
        with self.database.reading() as session:
            self.membership.refresh(session)
        self._rules_agreement.restate(limits)
        self.hosts.update_statuses(self._clock())
        LOG.info("Loaded %d backend(s) and %d pool(s) from the ledger", len(list(self.hosts.backends())), len(limits))

    def ask_for_reports(self) -> None:
        """Ask all agents for a report now; an agent that is away says hello when it starts.

        The silence of agents counts from now on, and not while a start fails.
        """
        self.membership.listening = True
        for backend in list(self.hosts.backends()):
            self._agents.report_now(backend.name)

    @property
    def failure(self) -> str | None:
        """The reason for which this scheduler has to end; None while there is none."""
        return self.periodic_tasks.failure

    def reporting(self) -> set[str]:
        """Return the names of the backends that have reported since this scheduler started."""
        return {backend.name for backend in list(self.hosts.backends()) if backend.reported_here}

    def change(self, settings: ReloadableSettings) -> None:
        """Apply other settings from now on. Requests in hand are decided by the earlier ones.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers that are up apply another
        default ratio or calculation; nothing is changed then.
        """
        self._thread.call(self._change, settings)

    def abandon_stuck(self) -> bool:
        """Fail all requests if a plug-in or the database holds up the decision thread; return whether one does."""
        return self._thread.abandon(_STOP_PATIENCE)

    def stop(self) -> None:
        """Finish the accepted requests, then end."""
        self._rules_agreement.stop()
        self._thread.stop()
        self._audit.stop()
        self.extensions.stop()
        self.leave()

    def leave(self) -> None:
        """Tell the ledger that this scheduler ends, so that the others need not agree with its rules any more."""
        try:
            self.membership.leave()
        except errors.TonnageError as error:
            LOG.warning("The ledger could not be told that this scheduler ends: %s", error)

    def require_ready(self) -> None:
        """Raise an error if no call can begin now, so that the caller sends it to another scheduler.

        Raises :class:`~tonnage.capacity.errors.DatabaseUnreachable`, or :class:`~tonnage.capacity.errors.Declined` if
        the decision thread is stuck.
        """
        if self.database.away:
            self.database.connectivity.require_usable()
        is_stuck = self._thread.turn_seconds() > _LONGEST_TURN
        if is_stuck != self._is_stuck:
            self._is_stuck = is_stuck
            if is_stuck:
                text = "%s has not answered for %g s; calls go to other schedulers"
                LOG.warning(text, self._thread.obstacle(), _LONGEST_TURN)
            else:
                LOG.info("Calls are answered again")
        if is_stuck:
            raise errors.Declined(f"the scheduler waits: {self._thread.obstacle()} does not answer")

    def hello(self, message: Hello) -> Welcome:
        """Give an agent process its epoch.

        Raises :class:`~tonnage.capacity.errors.Busy` if it shall come back later.
        """
        # Later, no agent waits for the answer any more.
        handler, longest = self._registration.hellos, contract.LONGEST_HELLO
        return self._admission.hello(message, lambda: self._thread.submit(handler, message, longest).result())

    def listing(self, message: Listing) -> Receipt:
        """Apply the listing of a backend.

        Raises :class:`~tonnage.capacity.errors.Busy` if it shall be sent later.
        """
        return self._admission.listing(message, lambda: self._thread.call(self._registration.listings, message))

    def report(self, message: PackedReport) -> None:
        """Apply a report of a backend, without waiting for it.

        All schedulers receive each report. The one whose turn it is applies it at once; the others read the result from
        the ledger a moment later, and apply the report themselves if that has not happened. A malformed report is
        ignored with a warning.
        """
        if self.membership.has_turn(message.backend):
            self._report_inbox.put(message)
        else:
            self._thread.submit(self._deferred_reports.put, message)

    def notice(self, message: Notice) -> None:
        """Record that a backend sends no report, and why, without waiting for it."""
        self._thread.submit(self._notice_handler.notices, message)

    def stamps(self, query: StampQuery) -> dict[str, int]:
        """Return the stamps of shared storages, for a report that begins."""
        return self.database.run_past_duplicates(reports.next_stamps, query.storage_ids)

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt]:
        """Apply the outcomes of operations."""
        waiting = [self._thread.submit(self._outcome_handler.outcomes, message) for message in messages]
        return [future.result() for future in waiting]

    @overload
    def place(self, work: CreateGroup) -> GroupAnswer: ...

    @overload
    def place(self, work: PlaceableVolume) -> Answer: ...

    def place(self, work: CreateGroup | PlaceableVolume) -> Answer | GroupAnswer:
        """Decide a request that takes capacity, claim it, and order its operation. Return after the commit.

        The refusal of a retype tells why the volume cannot stay in its pool or, if it may move, why no other pool takes
        it.
        """
        with decision_metrics.timed([work]):
            [prepared] = self.decisions.prepare([work])
            return self._submit(prepared).result()

    def manage(self, message: ManageVolume) -> None:
        """Adopt a volume that is on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool,
        :class:`~tonnage.capacity.errors.InvalidInput` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        [message] = self.decisions.prepare([message])
        self._thread.call(self.operations.manage, message)

    def unmanage(self, message: UnmanageVolume) -> None:
        """Forget a volume and leave it on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self.operations.unmanage, message)

    def set_backend_state(self, message: SetBackendState) -> None:
        """Enable, disable or drain a backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._thread.call(self.operations.set_backend_state, message)

    def list_now(self, message: ListBackends) -> None:
        """Have agents list all volumes soon, without waiting."""
        for backend in message.backends:
            self._agents.list_now(backend)

    def handle_batch(self, messages: Sequence[CreateGroup | PlaceableVolume | DeleteVolume]) -> list[object]:
        """Return an answer to each of these requests, or its own error instead."""
        with decision_metrics.timed(messages):
            waiting: list[futures.Future[None] | futures.Future[Answer | GroupAnswer]] = [
                self._thread.submit(self.operations.delete, message, LONGEST_WAIT)
                if isinstance(message, DeleteVolume)
                else self._submit(message)
                for message in self.decisions.prepare(messages)
            ]
            return [future.exception() or future.result() for future in waiting]

    def undelivered(self, claim_ids: Sequence[str]) -> None:
        """Have commands sent again that the bus did not accept."""
        self._thread.submit(self._undelivered, claim_ids)

    def get_pools(self, query: PoolQuery) -> list[PoolView]:
        """Return the pools that a query selects, by name.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type.
        """
        snapshot, probe = self._snapshot_and_probe(query)
        return pool_views.selected(snapshot, query, probe)

    def get_pool_list(self, query: PoolListQuery) -> list[PoolListText]:
        """Return the same pools as text. Raises the errors of :meth:`get_pools`."""
        if query.limit is not None and query.name is query.volume_type is None and not query.capabilities:
            # A page of all pools, which costs as much as the pools of the page.
            names = self._sorted_names.after(self._thread.call(self._pool_names, None), query.marker, query.limit)
            return self._pool_list_text.selected(self._thread.call(self._pool_parts, names), query, None)
        snapshot, probe = self._snapshot_and_probe(query)
        return self._pool_list_text.selected(snapshot, query, probe)

    def explain(self, message: CreateVolume) -> Explanation:
        """Return how a create would be decided now.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a request that could not be decided at all.
        """
        [outlook] = self.what_if(WhatIf(requests=[SimulatedRequest(create=message)]))
        return outlook.volumes[0]

    def what_if(self, question: WhatIf) -> list[SimulationResult]:
        """Return how requests would be decided one after another, as things are or with changes.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        work = self.decisions.prepare(simulator.requests_of(question))
        results = self.decisions.simulator.what_if(question, work, self.decisions.snapshots.take())
        return adviser.with_advice(question, results, self.extensions.advisers)

    def _submit(self, work: CreateGroup | PlaceableVolume) -> futures.Future[Answer | GroupAnswer]:
        """Have a request decided in the next batch."""
        return self._thread.submit(self.decisions.placer.place, work, LONGEST_WAIT)

    def _type_request(self, volume_type: str) -> Request:
        with self.database.reading() as session:
            return resolution.type_request(session, volume_type)

    # Work of the decision thread.

    def run_periodic_tasks(self) -> None:
        """Do the work that is due about once a second. Belongs to the decision thread."""
        self.periodic_tasks.run()
        rules = self.decisions.rules.current
        self._unread_fields.warn(rules.filters, rules.weighers)

    def _change(self, changes: Sequence[ReloadableSettings]) -> list[Exception | None]:
        results: list[Exception | None] = []
        for settings in changes:
            try:
                # The options may set limits that were not there before.
                self.database.run(volume_usage.mark_all_for_recount)
                self._rules_agreement.agree(settings.default_ratio, settings.calculation)
            except (errors.ConfigurationError, errors.Unavailable) as error:
                results.append(error)
                continue
            rules = Rules(settings.filters, settings.weighers, settings.calculation)
            self.decisions.rules.apply(self.decisions.with_state_filter(rules))
            self._rules_agreement.apply_rules(settings.default_ratio, settings.calculation)
            for change in settings.changes:
                change()
            results.append(None)
        return results

    def _undelivered(self, messages: Sequence[Sequence[str]]) -> list[Exception | None]:
        for claim_ids in messages:
            self._dispatcher.undelivered(claim_ids)
        return [None] * len(messages)

    def _snapshot_and_probe(self, query: PoolQuery) -> tuple[pool_views.PoolsSnapshot, Request | None]:
        """Return a snapshot of all pools, and the request whose requirements the selected pools meet, if any."""
        probe = None if query.volume_type is None else self._type_request(query.volume_type)
        # The decision thread only copies, however many pools there are to show.
        return self._thread.call(self._pool_snapshots, None), probe

    def _pool_snapshots(self, items: Sequence[None]) -> list[pool_views.PoolsSnapshot | Exception]:
        return [pool_views.take_snapshot(self.hosts, self._clock(), self._audit.findings)] * len(items)

    def _pool_names(self, items: Sequence[None]) -> list[Sequence[str] | Exception]:
        return [self.hosts.table.names] * len(items)

    def _pool_parts(self, items: Sequence[Sequence[str]]) -> list[pool_views.PoolsSnapshot | Exception]:
        return [pool_views.take_part(self.hosts, self._clock(), self._audit.findings, names) for names in items]
