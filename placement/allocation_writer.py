# SPDX-License-Identifier: Apache-2.0
"""Telling OpenStack Placement what the ledger's volumes hold: after the fact, and again until it has been heard.

A round is: note what is about to be told, tell it, note that it has been. What ends in between is told once more, which
changes nothing. So nothing is lost, whatever dies or is away, and no request waits for any of it.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oslo_db import exception as db_exc

from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.catalog.placement_allocations import Telling
from tonnage.ledger.db.database import Database
from tonnage.placement.client import Placement, Refused
from tonnage.placement.resource_providers import Providers

LOG = logging.getLogger(__name__)

#: Volumes of which Placement is told at a time.
BATCH = 100

#: How often what others change at the same time is told to Placement before it is left for a later round.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Told:
    """Of how many volumes there was something to tell, of how many that has worked, and the seconds it took to look."""

    found: int = 0
    done: int = 0
    seconds: float = 0.0

    def plus(self, other: "Told") -> "Told":
        """Return both together."""
        return Told(self.found + other.found, self.done + other.done, self.seconds + other.seconds)


class Writer:
    """Tells Placement. Several, in several processes, do no harm; one is enough."""

    def __init__(self, database: Database, placement: Placement) -> None:
        self._database = database
        self._placement = placement
        self.providers = Providers(database, placement)

    def tell(self, stopped: Callable[[], bool] = lambda: False) -> Told:
        """Go through all volumes and tell of those of which there is something to tell. Raises as :meth:`rounds`."""
        told = Told()
        for each in self.rounds():
            told = told.plus(each)
            if stopped():
                break
        return told

    def rounds(self, most: int | None = None) -> Iterator[Told]:
        """The same round by round, and of at most so many volumes.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if Placement or the database is away, and
        :class:`~tonnage.placement.client.Refused` if a resource provider cannot be written.
        """
        left, after = most, ""
        while True:
            begun = time.monotonic()
            with self._database.reading() as session:
                compared = placement_allocations.compare(session, after)
            yield Told(seconds=time.monotonic() - begun)
            ids = compared.volume_ids[:left]
            for start in range(0, len(ids), BATCH):
                some = ids[start : start + BATCH]
                yield Told(len(some), self.round(some))
            if left is not None:
                left -= len(ids)
            if compared.upto is None or left == 0:
                return
            after = compared.upto

    def round(self, volume_ids: Sequence[str]) -> int:
        """Tell of some volumes; return of how many that has worked. Raises as :meth:`rounds`."""
        name = str(uuid.uuid4())
        try:
            plan = self._database.run(placement_allocations.plan, volume_ids, name)
        except db_exc.DBDuplicateEntry:
            # Another one has begun to tell of the same for the first time.
            plan = self._database.run(placement_allocations.plan, volume_ids, name)
        told = self._tell(plan, name)
        self._database.run(placement_allocations.note, told, name)
        taken = {each.consumer_id for each in told}
        if left := [each for each in plan if each.consumer_id not in taken]:
            self._database.run(placement_allocations.refused, left, name)
        return len(volume_ids) - len({each.volume_id for each in left})

    def _tell(self, plan: Sequence[Telling], name: str) -> list[Telling]:
        """Tell all of it at once or, where Placement does not take that, one by one; return what it has taken."""
        if not plan:
            return []
        try:
            return self._told(plan, name)
        except Refused as error:
            LOG.info("Allocations of %d consumer(s) are written one by one: %s", len(plan), error.message)
        self.providers.forget()
        # What takes away comes first: it makes room for others.
        found: list[Telling] = []
        for one in sorted(plan, key=lambda each: each.size_gb > 0):
            try:
                found += self._told([one], name)
            except Refused as error:
                LOG.warning("The allocation of volume %s is tried again later: %s", one.volume_id, error.message)
        return found

    def _told(self, tellings: Sequence[Telling], name: str) -> list[Telling]:
        more: dict[int, int] = {}
        for each in tellings:
            more[each.pool_id] = more.get(each.pool_id, 0) + max(0, each.size_gb - each.before_gb)
        ids = self.providers.of((each.pool_id for each in tellings if each.size_gb), more)
        # Of pools that have just gone, claims and all, the next round tells.
        tellings = [each for each in tellings if not each.size_gb or each.pool_id in ids]
        if not tellings:
            return []
        for last in (*[False] * (_TRIES - 1), True):
            try:
                self._placement.tell(tellings, ids)
                break
            except Refused as error:
                if error.status != 409 or last:
                    raise
                now = self._generations(tellings)
                if [each.generation for each in now] == [each.generation for each in tellings]:
                    # It is not that somebody else has told it.
                    raise
                # If that was another round, which has overtaken this one, what is known here is of before.
                with self._database.reading() as session:
                    tellings = placement_allocations.still_to_tell(session, now, name)
                if not tellings:
                    return []
        return [replace(each, generation=_next(each.generation)) for each in tellings]

    def _generations(self, tellings: Sequence[Telling]) -> list[Telling]:
        """Return the same with the generations that Placement has now."""
        now: Mapping[str, int | None] = {
            each.consumer_id: self._placement.generation(each.consumer_id) for each in tellings
        }
        return [replace(each, generation=now[each.consumer_id]) for each in tellings]


def _next(generation: int | None) -> int:
    """Return what Placement counts a consumer's next change as."""
    return 1 if generation is None else generation + 1
