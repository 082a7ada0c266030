# SPDX-License-Identifier: Apache-2.0
"""What has to be told to others."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow


class Announcement(Base):
    """What is still to be announced on one channel; it goes when somebody has taken it.

    ``message_id`` stays the same however often it is sent.
    """

    __tablename__ = "announcements"
    __table_args__ = (sa.Index("ix_announcements_channel_id", "channel", "id"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    message_id: orm.Mapped[str] = orm.mapped_column(Uuid, unique=True)
    channel: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    payload: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class AnnouncementLease(Base):
    """Which scheduler sends the announcements of a channel, since when; ``term`` grows with each lease."""

    __tablename__ = "announcement_leases"

    channel: orm.Mapped[str] = orm.mapped_column(sa.String(64), primary_key=True)
    owner: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    term: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    leased_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
