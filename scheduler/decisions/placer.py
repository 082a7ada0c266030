# SPDX-License-Identifier: Apache-2.0
"""The placer: it decides batches of requests and books the decisions as claims.

The course of a batch of requests that arrived together::

    answered before?  ->  resolve  ->  quota -> filters -> weighers -> a pool, or a refusal   (each in order of arrival)
                                                     |
                      book all of them in one transaction  ->  send the commands  ->  answer

If the ledger finds that a pool or the usage of a quota changed meanwhile, nothing is booked, the row is read again and
the batch is decided anew.

An example. The only pool has total 1000, free 480, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0. Three
requests for thin volumes arrive while the transaction before theirs runs, so they are one batch. Each decision counts
in the table before the next one, as ``in_flight``::

    request   in flight   headroom   decision
    300 GiB          20        580   placed
    300 GiB         320        280   refused, nearest headroom 280.00 GiB
    200 GiB         320        280   placed

One transaction books both claims: one update of the pool's row adds 500 GiB, if the row still has room for them. It
also inserts two volumes, two claims, and the request keys of all three. After its commit two commands go to the agent,
and three answers to the API. If another scheduler takes 100 GiB of the pool meanwhile, the update matches no row, and
the whole batch is decided anew: 180 GiB remain beside the first volume, so the third request is refused too.
"""

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.capacity.request import Request
from tonnage.extension import attributed_to, failures_logged
from tonnage.ledger.catalog import refusals, volumes
from tonnage.ledger.claims import bookings, operation_outcomes, request_keys
from tonnage.ledger.claims.request_keys import Key
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import drains
from tonnage.ledger.locks import pool_counters, scheduling_rules
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.metrics import instruments
from tonnage.quotas import limits, reservations
from tonnage.quotas import options as quota_options
from tonnage.quotas.quota_check import QuotaBudget, QuotaChanged, ReservedQuota
from tonnage.rpc.messages import Answer, GroupAnswer
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.decisions.booking_plan import BookingPlan
from tonnage.scheduler.decisions.decider import Decider
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.requests import quota_demands
from tonnage.scheduler.requests.placement_requests import (
    Retry,
    Work,
    by_volume,
    kept_answer,
    key_of,
    keys_of,
)
from tonnage.scheduler.requests.pool_selection import set_volume_numbers
from tonnage.scheduler.requests.request_spec import Lookup, WaitsForVolume

LOG = logging.getLogger(__name__)

#: How often a batch is decided anew because pools changed meanwhile, before its requests are taken one by one.
_ROUNDS = 5


