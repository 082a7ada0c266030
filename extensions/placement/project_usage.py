# SPDX-License-Identifier: Apache-2.0
"""Usage of projects by OpenStack Placement, read before requests are decided.

A decision cannot wait for Placement, and Placement receives the allocations of a decision a moment later. So usage is
Placement's figure, corrected by the allocations that it does not have yet::

    usage = usage in Placement - allocations written to Placement + volumes in the ledger

This module reads the first two figures at the same moment, while no allocations of the project are being written. Their
difference is the usage of foreign consumers, for example of other deployments. It does not depend on later writes. The
transaction of the decision counts the volumes in the ledger.
"""

import collections
import datetime
import enum
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.extensions.placement import allocation_check, placement_allocations
from tonnage.extensions.placement.allocation_check import AllocationCheck
from tonnage.extensions.placement.client import PlacementClient
from tonnage.ledger.db.database import Database
from tonnage.quotas import limits
from tonnage.quotas.limits import Holder, Item, Limits, Resource, Scope
from tonnage.quotas.options import Settings

LOG = logging.getLogger(__name__)

#: Seconds for which the usage of a project is cached, and seconds without requests after Placement was unavailable.
_CACHE_SECONDS = 1.0
_RETRY_SECONDS = 5.0

#: Seconds between two checks whether the allocations of all volumes have been written.
_COMPLETENESS_INTERVAL = 5.0

#: Maximum number of threads that wait for Placement. The RPC server has 64 threads, and other requests need some of
#: them.
_MAX_WAITING = 32

#: Attempts to read a project while its allocations are being written, and seconds between two attempts.
ATTEMPTS = 5
_ATTEMPT_PAUSE = 0.05

_GIGABYTES = Item(Resource.GIGABYTES)


class CountSource(enum.Enum):
    """The source of usage figures, with the reason in the log line."""

    PLACEMENT = "usage is counted from OpenStack Placement"
    AWAY = "usage is counted from the ledger, as OpenStack Placement is away"
    INCOMPLETE = (
        "usage is counted from the ledger, as OpenStack Placement has not been told of all volumes yet: "
        "'tonnage-manage db online_data_migrations' does that"
    )


@dataclass(frozen=True, slots=True)
class _CachedUsage:
    """The usage of foreign consumers in GiB by scope, and the time when it was read."""

    external: Mapping[Scope, int]
    at: float


