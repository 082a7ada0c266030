# SPDX-License-Identifier: Apache-2.0
"""Writer of the allocations of the ledger's volumes to OpenStack Placement.

Allocations are written after the fact, so no request waits for Placement. A round marks allocations in the ledger,
writes them to Placement and records the success. If a round is interrupted, the next one writes the marked allocations
again, with the same result. So no allocation is lost if a process dies or Placement is unavailable.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oslo_db import exception as db_exc

from tonnage.extensions.placement import placement_allocations
from tonnage.extensions.placement.client import PlacementClient, PlacementRefused
from tonnage.extensions.placement.placement_allocations import AllocationChange
from tonnage.extensions.placement.resource_providers import ResourceProviders
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Number of volumes in a batch.
BATCH = 100

#: Attempts to write allocations that other processes change at the same time. A later round writes the rest.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """The number of volumes with unwritten allocations, the number of those done, and the seconds of the search."""

    pending: int = 0
    done: int = 0
    seconds: float = 0.0

    def add(self, other: "WriteProgress") -> "WriteProgress":
        """Return the sum of both."""
        return WriteProgress(self.pending + other.pending, self.done + other.done, self.seconds + other.seconds)


class AllocationWriter:
    """Writes the allocations of volumes to Placement. Several writers in several processes can run at the same time."""

    def __init__(self, database: Database, placement: PlacementClient) -> None:
        self._database = database
        self._placement = placement
        self.providers = ResourceProviders(database, placement)

    def write_all(self, stopped: Callable[[], bool] = lambda: False) -> WriteProgress:
        """Write the unwritten allocations of all volumes. Raises the same errors as :meth:`write_batches`."""
        written = WriteProgress()
        for progress in self.write_batches():
            written = written.add(progress)
            if stopped():
                break
        return written

    def write_batches(self, max_volumes: int | None = None) -> Iterator[WriteProgress]:
        """Write the unwritten allocations of at most ``max_volumes`` volumes, and yield the progress of each batch.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if Placement or the database does not answer, and
        :class:`~tonnage.extensions.placement.client.PlacementRefused` if a resource provider cannot be written.
        """
        remaining, after = max_volumes, ""
        while True:
            started = time.monotonic()
            with self._database.reading() as session:
                compared = placement_allocations.compare(session, after)
            yield WriteProgress(seconds=time.monotonic() - started)
            ids = compared.volume_ids[:remaining]
            for start in range(0, len(ids), BATCH):
                batch_ids = ids[start : start + BATCH]
                yield WriteProgress(len(batch_ids), self.write_batch(batch_ids))
            if remaining is not None:
                remaining -= len(ids)
            if compared.upto is None or remaining == 0:
                return
            after = compared.upto

    def write_batch(self, volume_ids: Sequence[str]) -> int:
        """Write the allocations of some volumes. Return the number of volumes for which this succeeded.

        Raises the same errors as :meth:`write_batches`.
        """
        name = str(uuid.uuid4())
        try:
            plan = self._database.run(placement_allocations.plan, volume_ids, name)
        except db_exc.DBDuplicateEntry:
            # Another writer has just inserted rows for the same new consumers.
            plan = self._database.run(placement_allocations.plan, volume_ids, name)
        written = self._write(plan, name)
        self._database.run(placement_allocations.record_sent, written, name)
        written_ids = {change.consumer_id for change in written}
        if refused := [change for change in plan if change.consumer_id not in written_ids]:
            self._database.run(placement_allocations.record_refused, refused, name)
        return len(volume_ids) - len({change.volume_id for change in refused})

    def _write(self, plan: Sequence[AllocationChange], name: str) -> list[AllocationChange]:
        """Write allocations in one call or, if Placement refuses this, one by one. Return the written ones."""
        if not plan:
            return []
        try:
            return self._write_together(plan, name)
        except PlacementRefused as error:
            LOG.info("Allocations of %d consumer(s) are written one by one: %s", len(plan), error.message)
        self.providers.clear_cache()
        # Deletions come first: they free capacity for other allocations.
        written: list[AllocationChange] = []
        for change in sorted(plan, key=lambda planned: planned.size_gb > 0):
            try:
                written += self._write_together([change], name)
            except PlacementRefused as error:
                LOG.warning("The allocation of volume %s is tried again later: %s", change.volume_id, error.message)
        return written

    def _write_together(self, allocations: Sequence[AllocationChange], name: str) -> list[AllocationChange]:
        growth_gb: dict[int, int] = {}
        for change in allocations:
            growth_gb[change.pool_id] = growth_gb.get(change.pool_id, 0) + max(0, change.size_gb - change.before_gb)
        ids = self.providers.ensure((allocation.pool_id for allocation in allocations if allocation.size_gb), growth_gb)
        # The next round handles allocations in pools that were removed meanwhile.
        allocations = [allocation for allocation in allocations if not allocation.size_gb or allocation.pool_id in ids]
        if not allocations:
            return []
        for last in (*[False] * (_ATTEMPTS - 1), True):
            try:
                self._placement.set_allocations(allocations, ids)
                break
            except PlacementRefused as error:
                if error.status != 409 or last:
                    raise
                now = self._with_current_generations(allocations)
                if [allocation.generation for allocation in now] == [
                    allocation.generation for allocation in allocations
                ]:
                    # The conflict is not about the generations of consumers.
                    raise
                # If another round has written the same consumers meanwhile, the sizes of this round are outdated.
                with self._database.reading() as session:
                    allocations = placement_allocations.current_changes(session, now, name)
                if not allocations:
                    return []
        return [replace(allocation, generation=_next_generation(allocation.generation)) for allocation in allocations]

    def _with_current_generations(self, allocations: Sequence[AllocationChange]) -> list[AllocationChange]:
        """Return the allocations with the current generations of their consumers in Placement."""
        now: Mapping[str, int | None] = {
            allocation.consumer_id: self._placement.generation(allocation.consumer_id) for allocation in allocations
        }
        return [replace(allocation, generation=now[allocation.consumer_id]) for allocation in allocations]


def _next_generation(generation: int | None) -> int:
    """Return a consumer's generation after its next change."""
    return 1 if generation is None else generation + 1