class Placer:
    """Decides requests and books the decisions. Belongs to the decision thread.

    Without ``quotas`` only the limits in the ledger apply. Without an ``agreement`` with other schedulers this one
    never counts as the only one. ``thread`` takes volumes that are tried again in a later batch.
    ``observers`` are told of the decisions.
    """

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        rules: RulesInForce,
        dispatcher: Dispatcher,
        quotas: quota_options.Settings | None = None,
        agreement: RulesAgreement | None = None,
        thread: DecisionThread | None = None,
        observers: Sequence[DecisionObserver] = (),
    ) -> None:
        self.rules = rules
        self.quotas = quotas or quota_options.Settings()
        self.agreement = agreement
        self._database = database
        self._hosts = cache_refresh.hosts
        self._cache_refresh = cache_refresh
        self._dispatcher = dispatcher
        self._thread = thread
        self.observers = observers
        #: The names of the pools in which placements are counted that are not booked yet.
        self._tentative: set[str] = set()
        #: Whether there were limits at the last look. Where there were none, a decision is made without them, and the
        #: look before the end of its transaction tells whether that was right.
        self._has_limits = True

    def place(self, work: Sequence[Work]) -> list[Answer | GroupAnswer | Exception]:
        """Decide a batch of requests, book the decisions, and send the commands."""
        answers = self._place(work)
        settled = any(
            isinstance(item, Retry) and isinstance(answer, Answer) for item, answer in zip(work, answers, strict=True)
        )
        for item, answer in zip(work, answers, strict=True):
            if settled and isinstance(item, Retry) and isinstance(answer, WaitsForVolume) and self._thread is not None:
                # It may have waited for one of these.
                self._thread.submit(self.place, item)
        for observer in self.observers:
            with failures_logged(observer):
                observer.answered(work, answers)
        return answers

    def _place(self, work: Sequence[Work]) -> list[Answer | GroupAnswer | Exception]:
        failure: Exception | None = None
        pools_to_lock: frozenset[int] = frozenset()
        quota_conflict: QuotaChanged | None = None
        for number in range(1, _ROUNDS + 1):
            if pools_to_lock and number == _ROUNDS:
                # No other scheduler is faster on pools that are locked from the beginning.
                pools_to_lock = frozenset(entry.id for entry in self._hosts.entries.values())
            try:
                plan, changed = self._attempt(work, pools_to_lock, quota_conflict)
            except bookings.PoolsChanged as changed_pools:
                instruments.CONFLICTS.inc()
                pools_to_lock |= changed_pools.pool_ids
            except QuotaChanged as taken_quota:
                instruments.CONFLICTS.inc()
                self._has_limits = True
                quota_conflict = taken_quota
            except scheduling_rules.RulesChanged:
                try:
                    self.follow_rules()
                except errors.Unavailable as error:
                    LOG.log(log_level(error), "%d request(s) are not decided: %s", len(work), error.message)
                    return [error for _ in work]
            except (db_exc.DBDuplicateEntry, db_exc.DBReferenceError, errors.Conflict) as error:
                # Another scheduler has the same request or the same volume in hand, or a type has just been deleted:
                # the next read shows it.
                failure = errors.Conflict("another request with this id, or for this volume, is under way; try again")
                LOG.debug("Deciding %d request(s) again: %s", len(work), error)
            except errors.Unavailable as error:
                LOG.log(log_level(error), "%d request(s) could not be booked: %s", len(work), error.message)
                return [error for _ in work]
            except Exception as error:
                is_own = isinstance(error, errors.TonnageError)
                LOG.error("%d request(s) could not be booked: %s", len(work), error, exc_info=not is_own)
                failure = error
                break
            else:
                self._settle(plan, changed)
                return [plan.answers[number] for number in range(len(work))]
            finally:
                self._forget()
        if len(work) > 1:
            # The fault of one request must not keep the others.
            return [answer for item in work for answer in self._place([item])]
        return [failure or errors.Unavailable("other requests were faster on every pool that fits; try again")]

    def _attempt(
        self, work: Sequence[Work], pools_to_lock: Collection[int], quota_conflict: QuotaChanged | None
    ) -> tuple[BookingPlan, Mapping[int, Counters]]:
        if quota_conflict is not None and quota_conflict.missing_counters:
            self._database.run(reservations.insert_missing, quota_conflict.missing_counters)
        # The counters of quotas that others were faster on are locked from the beginning.
        return self._database.run(self._decide_and_book, work, pools_to_lock, quota_conflict is not None)

    def _decide_and_book(
        self, session: orm.Session, work: Sequence[Work], pools_to_lock: Collection[int], lock_quotas: bool
    ) -> tuple[BookingPlan, Mapping[int, Counters]]:
        # Pools of an earlier attempt whose connection was lost: it may have been committed all the same.
        unsure = [self._hosts.entries[name].id for name in self._tentative if name in self._hosts.entries]
        self._forget()
        stored_keys = request_keys.find(session, keys_of(work))
        lookup = resolution.read_references(session, by_volume(work))
        # In the one order: quotas before backends and pools.
        held, demands = None, []
        if self._has_limits:
            self._has_limits = limits.has_volume_limits(session, self.quotas.defaults)
        if self._has_limits:
            new = [item for item in work if key_of(item).request_id not in stored_keys]
            demands = [demand for item in new for demand in quota_demands.of_request(item, lookup)]
            held = reservations.reserve(session, self.quotas, demands, lock_counters=lock_quotas or bool(pools_to_lock))
        locked = None
        if pools_to_lock:
            locked = self._cache_refresh.lock_and_refresh(session, pools_to_lock)
            # The rows that tell the quotas may have changed while the locks were waited for.
            session.expunge_all()
            lookup = resolution.read_references(session, by_volume(work))
        numbers = volumes.per_pool(session) if self.rules.current.counts_volumes else None

        decide = functools.partial(self._decide, work, stored_keys, lookup, held, numbers)
        plan = decide()
        generation = self._hosts.rules_generation
        if plan.stale_refusals or plan.retyped:
            # Bookings are compared with the rules when they are booked.
            scheduling_rules.require_generation(session, generation)
        if plan.stale_refusals:
            plan = self._with_figures_of_the_ledger(session, plan, decide)
        chosen = {booking.pool_id for booking in plan.bookings}
        if locked is not None and not chosen <= locked:
            # Locked after the others they would be out of order, and two transactions wait for each other.
            raise bookings.PoolsChanged(chosen)
        # In the one order: quotas, keys and pools first, volumes after them.
        if plan.budget is not None:
            reservations.consume(session, plan.budget)
        seen_volumes = {
            id: bookings.SeenVolume(volume.size_gb, volume.volume_type_id) for id, volume in lookup.volumes.items()
        }
        unbooked_volumes = {*plan.failed, *plan.undrained, *(retyped.volume_id for retyped in plan.retyped)}
        booked = bookings.book(
            session,
            plan.bookings,
            plan.keys,
            self._hosts.calculation,
            generation,
            seen_volumes,
            plan.hint_targets,
            unbooked_volumes,
        )
        if plan.bookings or held is None:
            reservations.require_same_limits(session, self.quotas, held, demands)
        # Pools that were locked before the decision have not changed since.
        if locked is None and plan.stale_refusals and self._cache_refresh.has_outgrown(session, booked):
            # While the booking waited for its locks the pools gained headroom that the decision did not see, so a
            # refused request may fit beside the booked ones.
            raise bookings.PoolsChanged(chosen)
        if plan.retyped or plan.failed or plan.refused or plan.undrained:
            _record_unbooked(session, plan, seen_volumes)
        return plan, {**pool_counters.read(session, unsure), **booked} if unsure else booked

    def _decide(
        self,
        work: Sequence[Work],
        stored_keys: Mapping[str, Key],
        lookup: Lookup,
        held: ReservedQuota | None,
        numbers: Mapping[int, int] | None,
    ) -> BookingPlan:
        """Decide requests in the order of their arrival and plan their bookings.

        ``stored_keys`` has the keys of requests that were answered before, ``held`` the reservations if anything is
        limited, ``numbers`` the number of volumes in each pool if a weigher reads it.
        """
        if numbers is not None:
            set_volume_numbers(self._hosts.table, self._hosts.entries, numbers)
        rules = self.rules
        for observer in self.observers:
            with attributed_to(observer):
                observer.begin(rules.current)
        budget = None if held is None else QuotaBudget(held)
        decider = Decider(self._hosts.table, rules.current, budget, self.observers)
        self._tentative = decider.counted
        plan = BookingPlan(self._hosts, decider.budget)
        first: dict[str, int] = {}
        for number, item in enumerate(work):
            key = key_of(item)
            try:
                if key.request_id in stored_keys:
                    plan.answers[number] = kept_answer(item, stored_keys[key.request_id])
                    continue
                if key.request_id and key.request_id in first:
                    earlier = first[key.request_id]
                    key_of(work[earlier]).require(key.volume_id, key.verb)
                    plan.answers[number] = plan.answers[earlier]
                    continue
            except errors.TonnageError as error:
                plan.answers[number] = error
                continue
            first[key.request_id] = number
            try:
                demands = [] if decider.budget is None else quota_demands.of_request(item, lookup)
                decided = decider.decide(item, lookup, demands)
                for spec in decided.specs:
                    if spec.request.hints or spec.request.extra_specs:
                        rules.ignored_keys.tell(spec.request)
                plan.answers[number] = plan.add(item, decided)
            except errors.TonnageError as error:
                plan.answers[number] = plan.fail(item, error)
        return plan

    def _forget(self) -> None:
        """Remove placements that are not booked from the table, in pools that are still in the cache."""
        self._hosts.reset_counters([name for name in self._tentative if name in self._hosts.entries])
        self._tentative.clear()

    def _with_figures_of_the_ledger(
        self, session: orm.Session, plan: BookingPlan, decide: Callable[[], BookingPlan]
    ) -> BookingPlan:
        """Check refusals against the ledger, because a stale cache must not refuse a request.

        Read the rows of the pools that the refused requests may go to, and decide again until nothing in them is new.
        """
        final: list[Request] = []
        # Others may be refused in the next round, whose pools have not been read yet.
        while (stale_refusals := _further(plan.stale_refusals, final)) and not self._is_alone(session):
            if not self._cache_refresh.refresh_candidates(session, stale_refusals, self.rules.current.filters):
                # The claims of this batch stay counted: bookings are compared with them.
                break
            self._forget()
            final += stale_refusals
            plan = decide()
        return plan

    def follow_rules(self) -> None:
        """Apply the rules that other schedulers have agreed on while this one was away, if they have.

        Raises :class:`~tonnage.capacity.errors.Unavailable` for rules that this scheduler cannot apply.
        """
        if self.agreement is not None:
            self.agreement.catch_up(self.rules.apply_calculation)

    def _is_alone(self, session: orm.Session) -> bool:
        return self.agreement is not None and self.agreement.is_alone(session)

    def _settle(self, plan: BookingPlan, changed: Mapping[int, Counters]) -> None:
        """Take over the counters of a commit, send the commands, and log one line for each decision.

        A drain tries again all the time: its refusals are logged when their reasons change.
        """
        self._hosts.set_counters(changed)
        for booking in plan.bookings:
            self._dispatcher.send(booking)
        for observer in self.observers:
            with failures_logged(observer):
                observer.booked()
        retyped = {volume.volume_id for volume in plan.retyped}
        for spec, decision in plan.decisions:
            request = spec.request
            if isinstance(decision, Refusal):
                is_repeated = spec.volume_id in plan.undrained and spec.volume_id not in plan.newly_undrained
                level = logging.DEBUG if is_repeated else logging.INFO
                LOG.log(level, "[%s] volume %s refused: %s", request.request_id, spec.volume_id, decision.message)
            elif spec.volume_id in retyped:
                LOG.info("[%s] volume %s: type is %s now", request.request_id, spec.volume_id, request.volume_type)
            else:
                LOG.info(
                    "[%s] volume %s: %s of %s placed in %s",
                    request.request_id,
                    spec.volume_id,
                    request.operation,
                    request.describe(),
                    decision.pool,
                )


def _record_unbooked(session: orm.Session, plan: BookingPlan, seen_volumes: Mapping[str, bookings.SeenVolume]) -> None:
    """Record the decisions without a booking: retypes in place, volumes that no pool is left for or takes, refusals."""
    for retyped in sorted(plan.retyped, key=lambda retyped: retyped.volume_id):
        volumes.set_type(session, retyped, seen_volumes[retyped.volume_id])
    for volume_id, reason in sorted(plan.failed.items()):
        operation_outcomes.fail_volume(session, volume_id, reason)
    plan.newly_undrained = drains.record(session, plan.undrained)
    refusals.insert(session, plan.refused)


def _further(requests: Iterable[Request], checked: Sequence[Request]) -> list[Request]:
    """Return the requests that have not been checked, without duplicates."""
    new_requests: list[Request] = []
    for request in requests:
        if request not in checked and request not in new_requests:
            new_requests.append(request)
    return new_requests
