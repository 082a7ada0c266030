# SPDX-License-Identifier: Apache-2.0
"""The scheduler without its RPC: host manager, pipeline and ledger behind one decision thread.

Every method may be called from any thread; it hands its work to the decision thread and waits.
"""

import logging
import time
import uuid
from collections.abc import Callable
from collections.abc import Sequence
from concurrent import futures
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from typing import TypeAlias
from typing import TypeVar

from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import backend_of
from tonnage.capacity.pools import stable_hash
from tonnage.capacity.request import Request
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import backends
from tonnage.ledger import bookings
from tonnage.ledger import deletions
from tonnage.ledger import manages
from tonnage.ledger import reports
from tonnage.ledger import request_keys
from tonnage.ledger import services
from tonnage.ledger.database import Database
from tonnage.rpc import versions
from tonnage.rpc.courier import Messenger
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import BackendState
from tonnage.rpc.messages import CreateGroup
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import DeleteVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import Listing
from tonnage.rpc.messages import ManageVolume
from tonnage.rpc.messages import MigrateVolume
from tonnage.rpc.messages import Outcome
from tonnage.rpc.messages import PoolQuery
from tonnage.rpc.messages import PoolView
from tonnage.rpc.messages import Receipt
from tonnage.rpc.messages import RetypeVolume
from tonnage.rpc.messages import SetBackendState
from tonnage.rpc.messages import StampQuery
from tonnage.rpc.messages import UnmanageVolume
from tonnage.rpc.messages import Welcome
from tonnage.rpc.orders import Order
from tonnage.scheduler import resolution
from tonnage.scheduler import views
from tonnage.scheduler.decision_thread import DecisionThread
from tonnage.scheduler.decision_thread import Handler
from tonnage.scheduler.dispatcher import Dispatcher
from tonnage.scheduler.eligibility import BackendStateFilter
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.intake import Intake
from tonnage.scheduler.placement import Placer
from tonnage.scheduler.resolution import Move
from tonnage.scheduler.resolution import Retry
from tonnage.scheduler.settings import Settings
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: What is decided: anything that takes capacity.
Placeable: TypeAlias = CreateVolume | CreateGroup | ExtendVolume | Move | RetypeVolume

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds between two looks at the ledger for claims that nobody works on, and between two signs of life; less where
#: a scheduler counts as down sooner.
_SWEEP = 10.0

