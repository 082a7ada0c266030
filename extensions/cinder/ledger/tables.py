# SPDX-License-Identifier: Apache-2.0
"""The record of the shadow beside Cinder's schedulers, and the volumes that move to grow there.

No other table refers to these.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text
from tonnage.ledger.models.free_text import FreeText


class CinderDecision(Base):
    """A decision of Cinder's scheduler with the verdict on it. ``pool`` is Cinder's pool, null for a refusal.

    ``tonnage_pool`` is Tonnage's pool. ``reason`` is Tonnage's refusal, or the reason why there is no verdict.
    """

    __tablename__ = "cinder_decisions"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    decided_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, index=True)
    verb: orm.Mapped[str] = orm.mapped_column(exact_text(32))
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    pool: orm.Mapped[str | None] = orm.mapped_column(exact_text(511))
    verdict: orm.Mapped[str] = orm.mapped_column(exact_text(32), index=True)
    tonnage_pool: orm.Mapped[str | None] = orm.mapped_column(exact_text(511))
    reason: orm.Mapped[str] = orm.mapped_column(FreeText())
    cinder_seconds: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    tonnage_seconds: orm.Mapped[float] = orm.mapped_column(sa.Double)


class CinderFinding(Base):
    """A finding of the shadow; it is open while ``ended_at`` is null. ``volumes`` are ids of volumes in Cinder."""

    __tablename__ = "cinder_findings"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    category: orm.Mapped[str] = orm.mapped_column(exact_text(32))
    subject: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    code: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    text: orm.Mapped[str] = orm.mapped_column(FreeText())
    numbers: orm.Mapped[dict[str, float]] = orm.mapped_column(Json)
    volumes: orm.Mapped[list[Any]] = orm.mapped_column(Json)
    found_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    ended_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class CinderGrowth(Base):
    """A volume of Cinder that moves to another pool to grow there, until that has ended.

    The ``id`` is that of its claim. ``owner`` is the scheduler that takes the next steps, ``renewed_at`` the time of
    its last sign of life, and ``changed_at`` that of the last change of ``state``. ``reservations`` are those of
    Cinder's quota driver.
    """

    __tablename__ = "cinder_growths"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    source: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    target: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    name_id: orm.Mapped[str] = orm.mapped_column(Uuid)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    new_size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    reservations: orm.Mapped[list[Any]] = orm.mapped_column(Json)
    state: orm.Mapped[str] = orm.mapped_column(exact_text(16))
    reason: orm.Mapped[str] = orm.mapped_column(FreeText())
    owner: orm.Mapped[str] = orm.mapped_column(Uuid)
    renewed_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    changed_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
