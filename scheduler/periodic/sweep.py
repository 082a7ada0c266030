# SPDX-License-Identifier: Apache-2.0
"""The sweep: a periodic look at the whole ledger.

The scheduler gives a heartbeat, takes over what operators have changed, and finds claims and volumes that nobody works
on: claims of agents that stay away are abandoned, unanswered commands sent again, volumes without a pool placed again,
and volumes of draining backends moved.
"""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import orm

from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, drains, pending_claims
from tonnage.ledger.inventory.drains import DrainProgress
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs
from tonnage.rpc.messages import MigrateVolume
from tonnage.scheduler.agents.outcome_handler import OutcomeHandler, PlacementQueue
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.requests.placement_requests import Move, Retry

LOG = logging.getLogger(__name__)


class SweepTimer:
    """Tells when a sweep is due: ``interval`` seconds after the last one, or as soon as one is requested."""

    def __init__(self, interval: float, clock: Callable[[], float]) -> None:
        self.interval = interval
        self._clock = clock
        self._due = 0.0

    def request(self) -> None:
        """Let the next round sweep."""
        self._due = 0.0

    def is_due(self) -> bool:
        """Return whether a sweep is due, and begin the next interval if so."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + self.interval
        return True


class RulesInForce(Protocol):
    """The plug-ins that decide, by a calculation."""

    def apply_calculation(self, calculation: Calculation) -> None:
        """Decide by another calculation from now on."""


@dataclass(frozen=True, slots=True)
class OpenWork:
    """Unfinished work in the ledger.

    ``silent`` are the ids of the backends whose claims are abandoned because they have sent no report for too long.
    ``pending`` are the claims whose agents have not answered, ``unplaced`` the new volumes without a pool, ``draining``
    the volumes that leave their backends now. ``drains`` has the progress of the drains by backend.
    """

    silent: frozenset[int]
    pending: Sequence[pending_claims.PendingClaim]
    unplaced: Sequence[str]
    draining: Sequence[str]
    drains: Mapping[str, DrainProgress]


class ClaimRecovery:
    """Continues work that nobody works on. Belongs to the decision thread."""

    def __init__(
        self,
        settings: Settings,
        hosts: HostManager,
        dispatcher: Dispatcher,
        outcome_handler: OutcomeHandler,
        placement_queue: PlacementQueue,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._outcome_handler = outcome_handler
        self._placement_queue = placement_queue
        self._clock = clock
        #: Seconds of silence after which the claims of a backend are abandoned.
        self._max_silence = settings.service_down_time + settings.claim_lease
        #: The last volume that was told to leave a draining backend.
        self._drained = ""
        #: The backends whose drains are stuck, which the log has told.
        self._stuck: frozenset[str] = frozenset()

    def find(self, session: orm.Session, rows: Sequence[backends.BackendRow]) -> OpenWork:
        """Read the open work; ``rows`` are the rows of all backends."""
        return OpenWork(
            silent=frozenset(row.id for row in rows if row.silence is None or row.silence > self._max_silence),
            pending=pending_claims.load(session),
            unplaced=pending_claims.unplaced_volumes(session),
            draining=drains.next_volumes(session, self._settings.drain_concurrency, self._drained),
            drains=drains.load(session),
        )

    def resume(self, work: OpenWork) -> None:
        """Send overdue commands again, place volumes, abandon claims, and move volumes of draining backends."""
        self._dispatcher.catch_up(work.pending)
        for volume_id in work.unplaced:
            self._placement_queue.place_later(Retry(volume_id))
        self._abandon(work)
        self._drain(work.draining)
        self._warn_of_stuck(work.drains)

    def _abandon(self, work: OpenWork) -> None:
        """Let requests continue elsewhere whose backend has been down for a lease, by the ledger and by the cache."""
        now = self._clock()
        away = work.silent & {
            backend.id
            for backend in self._hosts.backends()
            if not backend.up and now - backend.last_seen > self._max_silence
        }
        stuck = [
            claim.id
            for claim in work.pending
            if claim.backend_id in away and claim.verb in (claim_verbs.CREATE, claim_verbs.MIGRATE)
        ]
        if stuck:
            LOG.warning("%d claim(s) are abandoned, as their backends stay away", len(stuck))
        for chunk in dialects.in_chunks(stuck):
            self._outcome_handler.abandon(chunk)

    def _drain(self, volume_ids: Sequence[str]) -> None:
        self._drained = volume_ids[-1] if volume_ids else ""
        for volume_id in volume_ids:
            # A fresh id for each move lets the agent tell the copy to purge from a later one.
            move = MigrateVolume(request_id=f"drain-{uuid.uuid4()}", volume_id=volume_id)
            self._placement_queue.place_later(Move(move, keyed=False))

    def _warn_of_stuck(self, progress: Mapping[str, DrainProgress]) -> None:
        """Log once for each drain that is stuck, until one of its volumes can move."""
        stuck = {name: drain for name, drain in progress.items() if drain.is_stuck}
        for name in sorted(stuck.keys() - self._stuck):
            LOG.warning(
                "The drain of backend %s is stuck: none of %d volume(s) can move; %s",
                name,
                stuck[name].volumes,
                "; ".join(stuck[name].reasons),
            )
        self._stuck = frozenset(stuck)


class Sweep:
    """Sweeps when ``timer`` tells. ``rules`` follow the calculation that other schedulers have agreed upon."""

    def __init__(
        self,
        timer: SweepTimer,
        database: Database,
        cache_refresh: CacheRefresh,
        membership: Membership,
        rules_agreement: RulesAgreement,
        rules: RulesInForce,
        recovery: ClaimRecovery,
    ) -> None:
        self.timer = timer
        self._database = database
        self._cache_refresh = cache_refresh
        self._membership = membership
        self._rules_agreement = rules_agreement
        self._rules = rules
        self._recovery = recovery
        #: The last pool whose counters were read again.
        self._recounted = 0

    def run(self) -> None:
        """Sweep if it is due."""
        if not self.timer.is_due():
            return
        # The heartbeat tells the rules that this scheduler applies.
        self._rules_agreement.catch_up(self._rules.apply_calculation)
        self._membership.heartbeat()
        with self._database.reading() as session:
            was_alone = self._membership.alone
            self._membership.refresh(session)
            if self._membership.alone:
                # Counters before figures, as before a refusal.
                self._recount(session, everything=not was_alone)
            rows = backends.load_backends(session)
            self._cache_refresh.refresh(session, rows)
            self._cache_refresh.hosts.forget_missing(rows)
            work = self._recovery.find(session, rows)
        self._recovery.resume(work)

    def _recount(self, session: orm.Session, *, everything: bool) -> None:
        """Refresh counters, from which a scheduler refuses while it is alone, as an operator may have repaired them.

        Each sweep reads the counters of the next slice of the pools, or of all pools if ``everything`` is true.
        """
        if everything:
            hosts = self._cache_refresh.hosts
            self._cache_refresh.refresh_counters(session, sorted(entry.id for entry in hosts.entries.values()))
            return
        ids = pool_counters.next_ids(session, self._recounted) or pool_counters.next_ids(session, 0)
        self._recounted = ids[-1] if ids else 0
        self._cache_refresh.refresh_counters(session, ids)