#: Seconds between two batches of what agents tell, for which nobody waits.
_PAUSE = 0.25

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
        agents: Messenger,
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
        state = BackendStateFilter(self._silence, settings.service_down_time, self._outdated)
        self._filters = FilterChain([state, *filters.filters], settings.calculation)
        self._capable = FilterChain([CapabilitiesFilter(SimpleNamespace())])
        self._weighers = weighers
        self._placer = Placer(database, self._hosts, self._filters, weighers, self._dispatcher, clock)
        # Until it is known who else is there.
        self._rpc_version = versions.FIRST
        self._intake = Intake(
            database,
            self._hosts,
            self._dispatcher,
            agents,
            settings.max_attempts,
            clock,
            self._place_again,
            lambda: self._rpc_version,
        )
        pauses: dict[Handler[Any, Any], float] = {self._intake.outcomes: _PAUSE, self._intake.reports: _PAUSE}
        self._thread = DecisionThread(settings.batch_size, self._keep_house, pauses=pauses)
        self._sweep = min(_SWEEP, settings.service_down_time / 3)
        self._next_sweep = self._next_purge = 0.0
        self._kept_house = clock()
        self._others: frozenset[str] = frozenset()
        self._aside: dict[str, BackendReport] = {}
        #: Which volume was the last that was told to leave a draining backend.
        self._drained = ""

    def start(self) -> None:
        """Load what the ledger knows, start deciding, and ask the agents for reports.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers go by other rules.
        """
        with self._database.reading() as session:
            absence = backends.unheard(session, services.SCHEDULER) or 0.0
        # Said before it is compared: of two that start at the same moment at least one sees the other.
        self._heartbeat()
        try:
            self._database.run(services.agree, self._me(), self._settings.service_down_time)
        except errors.ConfigurationError:
            self._database.run(services.leave, services.SCHEDULER, self._settings.host)
            raise
        with self._database.reading() as session:
            rows = backends.load_backends(session)
            pools = backends.load_pools(session)
        now = self._clock()
        for row in rows:
            self._hosts.put_backend(row, now, absence)
        self._hosts.load(pools)
        self._hosts.watch(now)
        with self._database.reading() as session:
            self._rpc_version = versions.least(services.rpc_versions(session, self._settings.service_down_time))
        LOG.info("Loaded %d backend(s) and %d pool(s) from the ledger", len(rows), len(pools))
        self._thread.start()

    def ask_for_reports(self) -> None:
        """Ask all agents for a report now; those that are not there will say hello when they come."""
        for backend in list(self._hosts.backends()):
            self._agents.report_now(backend.name)

    def version_of(self, backend: str) -> str:
        """Return what version of the RPC a backend's agent said that it understands."""
        known = self._hosts.backend(backend)
        return versions.FIRST if known is None else known.rpc_version

    def reporting(self) -> set[str]:
        """Return the names of the backends that have reported since this scheduler started."""
        return {backend.name for backend in list(self._hosts.backends()) if backend.reported_here}

    def stop(self) -> None:
        """Finish what was accepted, then end."""
        self._thread.stop()
        try:
            self._database.run(services.leave, services.SCHEDULER, self._settings.host)
        except errors.TonnageError as error:
            LOG.warning("The ledger could not be told that this scheduler ends: %s", error)

    def hello(self, message: Hello) -> Welcome:
        """Give an agent process its epoch."""
        return self._thread.call(self._intake.hellos, message)

    def listing(self, message: Listing) -> Receipt:
        """Take in what a backend holds."""
        return self._thread.call(self._intake.listings, message)

    def report(self, message: BackendReport) -> None:
        """Take in a backend's figures, in a while.

        All schedulers get each report, and one of them has its turn to apply it at once. The others look a moment later
        what it has become, so that they do not get into each other's way; if nobody has applied it they do.
        """
        if self._has_turn(message.backend):
            self._thread.submit(self._intake.reports, message)
        else:
            self._thread.submit(self._set_aside, message)

    def stamps(self, query: StampQuery) -> dict[str, int]:
        """Give a look at storages that is about to begin its stamps."""
        return self._run_over(reports.stamp, query.storage_ids)

    def outcomes(self, messages: Sequence[Outcome]) -> list[Receipt]:
        """Take in how operations ended."""
        waiting = [self._thread.submit(self._intake.outcomes, message) for message in messages]
        return [each.result() for each in waiting]

    def place(self, work: Placeable) -> Any:
        """Decide, claim and order a new volume, a group of them, the growth, the move or another type of one.

        Returns after the commit. The refusal of a retype says why the volume cannot stay where it is or, if it might
        move, why there is no other place for it.
        """
        return self._thread.call(self._placer.place, work)

    def manage(self, message: ManageVolume) -> None:
        """Take over what is on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool,
        :class:`~tonnage.capacity.errors.InvalidInput` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._manage, message)

    def unmanage(self, message: UnmanageVolume) -> None:
        """Forget a volume and leave it on the storage.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._unmanage, message)

    def set_backend_state(self, message: SetBackendState) -> None:
        """Enable, disable or drain a backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._thread.call(self._set_backend_state, message)

    def delete(self, message: DeleteVolume) -> None:
        """Order a deletion.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._thread.call(self._delete, message)

    def orders(self, messages: Sequence[Order]) -> list[object]:
        """Take requests that came together; each has its own answer, or its own error in place of one."""
        waiting: list[futures.Future[Any]] = [
            self._thread.submit(self._delete, message)
            if isinstance(message, DeleteVolume)
            else self._thread.submit(self._placer.place, message)
            for message in messages
        ]
        return [each.exception() or each.result() for each in waiting]

    def undelivered(self, claim_ids: Sequence[str]) -> None:
        """Note that the bus did not take commands."""
        self._thread.submit(self._undelivered, claim_ids)

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
        begun = self._run_over(deletions.begin, [(message.volume_id, message.request_id) for message in messages])
        self._send([each.claim_id for each in begun if isinstance(each, deletions.Deletion)])
        results: list[Exception | None] = []
        for message, each in zip(messages, begun, strict=True):
            if isinstance(each, deletions.Deletion):
                LOG.info("[%s] volume %s: delete ordered", message.request_id, message.volume_id)
                results.append(None)
            else:
                results.append(each)
        return results

    def _manage(self, messages: Sequence[ManageVolume]) -> list[Exception | None]:
        return [self._answered(self._manage_one, message) for message in messages]

    def _manage_one(self, message: ManageVolume) -> None:
        backend = backend_of(message.pool)
        if self._hosts.backend(backend) is not None:
            versions.require(
                versions.CURRENT, self.version_of(backend), "manage_volume", f"the agent of {backend}", "agent"
            )
        claim_id = self._database.run(manages.begin, message.request_id, _taken_over(message), message.reference)
        self._send([claim_id])
        LOG.info(
            "[%s] volume %s: %s in %s is taken over",
            message.request_id,
            message.volume_id,
            message.reference,
            message.pool,
        )

    def _unmanage(self, messages: Sequence[UnmanageVolume]) -> list[Exception | None]:
        return [self._answered(self._unmanage_one, message) for message in messages]

    def _unmanage_one(self, message: UnmanageVolume) -> None:
        changed = self._run_over(deletions.unmanage, message.request_id, message.volume_id)
        self._hosts.set_counters(changed)
        LOG.info("[%s] volume %s: let go of, and left on the storage", message.request_id, message.volume_id)

    def _set_backend_state(self, messages: Sequence[SetBackendState]) -> list[Exception | None]:
        return [self._answered(self._set_state_of_one, message) for message in messages]

    def _set_state_of_one(self, message: SetBackendState) -> None:
        row = self._database.run(
            backends.set_state,
            message.backend,
            enabled=message.state is BackendState.ENABLED,
            draining=message.state is BackendState.DRAINING,
            reason=message.reason,
        )
        self._hosts.refresh_backend(row)
        self._next_sweep = 0.0
        LOG.info("Backend %s is %s (%s)", message.backend, message.state, message.reason or "no reason given")

    def _run_over(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run a transaction, and once more if another scheduler has made the same row just then."""
        try:
            return self._database.run(work, *args)
        except db_exc.DBDuplicateEntry:
            return self._database.run(work, *args)

    @staticmethod
    def _answered(work: Callable[[Item], Result], message: Item) -> Result | Exception:
        """Return what the work returns, or the error that its sender shall have."""
        try:
            return work(message)
        except errors.TonnageError as error:
            return error

    def _undelivered(self, messages: Sequence[Sequence[str]]) -> list[Exception | None]:
        for claim_ids in messages:
            self._dispatcher.undelivered(claim_ids)
        return [None] * len(messages)

    def _send(self, claim_ids: Sequence[str | None]) -> None:
        ids = [claim_id for claim_id in claim_ids if claim_id is not None]
        if not ids:
            return
        with self._database.reading() as session:
            pending = backends.load_pending(session, ids=ids)
        for claim in pending:
            self._dispatcher.send(claim)

    def _pictures(self, items: Sequence[None]) -> list[views.Picture | Exception]:
        now = self._clock()
        entries = self._hosts.entries
        picture = views.Picture(
            pools=self._hosts.table.snapshot(),
            stats={name: entry.stats for name, entry in entries.items()},
            heard={backend.name: (backend.reported_at, now - backend.heard) for backend in self._hosts.backends()},
            draining={backend.name for backend in self._hosts.backends() if backend.draining},
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

    def _has_turn(self, backend: str) -> bool:
        others = self._others
        if not others:
            return True
        return max((*others, self._settings.host), key=lambda host: stable_hash(f"{host} {backend}")) not in others

    def _set_aside(self, messages: Sequence[BackendReport]) -> list[Exception | None]:
        for message in messages:
            known = self._aside.get(message.backend)
            if known is None or (known.epoch, known.seq) < (message.epoch, message.seq):
                self._aside[message.backend] = message
        return [None] * len(messages)

    def _keep_house(self) -> None:
        aside, self._aside = self._aside, {}
        if aside:
            try:
                self._intake.follow(list(aside.values()))
            except Exception:
                # The next reports will do.
                LOG.exception("%d report(s) could not be looked at", len(aside))
        now = self._clock()
        gone, self._kept_house = now - self._kept_house, now
        if gone >= _DEAF:
            # The database was away, say. What the agents reported meanwhile is still in the queue, behind requests.
            self._hosts.excuse(gone, now)
        self._listen_to_others(now)
        self._hosts.watch(now)
        if now < self._next_sweep:
            return
        self._next_sweep = now + self._sweep
        self._heartbeat()
        with self._database.reading() as session:
            rows = backends.load_backends(session)
            pending = backends.load_pending(session)
            unplaced = backends.unplaced_volumes(session)
            draining = backends.draining_volumes(session, self._settings.drain_concurrency, self._drained)
            spoken = services.rpc_versions(session, self._settings.service_down_time)
            known = services.load(session)
        self._others = frozenset(
            row.host
            for row in known
            if row.binary == services.SCHEDULER and row.host != self._settings.host and row.up(3 * self._sweep)
        )
        self._rpc_version = versions.least(spoken)
        self._placer.alone = len(spoken) <= 1
        if now >= self._next_purge:
            self._next_purge = now + _PURGE
            self._database.run(request_keys.purge, _KEY_DAYS)
        self._meet(rows, now)
        if self._all_new():
            self._give_up(rows, pending, now)
        else:
            draining = []
        self._dispatcher.catch_up(pending)
        for volume_id in unplaced:
            self._place_again(volume_id)
        self._drained = draining[-1] if draining else ""
        for volume_id in draining:
            # An id of its own for each move: by it an agent tells what a purge is of from what comes there later.
            move = MigrateVolume(request_id=f"drain-{uuid.uuid4()}", volume_id=volume_id)
            self._thread.submit(self._placer.place, Move(move, keyed=False))

    def _listen_to_others(self, now: float) -> None:
        """Before a backend counts as down, look whether another scheduler has heard it: the bus may lag here alone."""
        overdue = {backend.id: backend for backend in self._hosts.overdue(now)}
        if not overdue:
            return
        with self._database.reading() as session:
            for row in backends.load_backends(session, ids=overdue.keys()):
                if row.silence is not None:
                    overdue[row.id].heard = max(overdue[row.id].heard, now - row.silence)

    def _meet(self, rows: Sequence[backends.BackendRow], now: float) -> None:
        """Take over what operators have changed of backends."""
        for row in rows:
            self._hosts.refresh_backend(row)
            known = self._hosts.backend(row.name)
            if known is not None and row.silence is not None:
                # Others hear it too, should the bus lag here.
                known.heard = max(known.heard, now - row.silence)
                self._hosts.welcome(known, now)
        there = {(row.name, row.id) for row in rows}
        for name in [backend.name for backend in self._hosts.backends() if (backend.name, backend.id) not in there]:
            LOG.warning("Backend %s has been removed", name)
            self._hosts.forget_backend(name)

    def _all_new(self) -> bool:
        """Tell whether every scheduler knows all that a claim may be for: an old one would take it for something else.

        The orders that schedulers give on their own wait for the end of an upgrade as requests do.
        """
        return versions.reaches(self._rpc_version, versions.CURRENT)

    def _outdated(self) -> list[str]:
        """Return the backends whose agents are of the release before."""
        return [
            backend.name
            for backend in self._hosts.backends()
            if not versions.reaches(backend.rpc_version, versions.CURRENT)
        ]

    def _give_up(
        self, rows: Sequence[backends.BackendRow], pending: Sequence[backends.PendingClaim], now: float
    ) -> None:
        """Let requests move on whose backend has been down for a lease, by the ledger and as far as is known here."""
        patience = self._settings.service_down_time + self._settings.claim_lease
        silent = {row.id for row in rows if row.silence is None or row.silence > patience}
        away = silent & {
            backend.id for backend in self._hosts.backends() if not backend.up and now - backend.heard > patience
        }
        stuck = [
            claim.id
            for claim in pending
            if claim.backend_id in away and claim.verb in (bookings.CREATE, bookings.MIGRATE)
        ]
        if stuck:
            LOG.warning("%d claim(s) are abandoned, as their backends stay away", len(stuck))
            self._intake.abandon(stuck)

    def _heartbeat(self) -> None:
        self._database.run(services.heartbeat, self._me())

    def _me(self) -> services.Myself:
        return services.Myself(
            binary=services.SCHEDULER,
            host=self._settings.host,
            availability_zone=self._settings.availability_zone,
            default_ratio=str(self._settings.default_ratio),
            calculation=self._settings.calculation.value,
            rpc_version=versions.CURRENT,
        )


def _taken_over(message: ManageVolume) -> manages.TakenOver:
    resolution.check_uuid(message.volume_id)
    for name, most in (("request_id", 64), ("reference", 255), ("name", 255), ("description", 255)):
        resolution.check_length(name, getattr(message, name) or "", most)
    return manages.TakenOver(
        id=message.volume_id,
        pool=message.pool,
        project_id=message.project_id,
        user_id=message.user_id,
        name=message.name,
        description=message.description,
        volume_type=message.volume_type,
        metadata=message.metadata,
    )
