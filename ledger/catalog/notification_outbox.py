# SPDX-License-Identifier: Apache-2.0
"""The outbox: what is to be announced, written with what gives rise to it and kept until somebody has taken it.

So it is announced at least once, whoever is killed when. Messages of a channel are sent in their order, by whichever
scheduler holds the channel's lease. One that has lost it meanwhile does no harm: its messages come twice, under the
same id.
"""

import collections
import datetime
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import chunks

#: Days for which nobody has tried to send the messages of a channel, after which it counts as removed.
_REMOVED_DAYS = 1


@dataclass(frozen=True, slots=True)
class Message:
    """What is announced. ``payload`` is JSON; ``id`` is the same however often it is sent."""

    id: str
    event_type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A pool that holds more than it should, by its id, and since when that is known."""

    pool_id: int
    since: datetime.datetime


def exceeded(session: orm.Session, backend_ids: Collection[int]) -> dict[str, Exceeded]:
    """Return the pools of backends that are known to hold more than they should, by name."""
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.name, pool.id, pool.exceeded_at).where(
            pool.backend_id.in_(backend_ids), pool.exceeded_at.is_not(None)
        )
    )
    return {name: Exceeded(pool_id, since) for name, pool_id, since in rows if since is not None}


def mark(session: orm.Session, *, exceeded: Collection[int], recovered: Collection[int]) -> None:
    """Note, by their ids, which pools hold too much from now on and which no longer. Their backends must be locked."""
    pool = models.Pool
    for pool_ids, since in ((exceeded, models.utcnow()), (recovered, None)):
        for some in chunks.cut(sorted(pool_ids)):
            session.execute(
                sa.update(pool)
                .where(pool.id.in_(some))
                .values(exceeded_at=since)
                .execution_options(synchronize_session=False)
            )


def put(session: orm.Session, channels: Sequence[str], messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Have messages, each an event type and a payload, sent on each channel, should this transaction be committed."""
    session.connection().execute(
        sa.insert(models.table(models.Announcement)),
        [
            {"message_id": str(uuid.uuid4()), "channel": channel, "event_type": event_type, "payload": payload}
            for event_type, payload in messages
            for channel in channels
        ],
    )


def waiting(session: orm.Session, channel: str, limit: int) -> list[Message]:
    """Return the messages of a channel that nobody has taken yet, the oldest first."""
    row = models.Announcement
    found = session.execute(
        sa.select(row.message_id, row.event_type, row.payload)
        .where(row.channel == channel)
        .order_by(row.id)
        .limit(limit)
    )
    return [Message(*each) for each in found]


def lease(session: orm.Session, channel: str, owner: str, seconds: float) -> bool:
    """Tell whether ``owner`` may send the messages of a channel for so many seconds from now on.

    Nobody else may then; whoever has the lease already is given a new one.
    """
    row = models.AnnouncementLease
    held = session.execute(
        sa.select(row.owner, row.term, row.leased_at, models.utcnow()).where(row.channel == channel)
    ).first()
    if held is None:
        try:
            with session.begin_nested():
                session.execute(sa.insert(row).values(channel=channel, owner=owner, term=1, leased_at=models.utcnow()))
        except db_exc.DBDuplicateEntry:  # another one at the same moment
            return False
        return True
    if held.owner != owner and (models.age(held[3], held.leased_at) or 0.0) <= seconds:
        return False
    taken = session.execute(
        sa.update(row)
        .where(row.channel == channel, row.term == held.term)
        .values(owner=owner, term=row.term + 1, leased_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    return bool(taken.rowcount)  # type: ignore[attr-defined]


def forget(session: orm.Session, message_ids: Collection[str]) -> None:
    """Forget messages that have been taken."""
    row = models.Announcement
    for some in chunks.cut(message_ids):
        session.execute(sa.delete(row).where(row.message_id.in_(some)).execution_options(synchronize_session=False))


def purge(session: orm.Session, days: int, channels: Collection[str]) -> Mapping[str, int]:
    """Forget what nobody takes, with all that is known of channels that were removed; return how many by channel.

    These are the messages that have waited for so many ``days``, and those of channels that are none of ``channels``
    and that no other scheduler has tried to send for a day. (One that has the channel tries every minute.)
    """
    row, held = models.Announcement, models.AnnouncementLease
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    removed = now - datetime.timedelta(days=_REMOVED_DAYS)
    used = {*channels, *session.scalars(sa.select(held.channel).where(held.leased_at >= removed))}
    unused = session.scalars(sa.select(row.channel).where(row.channel.not_in(used)).distinct()).all()
    gone = session.execute(
        sa.select(row.id, row.channel).where(
            sa.or_(
                row.created_at < now - datetime.timedelta(days=days),
                sa.and_(row.channel.in_(unused), row.created_at < removed),
            )
        )
    ).all()
    # By their ids: whoever writes messages meanwhile need not wait.
    for some in chunks.cut([row_id for row_id, _ in gone]):
        session.execute(sa.delete(row).where(row.id.in_(some)).execution_options(synchronize_session=False))
    session.execute(
        sa.delete(held)
        .where(held.channel.not_in(channels), held.leased_at < removed)
        .execution_options(synchronize_session=False)
    )
    return collections.Counter(channel for _, channel in gone)