class PlacementUsage:
    """Reads and caches the usage of foreign consumers in Placement. Thread-safe.

    ``attempt_pause`` is the number of seconds between two attempts to read a project.
    """

    def __init__(
        self,
        database: Database,
        placement: PlacementClient,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        attempt_pause: float = _ATTEMPT_PAUSE,
    ) -> None:
        self._database = database
        self._placement = placement
        self._defaults = settings.defaults
        self._clock = clock
        self._attempt_pause = attempt_pause
        self._cache: dict[str, _CachedUsage] = {}
        self._project_locks: dict[str, threading.Lock] = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MAX_WAITING)
        self._state: CountSource | None = None
        self._retry_at = 0.0
        self._complete = False
        self._next_completeness_check = 0.0
        self._started_at: datetime.datetime | None = None

    def used_gb(self, scope: Scope) -> int:
        """Return the GiB in use besides the ledger's volumes, 0 if they are unknown."""
        cached = self._cache.get(scope.project_id)
        return 0 if cached is None or scope.volume_type_id else cached.external.get(scope, 0)

    def check_records(self, project_id: str | None, *, mend: bool) -> AllocationCheck:
        """Compare the allocations in Placement with the written ones, and with ``mend`` write the lost ones again."""
        return (allocation_check.sync if mend else allocation_check.check)(self._database, self._placement, project_id)

    def read(self, project_ids: Collection[str]) -> None:
        """Read the usage of projects with a limit, except projects with fresh figures in the cache.

        The caller must hold no locks. After an error only the ledger's volumes count.
        """
        for project_id in sorted(set(project_ids)):
            cached = self._cache.get(project_id)
            if cached is not None and self._clock() - cached.at < _CACHE_SECONDS:
                continue
            if self._clock() < self._retry_at or not self._slots.acquire(blocking=False):
                continue
            try:
                self._refresh(project_id)
            finally:
                self._slots.release()

    def _refresh(self, project_id: str) -> None:
        """Read the usage of a project on one thread, while other threads that need the same project wait for it."""
        with self._lock:
            project_lock = self._project_locks[project_id]
        requested_at = self._clock()
        with project_lock:
            cached = self._cache.get(project_id)
            if (cached is not None and cached.at >= requested_at) or self._clock() < self._retry_at:
                return
            try:
                usage = self._query(project_id)
            except Exception as error:
                # No error here makes a request fail.
                if not isinstance(error, errors.TonnageError):
                    LOG.exception("Usage could not be read")
                self._retry_at = self._clock() + _RETRY_SECONDS
                self._cache.clear()
                self._set_state(CountSource.AWAY, str(error))
                return
            if usage is None:
                self._cache.pop(project_id, None)
            else:
                self._cache[project_id] = _CachedUsage(usage, self._clock())

    def _query(self, project_id: str) -> dict[Scope, int] | None:
        with self._database.reading() as session:
            users = _limited_users(limits.read(session, self._defaults, [project_id]), project_id)
            # Volumes created later need not be checked: their allocations are known to be unwritten at first.
            self._started_at = self._started_at or placement_allocations.now(session)
            if users and not self._complete and self._clock() >= self._next_completeness_check:
                self._next_completeness_check = self._clock() + _COMPLETENESS_INTERVAL
                self._complete = not placement_allocations.any_unsent(session, self._started_at)
        if not users:
            return {}
        if not self._complete:
            self._set_state(CountSource.INCOMPLETE)
            return None
        started = self._clock()
        for attempt in range(ATTEMPTS):
            if attempt:
                if self._clock() - started > self._placement.timeout:
                    break
                time.sleep(self._attempt_pause)
            before = self._written(project_id)
            # Read even if the result may be useless, to find out whether Placement answers.
            used = {user_id: self._placement.usage(project_id, user_id) for user_id in users}
            if before.doubt or self._written(project_id) != before:
                continue
            self._set_state(CountSource.PLACEMENT)
            excess = {user_id: size - before.of(user_id) for user_id, size in used.items()}
            if min(excess.values()) >= 0:
                return {Scope(project_id, user_id): size for user_id, size in excess.items()}
            LOG.warning(
                "OpenStack Placement has lost %d GiB of the allocations of project %s, which are written again",
                -min(excess.values()),
                project_id,
            )
            self._database.run(placement_allocations.mark_project_for_resend, project_id)
            return None
        # The project's allocations change too often. The previous usage of foreign consumers is good enough.
        cached = self._cache.get(project_id)
        return None if cached is None else dict(cached.external)

    def _written(self, project_id: str) -> placement_allocations.SentUsage:
        with self._database.reading() as session:
            return placement_allocations.sent_usage(session, project_id)

    def _set_state(self, state: CountSource, reason: str = "") -> None:
        """Store the source of usage figures and log it if it has changed."""
        with self._lock:
            before, self._state = self._state, state
        if state is before:
            return
        line = f"{state.value} ({reason})" if reason else state.value
        LOG.log(logging.INFO if state is CountSource.PLACEMENT else logging.WARNING, "%s", line[0].upper() + line[1:])


def _limited_users(limits: Limits, project_id: str) -> list[str]:
    """Return the ids of users in a project with a limit of gigabytes; an empty id stands for the whole project."""
    user_ids = [""] if limits.of_project(project_id, _GIGABYTES) >= 0 else []
    for owner, items in limits.rows.items():
        own = owner.holder is Holder.PROJECT and owner.name == project_id and owner.user_id
        if own and items.get(_GIGABYTES, -1) >= 0:
            user_ids.append(owner.user_id)
    return user_ids
