# SPDX-License-Identifier: Apache-2.0
"""What a scheduler does now and then without being asked.

In every round it looks at the reports that were others' turn and at who is silent. Now and then it sweeps: it gives a
sign of life, takes over what operators have changed, reads the ledger again where it is alone, and sees to it that
nothing is left lying: claims whose agents stay away are abandoned, commands that nobody has heard of sent again,
volumes without a pool placed again, and those of backends that are drained moved.
"""

import logging
import uuid
from collections.abc import Callable, Sequence

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.catalog import user_messages
from tonnage.ledger.claims import bookings, group_backends, pool_counters, request_keys
from tonnage.ledger.db import chunks
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import loudness
from tonnage.ledger.inventory import backends
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.messages import MigrateVolume
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.claims.outcome_handler import OutcomeHandler
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.decisions.placement_requests import Move, Retry
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.cache_refresh import CacheRefresh
from tonnage.scheduler.reports.capacity_alerts import CapacityAlerts
from tonnage.scheduler.reports.deferred_reports import DeferredReports
from tonnage.scheduler.reports.report_handler import ReportHandler
from tonnage.scheduler.settings import Settings

LOG = logging.getLogger(__name__)

#: Seconds between two rounds (about one, else) from which on this scheduler has not been listening.
_DEAF = 5.0

#: For how many seconds the one whose turn it is may take to apply a report before another scheduler does: by far more
#: than it needs, else both do the same work and get into each other's way.
_PATIENCE = 3.0

#: How long the key of a request is kept once its volume is gone: far longer than any message lives on the bus.
_KEY_DAYS = 7
_PURGE = 3600.0


class PeriodicTasks:
    """Keeps house in the decision thread. ``interval`` are the seconds between two sweeps.

    ``place`` has volumes placed or moved, after what is waiting already. ``catch_up`` takes over the rules that others
    have gone over to.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        hosts: HostManager,
        dispatcher: Dispatcher,
        report_handler: ReportHandler,
        outcome_handler: OutcomeHandler,
        membership: Membership,
        place: Callable[[Retry | Move], object],
        clock: Callable[[], float],
        interval: float,
        catch_up: Callable[[], None],
        alerts: CapacityAlerts | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._report_handler = report_handler
        self._outcome_handler = outcome_handler
        self._membership = membership
        self._place = place
        self._clock = clock
        self._interval = interval
        self._catch_up = catch_up
        self._alerts = alerts
        self._aside = DeferredReports()
        self._last_round = clock()
        self._returns = database.returns
        self._next_sweep = self._next_purge = 0.0
        #: Which volume was the last that was told to leave a draining backend.
        self._drained = ""
        #: And which pool's counters were the last that were read.
        self._recounted = 0
        self._cache_refresh = CacheRefresh(hosts, clock)

    def set_aside(self, messages: Sequence[PackedReport]) -> list[Exception | None]:
        """Keep reports that it is another scheduler's turn to apply until it has."""
        now = self._clock()
        for message in messages:
            self._aside.put(message, now)
        return [None] * len(messages)

    def request_sweep(self) -> None:
        """Let the next round sweep."""
        self._next_sweep = 0.0

    def run(self) -> None:
        """Do what is due. What the database does not answer for is done in a later round."""
        try:
            self._follow()
            now = self._clock()
            self._listen(now)
            if now >= self._next_sweep:
                self._next_sweep = now + self._interval
                self._sweep(now)
        except errors.Unavailable as error:
            LOG.log(loudness(error), "Housekeeping goes on later: %s", error.message)

    def _follow(self) -> None:
        try:
            self._report_handler.follow(self._aside, min(_PATIENCE, self._settings.service_down_time / 10))
        except errors.Unavailable:
            # They stay aside.
            raise
        except Exception:
            LOG.exception("Reports that others apply could not be looked at and stay aside")

    def _listen(self, now: float) -> None:
        """Mark backends as down that nobody has heard for too long, and figures as expired that are too old."""
        if self._database.away:
            # Whatever is reported cannot be noted.
            return
        gone, self._last_round = now - self._last_round, now
        came_back, self._returns = self._returns != self._database.returns, self._database.returns
        if gone >= _DEAF or came_back:
            # Stopped, say, or the database was away, and with it whatever would have been noted. What the agents
            # reported meanwhile is still in the queue, behind requests, or is lost.
            self._hosts.discount_silence(gone, now)
        # The bus may lag here alone.
        overdue = {backend.id: backend for backend in self._hosts.seemingly_overdue(now)}
        if overdue:
            with self._database.reading() as session:
                rows = backends.load_backends(session, ids=overdue.keys())
            for row in rows:
                overdue[row.id].update_last_seen(row, now)
        self._hosts.update_statuses(now)

    def _sweep(self, now: float) -> None:
        # Before it says what it goes by.
        self._catch_up()
        self._membership.heartbeat()
        with self._database.reading() as session:
            rows = backends.load_backends(session)
            pending = backends.load_pending(session)
            unplaced = backends.unplaced_volumes(session)
            draining = backends.draining_volumes(session, self._settings.drain_concurrency, self._drained)
            was_alone = self._membership.alone
            self._membership.refresh(session)
            if self._membership.alone:
                self._refresh(session, everything=not was_alone)
        if now >= self._next_purge:
            self._next_purge = now + _PURGE
            self._database.run(request_keys.purge, _KEY_DAYS)
            self._database.run(group_backends.purge)
            self._database.run(user_messages.purge)
            if self._alerts is not None:
                self._alerts.purge()
        self._hosts.meet(rows, now)
        self._dispatcher.catch_up(pending)
        for volume_id in unplaced:
            self._place(Retry(volume_id))
        self._abandon(rows, pending, now)
        self._drain(draining)

    def _refresh(self, session: orm.Session, *, everything: bool) -> None:
        """Read what may be new: who is alone refuses by memory. Of counters, which somebody may have mended by hand, it
        is those of some pools, the next time of others, unless ``everything`` is wanted.
        """
        ids = sorted(entry.id for entry in self._hosts.entries.values())
        if not everything:
            ids = [id for id in ids if id > self._recounted][: chunks.AT_A_TIME] or ids[: chunks.AT_A_TIME]
        self._recounted = ids[-1] if ids else 0
        # In this order, as before a refusal.
        self._hosts.set_counters(pool_counters.read(session, ids))
        self._cache_refresh.take_over(session)

    def _abandon(
        self, rows: Sequence[backends.BackendRow], pending: Sequence[backends.PendingClaim], now: float
    ) -> None:
        """Let requests move on whose backend has been down for a lease, by the ledger and as far as is known here."""
        patience = self._settings.service_down_time + self._settings.claim_lease
        silent = {row.id for row in rows if row.silence is None or row.silence > patience}
        away = silent & {
            backend.id for backend in self._hosts.backends() if not backend.up and now - backend.last_seen > patience
        }
        stuck = [
            claim.id
            for claim in pending
            if claim.backend_id in away and claim.verb in (bookings.CREATE, bookings.MIGRATE)
        ]
        if stuck:
            LOG.warning("%d claim(s) are abandoned, as their backends stay away", len(stuck))
        for some in chunks.cut(stuck):
            self._outcome_handler.abandon(some)

    def _drain(self, volume_ids: Sequence[str]) -> None:
        self._drained = volume_ids[-1] if volume_ids else ""
        for volume_id in volume_ids:
            # An id of its own for each move: by it an agent tells what a purge is of from what comes there later.
            move = MigrateVolume(request_id=f"drain-{uuid.uuid4()}", volume_id=volume_id)
            self._place(Move(move, keyed=False))
