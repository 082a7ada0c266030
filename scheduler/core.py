# SPDX-License-Identifier: Apache-2.0
"""The scheduler without its RPC: host manager, pipeline and ledger behind one decision thread.

Every method may be called from any thread; it hands its work to the decision thread and waits.
"""

import logging
import time
import uuid
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import backends
from tonnage.ledger import bookings
from tonnage.ledger import deletions
from tonnage.ledger import services
from tonnage.ledger.database import Database
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import DeleteVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import Listing
from tonnage.rpc.messages import Outcome
from tonnage.rpc.messages import PoolQuery
from tonnage.rpc.messages import PoolView
from tonnage.rpc.messages import Receipt
from tonnage.rpc.messages import Welcome
from tonnage.scheduler import views
from tonnage.scheduler.decision_thread import DecisionThread
from tonnage.scheduler.dispatcher import Dispatcher
from tonnage.scheduler.eligibility import BackendStateFilter
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.intake import Intake
from tonnage.scheduler.placement import Placer
from tonnage.scheduler.placement import Retry
from tonnage.scheduler.settings import Settings
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: Seconds between two looks at the ledger for claims that nobody works on, and between two signs of life; less where
#: a scheduler counts as down sooner.
_SWEEP = 10.0

#: Seconds between two rounds of housekeeping (about one, else) from which on this scheduler has not been listening.
_DEAF = 5.0

#: How long the key of a request is kept once its volume is gone: far longer than any message lives on the bus.
_KEY_DAYS = 7
_PURGE = 3600.0


