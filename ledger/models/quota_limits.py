# SPDX-License-Identifier: Apache-2.0
"""Limits of projects, what they use, and what Placement is told of it."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text


class QuotaLimit(Base):
    """A limit that was set: for a project or in it for one user (``holder`` is ``project``), or for a class of them.

    ``volume_type_id`` and ``user_id`` are empty where it is for all. -1 is no limit, which wins over other limits too.
    """

    __tablename__ = "quota_limits"

    holder: orm.Mapped[str] = orm.mapped_column(sa.String(8), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True, default="")
    resource: orm.Mapped[str] = orm.mapped_column(sa.String(32), primary_key=True)
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="", index=True)
    hard_limit: orm.Mapped[int] = orm.mapped_column(sa.Integer)


class QuotaUsage(Base):
    """A counter of what a project has, or in it one user or of one volume type (empty: all of them).

    The volumes are the truth. A counter grows with what is booked and never falls by itself, so it is never less than
    the truth; where it would turn somebody away, and now and then, it is counted anew. ``counted_at`` is when, null
    where it must not be believed. Nothing is kept for what has no limit.
    """

    __tablename__ = "quota_usages"

    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True, default="")
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="")
    volumes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    gigabytes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    counted_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class Allocation(Base):
    """What OpenStack Placement has been told of a volume in one pool, under the name of a consumer.

    ``kind`` is its type there. ``generation`` counts its changes; null for one that Placement does not have yet.
    ``doubt`` names the round that is telling it anew: as long as that is not known to have ended, either size may be
    there. Pools may go before what was told of them is taken back.
    """

    __tablename__ = "placement_allocations"

    consumer_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.Integer, index=True)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), index=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    generation: orm.Mapped[int | None] = orm.mapped_column(sa.Integer)
    doubt: orm.Mapped[str | None] = orm.mapped_column(sa.String(36))
