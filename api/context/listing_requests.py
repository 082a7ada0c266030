# SPDX-License-Identifier: Apache-2.0
"""Listings of backends that are taken on request, because a user asks for the contents of the storage."""

import logging
import time
from collections.abc import Collection

from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import listings
from tonnage.rpc import contract
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import ListBackends

LOG = logging.getLogger(__name__)

#: Seconds between the first two reads of the ledger.
_STEP = 0.1


class ListingRequests:
    """Takes listings on demand. ``service_down_time`` is the number of seconds after which a silent backend is down.

    It waits ``timeout`` seconds for listings, with at most ``longest_step`` seconds between two reads of the ledger.
    """

    def __init__(
        self,
        database: Database,
        scheduler: SchedulerClient,
        service_down_time: float,
        timeout: float = 10.0,
        longest_step: float = 1.0,
    ) -> None:
        self._database = database
        self._scheduler = scheduler
        self._service_down_time = service_down_time
        self._timeout = timeout
        self._longest_step = longest_step

    def take(self, backends: Collection[str] | None = None) -> dict[str, listings.LastListing]:
        """Have these backends listed, all if None, and wait some seconds until the ledger has their listings.

        A backend is listed again while its listing does not tell whether a former volume is an orphan: a second listing
        does, or a listing after the reports that contain the last operation on the volume.

        Return the last listings of those backends without a new one, by name. It is not an error if there is none: the
        agent is down, its storage is slow, or no scheduler takes the request.
        """
        last = self._last(backends)
        waiting = {name for name, listing in last.items() if listing.is_up(self._service_down_time)}
        fresh: set[str] = set()
        step, deadline = _STEP, time.monotonic() + self._timeout
        try:
            self._request(waiting)
            while waiting and time.monotonic() < deadline:
                time.sleep(step)
                step = min(2 * step, self._longest_step)
                arrived = {
                    name: listing for name, listing in self._last(waiting).items() if listing.at != last[name].at
                }
                last.update(arrived)
                fresh.update(arrived)
                waiting -= {name for name, listing in arrived.items() if not listing.unclear}
                self._request(waiting & arrived.keys())
        except errors.Unavailable as error:
            LOG.warning("No listing could be requested: %s", error.message)
        return {name: listing for name, listing in last.items() if name not in fresh}

    def _request(self, backends: Collection[str]) -> None:
        if backends:
            self._scheduler.cast(contract.LIST_BACKENDS, ListBackends(backends=sorted(backends)))

    def _last(self, backends: Collection[str] | None) -> dict[str, listings.LastListing]:
        with self._database.reading() as session:
            return listings.last(session, backends)
