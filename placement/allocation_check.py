# SPDX-License-Identifier: Apache-2.0
"""What OpenStack Placement holds against what it has been told, and telling it again."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.catalog.placement_allocations import PoolFigures
from tonnage.ledger.db.database import Database
from tonnage.placement.allocation_writer import Writer
from tonnage.placement.client import Placement
from tonnage.placement.resource_providers import name_of


class Cause(enum.StrEnum):
    """Why Placement's figure is another one."""

    #: Placement was told of it, and does not hold it, or not as much.
    LOST = "lost"
    #: Placement holds it for somebody else.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A consumer that holds something else in a pool than Placement was told. Sizes are GiB."""

    cause: Cause
    pool: str
    consumer_id: str
    told_gb: int
    held_gb: int

    @property
    def drift(self) -> bool:
        """Tell whether this is something wrong."""
        return self.cause is Cause.LOST


@dataclass(frozen=True, slots=True)
class Checked:
    """What differs, and of how many volumes Placement has still to be told, which is nothing wrong.

    ``refused`` is of how many it did not take what it was told when it was told again.
    """

    differences: Sequence[Difference]
    untold: int
    refused: int = 0

    @property
    def drift(self) -> list[Difference]:
        """What is wrong."""
        return [one for one in self.differences if one.drift]


def check(database: Database, placement: Placement, project_id: str | None = None) -> Checked:
    """Ask Placement about each pool. Schedulers may go on: what they tell meanwhile is left out.

    Of one project, it is looked for what is wrong alone. Raises :class:`~tonnage.capacity.errors.Unavailable`.
    """
    with database.reading() as session:
        pools = placement_allocations.pools(session)
    untold = 0 if project_id is not None else _untold(database)
    providers = placement.providers()
    found = [
        one
        for pool in pools
        for one in _compare(database, placement, providers.get(name_of(pool.name)), pool, project_id)
    ]
    order = list(Cause)
    found.sort(key=lambda one: (order.index(one.cause), one.pool, one.consumer_id))
    return Checked(found, untold)


def sync(database: Database, placement: Placement, project_id: str | None = None) -> Checked:
    """Tell Placement again of what it has lost, and of all that it has still to be told; return what was found before.

    It may refuse some: where somebody else has taken the room. Raises :class:`~tonnage.capacity.errors.Unavailable`.
    """
    found = check(database, placement, project_id)
    database.run(placement_allocations.distrust, [one.consumer_id for one in found.drift])
    told = Writer(database, placement).tell()
    return replace(found, refused=told.found - told.done)


def _untold(database: Database) -> int:
    number, after = 0, ""
    while True:
        with database.reading() as session:
            compared = placement_allocations.compare(session, after)
        number += len(compared.volume_ids)
        if compared.upto is None:
            return number
        after = compared.upto


def _compare(
    database: Database, placement: Placement, provider: str | None, pool: PoolFigures, project_id: str | None
) -> list[Difference]:
    with database.reading() as session:
        before = placement_allocations.load(session, pool.id, project_id)
    if project_id is not None and not before:
        return []
    held = {} if provider is None else placement.holders(provider)
    with database.reading() as session:
        told = placement_allocations.load(session, pool.id, project_id)
        ours = placement_allocations.known(session, held)
    lost = [
        Difference(cause=Cause.LOST, pool=pool.name, consumer_id=consumer, told_gb=size, held_gb=held.get(consumer, 0))
        for consumer, size in told.items()
        if before.get(consumer) == size != held.get(consumer, 0)
    ]
    foreign = [
        Difference(cause=Cause.FOREIGN, pool=pool.name, consumer_id=consumer, told_gb=0, held_gb=size)
        for consumer, size in held.items()
        if project_id is None and consumer not in ours and consumer not in before
    ]
    return lost + foreign
