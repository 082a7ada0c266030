# SPDX-License-Identifier: Apache-2.0
"""Comparison of the allocations in OpenStack Placement with the written ones, and repair of lost allocations."""

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tonnage.extensions.placement import placement_allocations
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.client import PlacementClient
from tonnage.extensions.placement.placement_allocations import PoolFigures
from tonnage.extensions.placement.resource_providers import provider_name
from tonnage.ledger.db.database import Database


class Cause(enum.StrEnum):
    """The cause of a difference."""

    #: Placement has lost the written allocation, or has a smaller one.
    LOST = "lost"
    #: The allocation in Placement belongs to a foreign consumer.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A consumer whose allocation in a pool's provider differs from the written one.

    ``told_gb`` is the written size in GiB, ``held_gb`` the size in Placement.
    """

    cause: Cause
    pool: str
    consumer_id: str
    told_gb: int
    held_gb: int

    @property
    def drift(self) -> bool:
        """Return whether the difference is an error."""
        return self.cause is Cause.LOST


@dataclass(frozen=True, slots=True)
class AllocationCheck:
    """The result of a check.

    ``pending`` is the number of volumes whose allocations are still to be written, which is not an error. ``refused``
    is the number of volumes whose allocations Placement refused during the repair.
    """

    differences: Sequence[Difference]
    pending: int
    refused: int = 0

    @property
    def drift(self) -> list[Difference]:
        """The differences that are errors."""
        return [difference for difference in self.differences if difference.drift]

    @property
    def has_drift(self) -> bool:
        """Whether an allocation is lost."""
        return bool(self.drift)

    @property
    def has_failed(self) -> bool:
        """Whether Placement refused an allocation during the repair."""
        return bool(self.refused)

    def differences_as_data(self) -> list[dict[str, Any]]:
        """Return the differences as rows of a table."""
        return [asdict(difference) for difference in self.differences]

    def as_data(self) -> dict[str, Any]:
        """Return the result as keys of the JSON of ``tonnage-manage quota check``."""
        return {"allocations": self.differences_as_data(), "untold": self.pending, "refused": self.refused}

    def summary(self, outcome: str) -> str:
        """Return a line about the allocations; ``outcome`` is a phrase about the fate of the lost ones."""
        if self.refused:
            outcome = f"lost; it refused {self.refused} of the repeated allocations, the log says why"
        verdict = f"{len(self.drift)} allocation(s) {outcome}" if self.drift else "it holds all that it was told"
        untold = f"; it has still to be told of {self.pending} volume(s)" if self.pending else ""
        return f"OpenStack Placement: {verdict}{untold}"


def check(database: Database, placement: PlacementClient, project_id: str | None = None) -> AllocationCheck:
    """Compare the allocations in each pool. Schedulers can run: allocations that they write meanwhile are left out.

    With a ``project_id`` only the lost allocations of this project are returned. Raises
    :class:`~tonnage.capacity.errors.Unavailable`.
    """
    with database.reading() as session:
        pools = placement_allocations.pools(session)
    pending = 0 if project_id is not None else _count_pending(database)
    providers = placement.providers()
    differences = [
        difference
        for pool in pools
        for difference in _compare_pool(database, placement, providers.get(provider_name(pool.name)), pool, project_id)
    ]
    order = list(Cause)
    differences.sort(key=lambda difference: (order.index(difference.cause), difference.pool, difference.consumer_id))
    return AllocationCheck(differences, pending)


def sync(database: Database, placement: PlacementClient, project_id: str | None = None) -> AllocationCheck:
    """Write lost and pending allocations to Placement. Return the result of the check before.

    Placement may refuse some of them, because foreign consumers use the capacity. Raises
    :class:`~tonnage.capacity.errors.Unavailable`.
    """
    result = check(database, placement, project_id)
    database.run(placement_allocations.mark_for_resend, [difference.consumer_id for difference in result.drift])
    progress = AllocationWriter(database, placement).write_all()
    return replace(result, refused=progress.pending - progress.done)


def _count_pending(database: Database) -> int:
    number, after = 0, ""
    while True:
        with database.reading() as session:
            compared = placement_allocations.compare(session, after)
        number += len(compared.volume_ids)
        if compared.upto is None:
            return number
        after = compared.upto


def _compare_pool(
    database: Database, placement: PlacementClient, provider: str | None, pool: PoolFigures, project_id: str | None
) -> list[Difference]:
    with database.reading() as session:
        before = placement_allocations.load(session, pool.id, project_id)
    if project_id is not None and not before:
        return []
    held = {} if provider is None else placement.allocations(provider)
    with database.reading() as session:
        written = placement_allocations.load(session, pool.id, project_id)
        ours = placement_allocations.sent_consumers(session, held)
    lost = [
        Difference(cause=Cause.LOST, pool=pool.name, consumer_id=consumer, told_gb=size, held_gb=held.get(consumer, 0))
        for consumer, size in written.items()
        if before.get(consumer) == size != held.get(consumer, 0)
    ]
    foreign = [
        Difference(cause=Cause.FOREIGN, pool=pool.name, consumer_id=consumer, told_gb=0, held_gb=size)
        for consumer, size in held.items()
        if project_id is None and consumer not in ours and consumer not in before
    ]
    return lost + foreign
