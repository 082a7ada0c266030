# SPDX-License-Identifier: Apache-2.0
"""Limits of projects, and their usage."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text


class QuotaLimit(Base):
    """A limit that was set for a project or one of its users (``holder`` is ``project``), or for a class of projects.

    ``volume_type_id`` and ``user_id`` are empty for a limit on all. -1 is no limit, and overrides other limits as well.
    """

    __tablename__ = "quota_limits"

    holder: orm.Mapped[str] = orm.mapped_column(exact_text(8), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True, default="")
    resource: orm.Mapped[str] = orm.mapped_column(exact_text(32), primary_key=True)
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="", index=True)
    hard_limit: orm.Mapped[int] = orm.mapped_column(sa.Integer)


class QuotaUsage(Base):
    """A usage counter of a project, or in it of one user or one volume type (empty: all).

    The volumes are the truth. A counter grows with each booking and is never lowered by the end of a volume, so it is
    never below the real usage. It is recounted once a minute if used, and before it causes a refusal. ``counted_at`` is
    the time of the last recount, null while the counter must not be trusted. Scopes without a limit have no counter.
    """

    __tablename__ = "quota_usages"

    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True, default="")
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="")
    volumes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    gigabytes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    counted_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
