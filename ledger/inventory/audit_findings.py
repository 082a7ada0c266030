# SPDX-License-Identifier: Apache-2.0
"""What drivers break of the definitions of what they report, kept so that every scheduler and command can tell it.

A row is there for as long as the breach is. Most installations have none.
"""

import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import chunks
from tonnage.ledger.db.database import storable_text

#: Most characters that are kept of a pool's name (one that is longer is none), and of a text.
_LONGEST_NAME = 255
_LONGEST_TEXT = 1000

#: What two decimals of a figure, and of a sum of listed sizes, can hide.
_PRECISION_GB = 0.011

#: The name of a pool within its backend, and what it breaks.
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """How a breach showed. ``once`` is the tick of the listing in which it did, if it is not sure yet."""

    text: str
    once: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A breach. ``backend`` is the full name, ``pool`` the name within it; the figures are of ``seen_at``."""

    backend: str
    pool: str
    breach: str
    seen: Seen
    seen_at: datetime.datetime

    @property
    def key(self) -> Key:
        """By what it is found again."""
        return self.pool, self.breach


@dataclass(frozen=True, slots=True)
class Settled:
    """What changed: what is sure and was not before, and what was and is there no more."""

    new: Collection[Key]
    mended: Collection[Key]


def stored_name(pool: str) -> str:
    """Return the name of a pool as it is kept here; a driver may report anything as one.

    MariaDB does not tell names apart by blanks at the end.
    """
    return storable_text(pool if pool.isprintable() else ascii(pool))[:_LONGEST_NAME].rstrip()


def load(session: orm.Session, backend: str | None = None) -> list[Found]:
    """Return all breaches, or those of one backend, in the order of their names; also those that are not sure yet."""
    table, owner = models.Finding, models.Backend
    statement = sa.select(table, owner.name).join(owner, owner.id == table.backend_id)
    if backend is not None:
        statement = statement.where(owner.name == backend)
    return [
        Found(backend=name, pool=row.pool, breach=row.breach, seen=Seen(row.text, row.once_seq), seen_at=row.seen_at)
        for row, name in session.execute(statement.order_by(owner.name, table.pool, table.breach))
    ]


def mark(session: orm.Session) -> tuple[object, ...]:
    """Return what is another value whenever what is known may be other than before."""
    table = models.Finding
    return tuple(session.execute(sa.select(sa.func.count(), sa.func.max(table.id), sa.func.max(table.seen_at))).one())


def settle(session: orm.Session, backend_id: int, found: Mapping[Key, Seen], judged: Callable[[Key], bool]) -> Settled:
    """Make the rows of a backend say what was found; of those that were not ``judged`` nothing is known.

    What was sure already keeps its text.
    """
    table = models.Finding
    rows = session.execute(
        sa.select(table.id, table.pool, table.breach, table.once_seq).where(table.backend_id == backend_id)
    )
    known = {(row.pool, row.breach): row for row in rows}
    gone = [key for key in known if key not in found and judged(key)]
    for some in chunks.cut(known[key].id for key in gone):
        session.execute(sa.delete(table).where(table.id.in_(some)).execution_options(synchronize_session=False))
    sure = [key for key in found if found[key].once is None]
    confirmed = sorted(key for key in sure if key in known and known[key].once_seq is not None)
    if confirmed:
        said = [{"of": known[key].id, "said": _text(found[key])} for key in confirmed]
        session.connection().execute(_CONFIRM, said)
    fresh = sorted(key for key in found if key not in known)
    if fresh:
        session.connection().execute(
            sa.insert(_TABLE).values(seen_at=models.utcnow()),
            [
                {
                    "backend_id": backend_id,
                    "pool": pool,
                    "breach": breach,
                    "text": _text(found[pool, breach]),
                    "once_seq": found[pool, breach].once,
                }
                for pool, breach in fresh
            ],
        )
    new = [key for key in fresh if found[key].once is None]
    return Settled([*confirmed, *new], [key for key in gone if known[key].once_seq is None])


def _text(seen: Seen) -> str:
    return storable_text(seen.text)[:_LONGEST_TEXT]


_TABLE = models.table(models.Finding)
_CONFIRM = (
    sa.update(_TABLE)
    .where(_TABLE.c.id == sa.bindparam("of"))
    .values(text=sa.bindparam("said"), once_seq=None, seen_at=models.utcnow())
)


def doubtful(session: orm.Session, backend_ids: Collection[int]) -> set[int]:
    """Return those of the backends of which some pool reports another provisioned capacity than it should have.

    That is at least what its claims add up to that its last report contains and what others have by the last listing
    besides; where nothing is in flight and no other backend has volumes there, it is no more. Often there is a good
    reason: only another listing can tell.
    """
    pool = models.Pool
    provisioned = pool.provisioned_capacity_gb
    contained = pool.allocated_capacity_gb + pool.shared_allocated_gb - pool.in_flight_gb - pool.shared_in_flight_gb
    alone = sa.or_(pool.storage_id.is_(None), pool.storage_free_gb.is_not(None))
    everything = pool.allocated_capacity_gb + pool.external_gb
    statement = sa.select(pool.backend_id).where(
        pool.present.is_(True),
        sa.or_(
            provisioned < contained + pool.external_gb - _PRECISION_GB,
            sa.and_(alone, pool.in_flight_gb == 0, provisioned > everything + _PRECISION_GB),
        ),
    )
    found: set[int] = set()
    for some in chunks.cut(backend_ids):
        found.update(session.scalars(statement.where(pool.backend_id.in_(some)).distinct()))
    return found
