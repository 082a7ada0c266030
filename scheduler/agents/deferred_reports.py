# SPDX-License-Identifier: Apache-2.0
"""Reports that it is another scheduler's turn to apply. Belongs to the decision thread.

All schedulers receive each report, and one of them applies it at once. The others wait until the ledger has it and
refresh their caches from there. If no scheduler applies it for a while, they do.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.registration import Registration, UnknownEpoch
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cluster.dispatcher import Dispatcher

LOG = logging.getLogger(__name__)

#: The largest share of the decision thread's time that is spent on taking over reports.
_SHARE = 0.05


@dataclass(slots=True)
class _Deferred:
    """The deferred reports of a backend: the first and the newest, each with the time at which it came.

    Only the newest is kept: it has all that those before it have, and repeats the outcomes that are not acknowledged.
    ``patience`` is for how many seconds it waits before it is applied here. It stays until the ledger has it, because
    that may fail, and is then applied again after twice the time.
    """

    first: tuple[int, int]
    since: float
    newest: PackedReport
    came: float
    patience: float


class DeferredReports:
    """Takes over or, after ``timeout`` seconds, has ``apply`` apply the reports whose turn another scheduler has."""

    def __init__(
        self,
        database: Database,
        cache_refresh: CacheRefresh,
        registration: Registration,
        dispatcher: Dispatcher,
        apply: Callable[[PackedReport], object],
        clock: Callable[[], float],
        timeout: float,
    ) -> None:
        self._database = database
        self._cache_refresh = cache_refresh
        self._registration = registration
        self._dispatcher = dispatcher
        self._apply = apply
        self._clock = clock
        self._timeout = timeout
        self._deferred: dict[str, _Deferred] = {}
        # The time of the next look into the ledger.
        self._due = 0.0

    def put(self, messages: Sequence[PackedReport]) -> list[Exception | None]:
        """Defer reports."""
        now = self._clock()
        for message in messages:
            number = (message.epoch, message.seq)
            waiting = self._deferred.get(message.backend)
            if waiting is None:
                self._deferred[message.backend] = _Deferred(number, now, message, now, self._timeout)
            elif number > (waiting.newest.epoch, waiting.newest.seq):
                waiting.newest, waiting.came = message, now
        return [None] * len(messages)

    def run(self) -> None:
        """Take over the reports that the ledger has, and apply those that wait for too long, if a look is due.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger is away; all reports stay deferred.
        """
        began = self._clock()
        if not self._deferred or began < self._due:
            return
        try:
            self._take_over()
        except errors.Unavailable:
            raise
        except Exception:
            LOG.exception("Reports that other schedulers apply could not be taken over and stay deferred")
        ended = self._clock()
        self._due = ended + (ended - began) * (1 / _SHARE - 1)

    def _take_over(self) -> None:
        ids = self._current_backends()
        now = self._clock()
        with self._database.reading() as session:
            rows = backends.load_backends(session, ids=ids)
            self._cache_refresh.refresh(session, rows)
        for row in rows:
            self._settle(row.name, (row.epoch, row.report_seq))
            waiting = self._deferred.get(row.name)
            if waiting is not None and now - waiting.since >= waiting.patience:
                waiting.since, waiting.patience = now, 2 * waiting.patience
                self._apply(waiting.newest)

    def _current_backends(self) -> list[int]:
        """Return the ids of the backends that reports of current epochs wait for; the other reports are dropped."""
        ids = []
        for name, waiting in list(self._deferred.items()):
            message = waiting.newest
            try:
                backend = self._registration.current(name, message.epoch)
            except UnknownEpoch as error:
                LOG.warning("%s", error.message)
                backend = None
            if backend is None:
                del self._deferred[name]
            else:
                backend.reported_here = True
                self._dispatcher.renew(message.in_hand)
                ids.append(backend.id)
        return ids

    def _settle(self, name: str, applied: tuple[int, int]) -> None:
        """Forget the reports of a backend up to the one that the ledger has."""
        waiting = self._deferred[name]
        if (waiting.newest.epoch, waiting.newest.seq) <= applied:
            del self._deferred[name]
        elif waiting.first <= applied:
            waiting.first, waiting.since = (waiting.newest.epoch, waiting.newest.seq), waiting.came
            waiting.patience = self._timeout
