# SPDX-License-Identifier: Apache-2.0
"""The outbox of notifications: each is written in the transaction that causes it and kept until it has been sent.

So each notification is sent at least once, even if processes are killed. The messages of a channel are sent in order by
the scheduler that holds the channel's lease. A scheduler that has lost the lease without noticing does no harm: its
messages are sent twice, with the same id.
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

from tonnage.extensions.announcements import tables
from tonnage.ledger import models
from tonnage.ledger.db import dialects

#: Days without an attempt to send the messages of a channel after which the channel counts as removed.
_REMOVED_AFTER_DAYS = 1


@dataclass(frozen=True, slots=True)
class Message:
    """One notification. ``payload`` is JSON; ``id`` stays the same when it is sent again."""

    id: str
    event_type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The id of a pool that holds more than its limits, and the time at which that was found."""

    pool_id: int
    since: datetime.datetime


def exceeded(session: orm.Session, backend_ids: Collection[int]) -> dict[str, Exceeded]:
    """Return the pools of the backends that are marked as over their limits, by name."""
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.name, pool.id, pool.exceeded_at).where(
            pool.backend_id.in_(backend_ids), pool.exceeded_at.is_not(None)
        )
    )
    return {name: Exceeded(pool_id, since) for name, pool_id, since in rows if since is not None}


def set_exceeded(session: orm.Session, *, exceeded: Collection[int], recovered: Collection[int]) -> None:
    """Mark pools, given by id, as over their limits or as recovered. Their backends must be locked."""
    pool = models.Pool
    for pool_ids, since in ((exceeded, models.utcnow()), (recovered, None)):
        for chunk in dialects.in_chunks(sorted(pool_ids)):
            session.execute(
                sa.update(pool)
                .where(pool.id.in_(chunk))
                .values(exceeded_at=since)
                .execution_options(synchronize_session=False)
            )


def enqueue(session: orm.Session, channels: Sequence[str], messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Queue messages on each channel, to be sent once the transaction is committed.

    Each message is an event type and a payload.
    """
    session.connection().execute(
        sa.insert(models.table(tables.Announcement)),
        [
            {"message_id": str(uuid.uuid4()), "channel": channel, "event_type": event_type, "payload": payload}
            for event_type, payload in messages
            for channel in channels
        ],
    )


def load(session: orm.Session, channel: str, limit: int) -> list[Message]:
    """Return the oldest messages of a channel that have not been sent yet."""
    row = tables.Announcement
    rows = session.execute(
        sa.select(row.message_id, row.event_type, row.payload)
        .where(row.channel == channel)
        .order_by(row.id)
        .limit(limit)
    )
    return [Message(*fields) for fields in rows]


def take_lease(session: orm.Session, channel: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease of a channel for ``owner``; return whether ``owner`` may send its messages.

    The lease lasts the given seconds, and no other owner may send during that time.
    """
    row = tables.AnnouncementLease
    held = session.execute(
        sa.select(row.owner, row.term, row.leased_at, models.utcnow()).where(row.channel == channel)
    ).first()
    if held is None:
        try:
            with session.begin_nested():
                session.execute(sa.insert(row).values(channel=channel, owner=owner, term=1, leased_at=models.utcnow()))
        except db_exc.DBDuplicateEntry:  # another scheduler has just inserted it
            return False
        return True
    if held.owner != owner and (models.age(held[3], held.leased_at) or 0.0) <= seconds:
        return False
    result = session.execute(
        sa.update(row)
        .where(row.channel == channel, row.term == held.term)
        .values(owner=owner, term=row.term + 1, leased_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]


def delete(session: orm.Session, message_ids: Collection[str]) -> None:
    """Delete messages that have been sent."""
    row = tables.Announcement
    for chunk in dialects.in_chunks(message_ids):
        session.execute(sa.delete(row).where(row.message_id.in_(chunk)).execution_options(synchronize_session=False))


def purge(session: orm.Session, days: int, channels: Collection[str]) -> Mapping[str, int]:
    """Delete messages that stay unsent, and the leases of removed channels; return the number of messages by channel.

    A message is deleted after ``days`` days, or a day after its channel was removed: the channel is not in
    ``channels``, and no other scheduler has tried to send its messages for a day. (A scheduler with that channel tries
    every minute.)
    """
    row, held = tables.Announcement, tables.AnnouncementLease
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    removed_before = now - datetime.timedelta(days=_REMOVED_AFTER_DAYS)
    used_channels = {*channels, *session.scalars(sa.select(held.channel).where(held.leased_at >= removed_before))}
    unused_channels = session.scalars(sa.select(row.channel).where(row.channel.not_in(used_channels)).distinct()).all()
    expired = session.execute(
        sa.select(row.id, row.channel).where(
            sa.or_(
                row.created_at < now - datetime.timedelta(days=days),
                sa.and_(row.channel.in_(unused_channels), row.created_at < removed_before),
            )
        )
    ).all()
    # Deletes by id do not block transactions that insert messages meanwhile.
    for chunk in dialects.in_chunks([row_id for row_id, _ in expired]):
        session.execute(sa.delete(row).where(row.id.in_(chunk)).execution_options(synchronize_session=False))
    session.execute(
        sa.delete(held)
        .where(held.channel.not_in(channels), held.leased_at < removed_before)
        .execution_options(synchronize_session=False)
    )
    return collections.Counter(channel for _, channel in expired)
