# SPDX-License-Identifier: Apache-2.0
"""What OpenStack Placement holds against what it has been told, and telling it again."""

import enum
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.ledger import allocations
from tonnage.ledger.allocations import PoolFigures
from tonnage.ledger.database import Database
from tonnage.placement.client import Placement
from tonnage.placement.providers import name_of
from tonnage.placement.writer import Writer

#: How many volumes are looked for at a time that Placement has still to be told of.
_AT_A_TIME = 1000


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
class Audit:
    """What differs, and of how many volumes Placement has still to be told, which is nothing wrong."""

    differences: Sequence[Difference]
    untold: int

    @property
    def drift(self) -> list[Difference]:
        """What is wrong."""
        return [one for one in self.differences if one.drift]


def check(database: Database, placement: Placement) -> Audit:
    """Ask Placement about each pool. Schedulers may go on: what they tell meanwhile is left out.

    Raises :class:`~tonnage.capacity.errors.Unavailable`.
    """
    with database.reading() as session:
        pools = allocations.pools(session)
    untold = sum(1 for _ in _untold(database))
    providers = placement.providers()
    found = [one for pool in pools for one in _compare(database, placement, providers.get(name_of(pool.name)), pool)]
    order = list(Cause)
    found.sort(key=lambda one: (order.index(one.cause), one.pool, one.consumer_id))
    return Audit(found, untold)


def sync(database: Database, placement: Placement) -> Audit:
    """Tell Placement again of what it has lost, and of all that it has still to be told; return what was found before.

    Raises :class:`~tonnage.capacity.errors.Unavailable`.
    """
    found = check(database, placement)
    database.run(allocations.distrust, [one.consumer_id for one in found.drift])
    writer, last = Writer(database, placement), ""
    while (done := writer.round(after=last)).found:
        last = done.last
    return found


def _untold(database: Database) -> Iterable[str]:
    last = ""
    while True:
        with database.reading() as session:
            some = allocations.differing(session, _AT_A_TIME, last)
        yield from some
        if len(some) < _AT_A_TIME:
            return
        last = some[-1]


def _compare(database: Database, placement: Placement, provider: str | None, pool: PoolFigures) -> list[Difference]:
    with database.reading() as session:
        before = allocations.load(session, pool.id)
    held = {} if provider is None else placement.holders(provider)
    with database.reading() as session:
        told = allocations.load(session, pool.id)
        ours = allocations.known(session, held)
    lost = [
        Difference(cause=Cause.LOST, pool=pool.name, consumer_id=consumer, told_gb=size, held_gb=held.get(consumer, 0))
        for consumer, size in told.items()
        if before.get(consumer) == size != held.get(consumer, 0)
    ]
    foreign = [
        Difference(cause=Cause.FOREIGN, pool=pool.name, consumer_id=consumer, told_gb=0, held_gb=size)
        for consumer, size in held.items()
        if consumer not in ours and consumer not in before
    ]
    return lost + foreign
