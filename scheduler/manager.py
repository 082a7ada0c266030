# SPDX-License-Identifier: Apache-2.0
"""The scheduler without its RPC: its parts, around one decision thread.

Every method may be called from any thread; it hands its work to the decision thread and waits.
"""

import logging
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import Request
from tonnage.ledger.catalog import volume_usage
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, heartbeats, reports
from tonnage.quotas.external_usage import NOTHING
from tonnage.rpc.batching.command_sender import Messenger
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.batching.request_batch import Order
from tonnage.rpc.messages import (
    Asked,
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
from tonnage.scheduler.claims.volume_operations import run_over
from tonnage.scheduler.composition import Clock, DecisionParts, Foundation, Integrations, ReportParts
from tonnage.scheduler.decisions import lookups, quota_demands, resolution
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.placement_requests import Move
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.settings import Mutable, Settings
from tonnage.scheduler.simulation import pool_views, simulator
from tonnage.scheduler.simulation.node_fit import NodeFit
from tonnage.scheduler.simulation.pool_view_text import Spelling
from tonnage.scheduler.simulation.simulator import Snapshot
from tonnage.scheduler.unread_functions import UnreadFunctions

LOG = logging.getLogger(__name__)

#: What is decided: anything that takes capacity.
Placeable: TypeAlias = CreateVolume | CreateGroup | ExtendVolume | Move | RetypeVolume

#: Seconds between two batches of what agents tell, for which nobody waits, and the most that they are.
_PAUSE = 0.25
_LONGEST_PAUSE = 1.0


class SchedulerManager:
    """One scheduler.

    ``agents`` carries commands to the agents. ``thread`` is the decision thread, one of its own if None.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        agents: Messenger,
        rules: Rules,
        clock: Clock = time.monotonic,
        integrations: Integrations = Integrations(),  # noqa: B008
        thread: DecisionThread | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._agents = agents
        self._clock = clock
        self._thread = thread or DecisionThread(settings.batch_size)
        base = Foundation(settings, database, clock)
        self._hosts, self._peers, self._agreement = base.hosts, base.peers, base.agreement
        self._dispatcher = Dispatcher(agents, base.hosts, settings.claim_lease, clock)
        self._decisions = DecisionParts(base, rules, self._dispatcher, self._thread, integrations)
        self._placer = self._decisions.placer
        parts = ReportParts(base, self._decisions, self._dispatcher, agents, integrations.announcer)
        self._auditing, self._announcing, self._intake = parts.auditing, parts.announcing, parts.intake
        self._housekeeper, self._verbs = parts.housekeeper, parts.verbs
        self._spelling = Spelling()
        self._node_fit = NodeFit(database)
        self._unread = UnreadFunctions(base.hosts)
        self._thread.schedule(self._keep_house, {self._intake.outcomes: self._pause, self._intake.reports: self._pause})

    def start(self) -> None:
        """Load what the ledger knows, start deciding, and ask the agents for reports.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers go by other rules.
        """
        with self._database.reading() as session:
            absence = backends.unheard(session, heartbeats.SCHEDULER) or 0.0
        self._peers.join()
        # Other options may limit what others did not.
        self._database.run(volume_usage.distrust_all)
        self._hosts.go_by(self._settings.default_ratio, self._settings.calculation, self._peers.generation)
        with self._database.reading() as session:
            rows = backends.load_backends(session)
            pools = backends.load_pools(session)
            self._peers.look(session)
        now = self._clock()
        for row in rows:
            self._hosts.put_backend(row, now, absence)
        self._hosts.load(pools)
        self._hosts.date(pools, now)
        self._agreement.restate(pools)
        self._hosts.watch(now)
        LOG.info("Loaded %d backend(s) and %d pool(s) from the ledger", len(rows), len(pools))
        self._thread.start()
        self._auditing.start()

    def ask_for_reports(self) -> None:
        """Ask all agents for a report now; those that are not there will say hello when they come.

        They are heard by now. A start that fails before that is no time in which they were silent.
        """
        self._peers.listening = True
        for backend in list(self._hosts.backends()):
            self._agents.report_now(backend.name)

    @property
    def schedulers(self) -> int:
        """How many schedulers there are, this one among them."""
        return self._peers.number

    def has_turn(self, work: str) -> bool:
        """Tell whether it is this scheduler that does some work which one of all is to do."""
        return self._peers.has_turn(work)

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
        self._agreement.stop()
        self._thread.stop()
        self._auditing.stop()
        self._decisions.instance_hosts.stop()
        try:
            self._peers.leave()
        except errors.TonnageError as error:
            LOG.warning("The ledger could not be told that this scheduler ends: %s", error)

    def hello(self, message: Hello) -> Welcome:
        """Give an agent process its epoch."""
        return self._thread.call(self._intake.hellos, message)

    def listing(self, message: Listing) -> Receipt:
        """Take in what a backend holds."""
        return self._thread.call(self._intake.listings, message)

    def report(self, message: PackedReport) -> None:
        """Take in a backend's figures, in a while.

        All schedulers get each report, and one of them has its turn to apply it at once. The others look a moment later
        what it has become, so that they do not get into each other's way; if nobody has applied it they do.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that cannot be opened.
        """
        if self._peers.has_turn(message.backend):
            self._thread.submit(self._intake.reports, message.opened())
        else:
            self._thread.submit(self._housekeeper.set_aside, message)

    def stamps(self, query: StampQuery) -> dict[str, int]:
        """Give a look at storages that is about to begin its stamps."""
        return run_over(self._database, reports.stamp, query.storage_ids)

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt]:
        """Take in how operations ended."""
        waiting = [self._thread.submit(self._intake.outcomes, message) for message in messages]
        return [each.result() for each in waiting]

    def place(self, work: Placeable) -> Any:
        """Decide, claim and order a new volume, a group of them, the growth, the move or another type of one.

        Returns after the commit. The refusal of a retype says why the volume cannot stay where it is or, if it might
        move, why there is no other place for it.
        """
        self._read_usage([work])
        [located] = self._decisions.instance_hosts.located([work])
        return self._thread.call(self._placer.place, located)

    def manage(self, message: ManageVolume) -> None:
        """Take over what is on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool,
        :class:`~tonnage.capacity.errors.InvalidInput` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._read_usage([message])
        self._thread.call(self._verbs.manage, message)

    def unmanage(self, message: UnmanageVolume) -> None:
        """Forget a volume and leave it on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._verbs.unmanage, message)

    def set_backend_state(self, message: SetBackendState) -> None:
        """Enable, disable or drain a backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._thread.call(self._verbs.set_backend_state, message)

    def delete(self, message: DeleteVolume) -> None:
        """Order a deletion.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._verbs.delete, message)

    def orders(self, messages: Sequence[Order]) -> list[object]:
        """Take requests that came together; each has its own answer, or its own error in place of one."""
        self._read_usage(messages)
        waiting: list[futures.Future[Any]] = [
            self._thread.submit(self._verbs.delete, message)
            if isinstance(message, DeleteVolume)
            else self._thread.submit(self._placer.place, message)
            for message in self._decisions.instance_hosts.located(messages)
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
        [outlook] = self.what_if(WhatIf(requests=[Asked(create=message)]))
        return outlook.volumes[0]

    def what_if(self, question: WhatIf) -> list[Outlook]:
        """Return how requests would be decided one after another if some things were different, or as they are.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        self._read_usage([each for asked in question.requests for each in (asked.create, asked.group, asked.extend)])
        work = self._decisions.instance_hosts.located(simulator.requests_of(question))
        return self._decisions.simulator.what_if(question, work, self._thread.call(self._snapshots, None))

    def fit_nodes(self, query: FitQuery) -> FitAnswer:
        """Return which nodes of a cluster take volumes together.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for volumes that cannot be meant.
        """
        return self._node_fit.answer(query)

    def _read_usage(self, messages: Sequence[object]) -> None:
        """Find out what the projects of requests use that the ledger does not know: here nothing is held yet."""
        beside = self._settings.quotas.beside
        if beside is not NOTHING:
            beside.read(quota_demands.projects_of(self._database, messages))

    def _request(self, message: CreateVolume) -> Request:
        with self._database.reading() as session:
            return resolution.resolve_create(message, lookups.read_references(session, [message])).request

    def _pause(self) -> float:
        """Return the seconds between two batches of what agents tell.

        Schedulers share that, and each batch is a transaction: the more there are, the less often each takes some up.
        """
        return min(_LONGEST_PAUSE, _PAUSE * self.schedulers)

    # Work of the decision thread.

    def _keep_house(self) -> None:
        self._housekeeper.keep_house()
        rules = self._decisions.rules.current
        self._unread.look(rules.filters, rules.weighers)

    def _change(self, wanted: Sequence[Mutable]) -> list[Exception | None]:
        results: list[Exception | None] = []
        for settings in wanted:
            try:
                # Other options may limit what others did not.
                self._database.run(volume_usage.distrust_all)
                self._agreement.agree(settings.default_ratio, settings.calculation)
            except (errors.ConfigurationError, errors.Unavailable) as error:
                results.append(error)
                continue
            rules = Rules(settings.filters, settings.weighers, settings.calculation)
            self._decisions.rules.apply(self._decisions.with_state_filter(rules))
            self._agreement.go_by(settings.default_ratio, settings.calculation)
            if self._announcing is not None and settings.announcements is not None:
                self._announcing.change(settings.announcements)
            results.append(None)
        return results

    def _undelivered(self, messages: Sequence[Sequence[str]]) -> list[Exception | None]:
        for claim_ids in messages:
            self._dispatcher.undelivered(claim_ids)
        return [None] * len(messages)

    def _seen(self, query: PoolQuery) -> tuple[pool_views.Picture, Request | None]:
        """Return what there is to be seen now, and what the pools that are asked for must have."""
        wanted = None if query.volume_type is None else self._request(resolution.type_probe(query.volume_type))
        # Only the copying is done in the decision thread, however many pools there are to show.
        return self._thread.call(self._pictures, None), wanted

    def _pictures(self, items: Sequence[None]) -> list[pool_views.Picture | Exception]:
        return [pool_views.picture(self._hosts, self._clock(), self._auditing.found)] * len(items)

    def _snapshots(self, items: Sequence[None]) -> list[Snapshot | Exception]:
        return [self._decisions.snapshot()] * len(items)
