# SPDX-License-Identifier: Apache-2.0
"""What projects use by OpenStack Placement's count, read before requests are decided.

A decision cannot wait for Placement, and Placement hears of it a moment later. So the usage that counts is Placement's
figure, and what it has not been told yet::

    usage = what Placement says - what it has been told + what the ledger has now

The first two are read here, of one moment: nothing is being told of the project meanwhile. What they differ by stays as
it is whatever is told later: it is what others have there, other deployments for one. The ledger's part is counted in
the transaction that decides, as ever.
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
from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.db.database import Database
from tonnage.placement.client import Placement
from tonnage.quotas import limit_rows
from tonnage.quotas.limits import Holder, Item, Limits, Resource, Scope
from tonnage.quotas.options import Settings

LOG = logging.getLogger(__name__)

#: For how many seconds a project is not read again, and for how many Placement is left alone once it has been away.
_FRESH = 1.0
_AWAY = 5.0

#: Seconds between two looks whether all volumes have been told.
_LOOK = 5.0

#: How many requests may wait for Placement: the server of the RPC has 64 threads, and the others need some as well.
_SEATS = 32

#: How often a project is looked at that Placement is just being told of, and the seconds in between.
_LOOKS = 5
_PAUSE = 0.05

_GIGABYTES = Item(Resource.GIGABYTES)


class State(enum.Enum):
    """Where usage is counted, and why."""

    PLACEMENT = "usage is counted from OpenStack Placement"
    AWAY = "usage is counted from the ledger, as OpenStack Placement is away"
    INCOMPLETE = (
        "usage is counted from the ledger, as OpenStack Placement has not been told of all volumes yet: "
        "'tonnage-manage db online_data_migrations' does that"
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """What Placement has beyond what it was told, in GiB by scope, and when that was read."""

    beyond: Mapping[Scope, int]
    at: float


class Usage:
    """Reads and remembers what Placement has beyond what it was told. Safe to use from many threads."""

    def __init__(
        self,
        database: Database,
        placement: Placement,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._database = database
        self._placement = placement
        self._defaults = settings.defaults
        self._clock = clock
        self._pause = pause
        self._readings: dict[str, _Reading] = {}
        self._in_hand: dict[str, threading.Lock] = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._seats = threading.BoundedSemaphore(_SEATS)
        self._state: State | None = None
        self._ask_from = 0.0
        self._complete = False
        self._look_from = 0.0
        self._began: datetime.datetime | None = None

    def beyond(self, scope: Scope) -> int:
        """Return how much more is used, in GiB, than the ledger's volumes; 0 where that is not known."""
        reading = self._readings.get(scope.project_id)
        return 0 if reading is None or scope.volume_type_id else reading.beyond.get(scope, 0)

    def read(self, project_ids: Collection[str]) -> None:
        """Ask about projects, but for those that have no limit or were asked about just now.

        To be called where nothing is held. Whatever goes wrong, the ledger counts.
        """
        for project_id in sorted(set(project_ids)):
            reading = self._readings.get(project_id)
            if reading is not None and self._clock() - reading.at < _FRESH:
                continue
            if self._clock() < self._ask_from or not self._seats.acquire(blocking=False):
                continue
            try:
                self._read_alone(project_id)
            finally:
                self._seats.release()

    def _read_alone(self, project_id: str) -> None:
        """Let one of those who need the same project ask for all of them."""
        with self._lock:
            in_hand = self._in_hand[project_id]
        asked_at = self._clock()
        with in_hand:
            reading = self._readings.get(project_id)
            if (reading is not None and reading.at >= asked_at) or self._clock() < self._ask_from:
                return
            try:
                found = self._ask(project_id)
            except Exception as error:
                # Whatever it is, nobody's request fails for it.
                if not isinstance(error, errors.TonnageError):
                    LOG.exception("Usage could not be read")
                self._ask_from = self._clock() + _AWAY
                self._readings.clear()
                self._say(State.AWAY, str(error))
                return
            if found is None:
                self._readings.pop(project_id, None)
            else:
                self._readings[project_id] = _Reading(found, self._clock())

    def _ask(self, project_id: str) -> dict[Scope, int] | None:
        with self._database.reading() as session:
            users = _limited(limit_rows.read(session, self._defaults, [project_id]), project_id)
            # Of volumes that are made from now on it is known that they have to be told, and that they have not been.
            self._began = self._began or placement_allocations.now(session)
            if users and not self._complete and self._clock() >= self._look_from:
                self._look_from = self._clock() + _LOOK
                self._complete = not placement_allocations.any_untold(session, self._began)
        if not users:
            return {}
        if not self._complete:
            self._say(State.INCOMPLETE)
            return None
        begun = self._clock()
        for look in range(_LOOKS):
            if look:
                if self._clock() - begun > self._placement.timeout:
                    break
                self._pause(_PAUSE)
            before = self._told(project_id)
            # Asked also in vain, to know whether Placement is there.
            used = {user_id: self._placement.used(project_id, user_id) for user_id in users}
            if before.doubt or self._told(project_id) != before:
                continue
            self._say(State.PLACEMENT)
            beyond = {user_id: size - before.of(user_id) for user_id, size in used.items()}
            if min(beyond.values()) >= 0:
                return {Scope(project_id, user_id): size for user_id, size in beyond.items()}
            LOG.warning(
                "OpenStack Placement has lost %d GiB of what it was told of project %s: it is told again",
                -min(beyond.values()),
                project_id,
            )
            self._database.run(placement_allocations.distrust_project, project_id)
            return None
        # Much is being told of it. What was known before of others' usage will do.
        reading = self._readings.get(project_id)
        return None if reading is None else dict(reading.beyond)

    def _told(self, project_id: str) -> placement_allocations.Told:
        with self._database.reading() as session:
            return placement_allocations.told_of(session, project_id)

    def _say(self, state: State, why: str = "") -> None:
        """Log where usage is counted whenever that changes, not for each request."""
        with self._lock:
            before, self._state = self._state, state
        if state is before:
            return
        said = f"{state.value} ({why})" if why else state.value
        LOG.log(logging.INFO if state is State.PLACEMENT else logging.WARNING, "%s", said[0].upper() + said[1:])


def _limited(limits: Limits, project_id: str) -> list[str]:
    """Return whose gigabytes are limited: those of users by their ids, empty for all of the project."""
    found = [""] if limits.of_project(project_id, _GIGABYTES) >= 0 else []
    for place, items in limits.rows.items():
        own = place.holder is Holder.PROJECT and place.name == project_id and place.user_id
        if own and items.get(_GIGABYTES, -1) >= 0:
            found.append(place.user_id)
    return found
