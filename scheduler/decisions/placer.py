# SPDX-License-Identifier: Apache-2.0
"""Placement: from a request to a claim.

The story of a batch of requests that arrived together::

    answered before?  ->  resolve  ->  quota -> filters -> weighers -> a pool, or a refusal   (each in order of arrival)
                                                     |
                      book all of them in one transaction  ->  send the commands  ->  answer

If the ledger finds that a pool or what is used of a quota changed meanwhile, nothing was booked, its row is read again
and the batch decided anew.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.catalog import volumes
from tonnage.ledger.claims import bookings, operation_outcomes, pool_counters, request_keys
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import loudness
from tonnage.ledger.inventory import scheduling_rules
from tonnage.quotas import options as quota_options
from tonnage.quotas import reservations
from tonnage.quotas import usage_counters as quota_counters
from tonnage.quotas.quota_budget import QuotaTaken
from tonnage.rpc.messages import Answer, GroupAnswer
from tonnage.scheduler.claims.dispatcher import Dispatcher
from tonnage.scheduler.decisions import lookups, quota_deltas, request_spec
from tonnage.scheduler.decisions.decider import Batch, Decider
from tonnage.scheduler.decisions.placement_requests import Retry, Work, key_of, taken_apart
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.cache_refresh import CacheRefresh
from tonnage.scheduler.simulation.decision_log import DecisionLog
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: How often a batch is decided anew because pools changed under it, before its requests are taken one by one.
_ROUNDS = 5


class Placer:
    """Decides requests and books the decisions. Belongs to the decision thread.

    ``alone`` tells whether no other scheduler is there, which might know better than memory does. ``catch_up`` takes
    over the rules that others have gone over to. Without ``quotas`` nothing is limited but what the ledger says.
    ``again`` has a volume tried again in a later batch.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        filters: FilterChain,
        weighers: WeigherChain,
        dispatcher: Dispatcher,
        cache_refresh: CacheRefresh | None = None,
        alone: Callable[[orm.Session], bool] = lambda session: False,
        log: DecisionLog | None = None,
        catch_up: Callable[[], None] = lambda: None,
        quotas: quota_options.Settings | None = None,
        again: Callable[[Retry], object] = lambda item: None,
    ) -> None:
        self._database = database
        self._quotas = quotas or quota_options.Settings()
        self._hosts = hosts
        self._decider = Decider(hosts, filters, weighers, log)
        self._dispatcher = dispatcher
        self._cache_refresh = cache_refresh or CacheRefresh(hosts, time.monotonic)
        self.alone = alone
        self._catch_up = catch_up
        self._again = again

    def decide_by(self, filters: FilterChain, weighers: WeigherChain) -> None:
        """Decide by these from now on."""
        self._decider.decide_by(filters, weighers)

    def place(self, work: Sequence[Work]) -> list[Answer | GroupAnswer | Exception]:
        """Decide a batch of requests, book what was decided, and send the commands."""
        answers = self._place(work)
        settled = any(
            isinstance(item, Retry) and isinstance(found, Answer) for item, found in zip(work, answers, strict=True)
        )
        for item, found in zip(work, answers, strict=True):
            if settled and isinstance(item, Retry) and isinstance(found, request_spec.NotFirst):
                # It may have waited for one of these.
                self._again(item)
        return answers

    def _place(self, work: Sequence[Work]) -> list[Answer | GroupAnswer | Exception]:
        failure: Exception = errors.Unavailable("other requests were faster on every pool that fits; try again")
        contested: frozenset[int] = frozenset()
        hurry: QuotaTaken | None = None
        for number in range(1, _ROUNDS + 1):
            if contested and number == _ROUNDS:
                # Nobody is faster on pools that are locked from the beginning.
                contested = frozenset(entry.id for entry in self._hosts.entries.values())
            try:
                batch, changed = self._attempt(work, contested, hurry)
            except bookings.PoolsChanged as changed_pools:
                contested |= changed_pools.pool_ids
            except QuotaTaken as taken_quota:
                hurry = taken_quota
            except scheduling_rules.RulesChanged:
                try:
                    self._catch_up()
                except errors.Unavailable as error:
                    LOG.log(loudness(error), "%d request(s) are not decided: %s", len(work), error.message)
                    return [error for _ in work]
            except (db_exc.DBDuplicateEntry, db_exc.DBReferenceError, errors.Conflict) as error:
                # Another scheduler has the same request or the same volume in hand, or a type has just been deleted:
                # it shows when read again.
                failure = errors.Conflict("another request with this id, or for this volume, is under way; try again")
                LOG.debug("Deciding %d request(s) again: %s", len(work), error)
            except errors.Unavailable as error:
                LOG.log(loudness(error), "%d request(s) could not be booked: %s", len(work), error.message)
                return [error for _ in work]
            except Exception as error:
                LOG.exception("%d request(s) could not be booked", len(work))
                failure = error
                break
            else:
                self._settle(batch, changed)
                return [batch.answers[number] for number in range(len(work))]
            finally:
                self._decider.forget()
        if len(work) > 1:
            # Whatever is wrong with one of them shall not keep the others.
            return [answer for item in work for answer in self._place([item])]
        return [failure]

    def _attempt(
        self, work: Sequence[Work], contested: Collection[int], hurry: QuotaTaken | None
    ) -> tuple[Batch, Mapping[int, Counters]]:
        if hurry is not None and hurry.uncounted:
            self._database.run(quota_counters.make, hurry.uncounted)
        # Of quotas that others were faster on the counters are locked from the beginning.
        return self._database.run(self._decide_and_book, work, contested, hurry is not None)

    def _decide_and_book(
        self, session: orm.Session, work: Sequence[Work], contested: Collection[int], hurried: bool
    ) -> tuple[Batch, Mapping[int, Counters]]:
        # Left from a try whose connection was lost: it may have been committed all the same.
        unsure = self._decider.tentative()
        self._decider.forget()
        known = request_keys.find(session, [key for item in work if (key := key_of(item))])
        lookup = lookups.look_up(session, taken_apart(work))
        # In the one order: quotas before backends and pools.
        wanted = [demand for item in work if key_of(item) not in known for demand in quota_deltas.of(item, lookup)]
        held = reservations.hold(session, self._quotas, wanted, contested=hurried or bool(contested))
        locked = None
        if contested:
            locked = self._cache_refresh.lock_and_refresh(session, contested)
            # What was read to know the quotas may have changed while the locks were waited for.
            session.expunge_all()
            lookup = lookups.look_up(session, taken_apart(work))
        numbers = volumes.per_pool(session) if self._decider.counts_volumes else None

        def decide() -> Batch:
            self._decider.show_volumes(numbers)
            return self._decider.decide(work, known, lookup, held.allowance())

        batch = decide()
        generation = self._hosts.rules_generation
        if batch.doubtful:
            # What is booked is compared with the rules when it is booked.
            scheduling_rules.require(session, generation)
            batch = self._heard_by_the_ledger(session, batch, decide)
        chosen = {booking.pool_id for booking in batch.bookings}
        if locked is not None and not chosen <= locked:
            # Locked after the others they would be out of order, and two transactions wait for each other.
            raise bookings.PoolsChanged(chosen)
        # In the one order: quotas, keys and pools first, volumes after them.
        reservations.take(session, batch.allowance)
        seen = {id: bookings.Seen(volume.size_gb, volume.volume_type_id) for id, volume in lookup.volumes.items()}
        others = {*batch.failed, *(retyped.volume_id for retyped in batch.retyped)}
        booked = bookings.book(
            session, batch.bookings, batch.keys, self._hosts.calculation, generation, seen, batch.bound, others
        )
        # What was locked before the decision has not changed since.
        if locked is None and batch.doubtful and self._cache_refresh.has_outgrown(session, booked):
            # While the booking waited there came more room than the decision saw: who was refused may fit beside those
            # who are booked.
            raise bookings.PoolsChanged(chosen)
        for retyped in sorted(batch.retyped, key=lambda retyped: retyped.volume_id):
            volumes.set_type(session, retyped, seen[retyped.volume_id])
        for volume_id, reason in sorted(batch.failed.items()):
            operation_outcomes.fail_volume(session, volume_id, reason)
        return batch, {**pool_counters.read(session, unsure), **booked} if unsure else booked

    def _heard_by_the_ledger(self, session: orm.Session, batch: Batch, decide: Callable[[], Batch]) -> Batch:
        """Have nobody refused by memory, which may be behind what other schedulers did: read what the ledger has of the
        pools that those who are refused may go to, and decide anew while that is something else.
        """
        final: list[Request] = []
        # Others may be refused in the next round, of whose pools nothing has been read yet.
        while (doubtful := _further(batch.doubtful, final)) and not self.alone(session):
            if not self._cache_refresh.refresh_candidates(session, doubtful, self._decider.filters):
                # The claims of this batch stay counted: what is booked is compared with them.
                break
            self._decider.forget()
            final += doubtful
            batch = decide()
        return batch

    def _settle(self, batch: Batch, changed: Mapping[int, Counters]) -> None:
        """After the commit: take over the counters, send the commands, log one line a decision."""
        self._hosts.set_counters(changed)
        for claim in batch.commands:
            self._dispatcher.send(claim)
        if self._decider.log is not None:
            self._decider.log.write()
        retyped = {one.volume_id for one in batch.retyped}
        for resolved, decision in batch.decisions:
            request = resolved.request
            if isinstance(decision, Refusal):
                LOG.info("[%s] volume %s refused: %s", request.request_id, resolved.volume_id, decision.message)
            elif resolved.volume_id in retyped:
                LOG.info("[%s] volume %s: type is %s now", request.request_id, resolved.volume_id, request.volume_type)
            else:
                LOG.info(
                    "[%s] volume %s: %s of %s placed in %s",
                    request.request_id,
                    resolved.volume_id,
                    request.operation,
                    request.describe(),
                    decision.pool,
                )


def _further(requests: Iterable[Request], known: Sequence[Request]) -> list[Request]:
    """Return each of these that is not known, once."""
    found: list[Request] = []
    for request in requests:
        if request not in known and request not in found:
            found.append(request)
    return found
