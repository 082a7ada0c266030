# SPDX-License-Identifier: Apache-2.0
"""Tables of the notification outbox."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow


class Announcement(Base):
    """A notification that waits to be sent on one channel; its row is deleted once it has been sent.

    ``message_id`` stays the same when it is sent again.
    """

    __tablename__ = "announcements"
    __table_args__ = (sa.Index("ix_announcements_channel_id", "channel", "id"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    message_id: orm.Mapped[str] = orm.mapped_column(Uuid, unique=True)
    channel: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    event_type: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    payload: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class AnnouncementLease(Base):
    """The scheduler that sends the notifications of a channel, and since when; ``term`` grows with each lease."""

    __tablename__ = "announcement_leases"

    channel: orm.Mapped[str] = orm.mapped_column(exact_text(64), primary_key=True)
    owner: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    term: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    leased_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