class SchedulerCore:
    """One scheduler."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        agents: AgentClient,
        filters: FilterChain,
        weighers: WeigherChain,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._database = database
        self._agents = agents
        self._clock = clock
        self._hosts = HostManager(settings.default_ratio, settings.calculation, settings.service_down_time)
        self._dispatcher = Dispatcher(agents, self._hosts, settings.claim_lease, clock)
        state = BackendStateFilter(self._silence, settings.service_down_time)
        self._filters = FilterChain([state, *filters.filters], settings.calculation)
        self._capable = FilterChain([CapabilitiesFilter(SimpleNamespace())])
        self._weighers = weighers
        self._placer = Placer(database, self._hosts, self._filters, weighers, self._dispatcher)
        self._intake = Intake(
            database, self._hosts, self._dispatcher, agents, settings.max_attempts, clock, self._place_again
        )
        self._thread = DecisionThread(settings.batch_size, self._keep_house)
        self._sweep = min(_SWEEP, settings.service_down_time / 3)
        self._next_sweep = self._next_purge = 0.0
        self._kept_house = clock()

    def start(self) -> None:
        """Load what the ledger knows, start deciding, and ask the agents for reports."""
        with self._database.reading() as session:
            absence = backends.unheard(session, services.SCHEDULER) or 0.0
            rows = backends.load_backends(session)
            pools = backends.load_pools(session)
        now = self._clock()
        for row in rows:
            self._hosts.put_backend(row, now, absence)
        for pool in pools:
            self._hosts.put_pool(pool)
        self._hosts.watch(now)
        self._heartbeat()
        LOG.info("Loaded %d backend(s) and %d pool(s) from the ledger", len(rows), len(pools))
        self._thread.start()

    def ask_for_reports(self) -> None:
        """Ask all agents for a report now; those that are not there will say hello when they come."""
        for backend in list(self._hosts.backends()):
            try:
                self._agents.report_now(backend.name)
            except errors.Unavailable as error:
                LOG.warning("Backend %s could not be asked for a report: %s", backend.name, error)

    def reporting(self) -> set[str]:
        """Return the names of the backends that have reported since this scheduler started."""
        return {backend.name for backend in list(self._hosts.backends()) if backend.reported_here}

    def stop(self) -> None:
        """Finish what was accepted, then end."""
        self._thread.stop()

    def hello(self, message: Hello) -> Welcome:
        """Give an agent process its epoch."""
        return self._thread.call(self._intake.hellos, message)

    def listing(self, message: Listing) -> Receipt:
        """Take in what a backend holds."""
        return self._thread.call(self._intake.listings, message)

    def report(self, message: BackendReport) -> None:
        """Take in a backend's figures."""
        self._thread.call(self._intake.reports, message)

    def outcome(self, message: Outcome) -> Receipt:
        """Take in how an operation ended."""
        return self._thread.call(self._intake.outcomes, message)

    def create(self, message: CreateVolume) -> Answer:
        """Decide, claim and order a new volume. Returns after the commit."""
        return self._thread.call(self._placer.place, message)

    def extend(self, message: ExtendVolume) -> Answer:
        """The same for the growth of a volume."""
        return self._thread.call(self._placer.place, message)

    def delete(self, message: DeleteVolume) -> None:
        """Order a deletion.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._delete, message)

    def get_pools(self, query: PoolQuery) -> list[PoolView]:
        """Return the pools asked for, by name.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type.
        """
        request = None if query.volume_type is None else self._probe(query.volume_type)
        # Only the copying is done in the decision thread, however many pools there are to show.
        picture = self._thread.call(self._pictures, None)
        names: Sequence[str] = picture.pools.names if query.name is None else [query.name]
        if request is not None:
            capable = self._capable.run(picture.pools, request).remaining.nonzero()[0].tolist()
            names = sorted({picture.pools.names[index] for index in capable}.intersection(names))
        shown = (picture.shown(name) for name in sorted(names))
        pools = (views.view(one, self._settings.calculation) for one in shown if one is not None)
        return [pool for pool in pools if views.matches(pool, query)]

    def explain(self, message: CreateVolume) -> Explanation:
        """Return how a create would be decided now.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a request that could not be decided at all.
        """
        with self._database.reading() as session:
            request = self._placer.resolve(session, message)
        pools = self._thread.call(self._snapshot, None)
        return self._explanation(pools, request)

    def _explanation(self, pools: PoolTable, request: Request) -> Explanation:
        result = self._filters.run(pools, request)
        index = self._weighers.rank(pools, request, result.remaining)
        weights = self._weighers.weights(pools, request, result.remaining)
        verdicts = []
        for verdict in self._filters.explain(pools, request, result):
            if verdict.pool in weights:
                each, total = weights[verdict.pool]
                verdict = replace(verdict, weights=each, total_weight=total)
            verdicts.append(verdict)
        if index is None:
            message = self._filters.refusal(pools, request, result).message
            return Explanation(request.describe(), None, message, tuple(verdicts))
        chosen = pools.names[index]
        count = int(result.remaining.sum())
        message = f"{request.describe()} goes to {chosen}, the best of {count} candidate{'' if count == 1 else 's'}"
        return Explanation(request.describe(), chosen, message, tuple(verdicts))

    def _delete(self, messages: Sequence[DeleteVolume]) -> list[Exception | None]:
        results: list[Exception | None] = []
        for message in messages:
            try:
                deletion = self._database.run(deletions.begin, message.volume_id, message.request_id)
                if deletion.claim_id is not None:
                    with self._database.reading() as session:
                        pending = backends.load_pending(session, ids=[deletion.claim_id])
                    for claim in pending:
                        self._dispatcher.send(claim)
                LOG.info("[%s] volume %s: delete ordered", message.request_id, message.volume_id)
                results.append(None)
            except errors.TonnageError as error:
                results.append(error)
        return results

    def _pictures(self, items: Sequence[None]) -> list[views.Picture | Exception]:
        now = self._clock()
        entries = self._hosts.entries
        picture = views.Picture(
            pools=self._hosts.table.snapshot(),
            stats={name: entry.stats for name, entry in entries.items()},
            heard={backend.name: (backend.reported_at, now - backend.heard) for backend in self._hosts.backends()},
        )
        return [picture] * len(items)

    def _probe(self, volume_type: str) -> Request:
        """Return a request that asks for what a volume type does."""
        probe = CreateVolume(
            request_id="", volume_id=str(uuid.uuid4()), size_gb=1, project_id="", volume_type=volume_type
        )
        with self._database.reading() as session:
            return self._placer.resolve(session, probe)

    def _snapshot(self, items: Sequence[None]) -> list[PoolTable | Exception]:
        return [self._hosts.table.snapshot()] * len(items)

    def _place_again(self, volume_id: str) -> None:
        self._thread.submit(self._placer.place, Retry(volume_id))

    def _silence(self, backend: str) -> float:
        known = self._hosts.backend(backend)
        return 0.0 if known is None else self._clock() - known.heard

    def _keep_house(self) -> None:
        now = self._clock()
        gone, self._kept_house = now - self._kept_house, now
        if gone >= _DEAF:
            # The database was away, say. What the agents reported meanwhile is still in the queue, behind requests.
            self._hosts.excuse(gone, now)
        self._hosts.watch(now)
        if now < self._next_sweep:
            return
        self._next_sweep = now + self._sweep
        self._heartbeat()
        with self._database.reading() as session:
            pending = backends.load_pending(session)
            unplaced = backends.unplaced_volumes(session)
        if now >= self._next_purge:
            self._next_purge = now + _PURGE
            self._database.run(bookings.purge_keys, _KEY_DAYS)
        self._dispatcher.catch_up(pending)
        for volume_id in unplaced:
            self._place_again(volume_id)

    def _heartbeat(self) -> None:
        self._database.run(
            services.heartbeat, services.SCHEDULER, self._settings.host, self._settings.availability_zone
        )
