# SPDX-License-Identifier: Apache-2.0
"""Tables of the plans that are carried out. Their rows stay as the record of all moves, with reasons and users."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow
from tonnage.ledger.models.free_text import FreeText

#: States of plans. The first two are unfinished: such a plan holds its pools.
RUNNING, PAUSED, STOPPED, FINISHED, FAILED = "running", "paused", "stopped", "finished", "failed"
UNFINISHED = (RUNNING, PAUSED)

#: States of steps. A step that was skipped has moved nothing, because it no longer held when its turn came.
WAITING, MOVING, MOVED, STEP_FAILED, SKIPPED = "waiting", "moving", "moved", "failed", "skipped"


class MovePlanRow(Base):
    """A plan that is carried out.

    ``goal`` is the name of the goal and ``arguments`` are its arguments, ``summary`` is the goal in words. ``limits``
    are the fields of :class:`~tonnage.extensions.moves.records.plan_limits.Limits`. ``generation`` is the number of
    times that the plan was made: its steps that wait are those of the last generation. ``message`` is the reason why
    the plan waits or has ended.

    ``progress_at`` is the time of the last progress: a volume was moved, or an administrator started or resumed the
    plan. A plan is made anew not before ``next_plan_at``. ``stalls`` is the number of generations in a row in which no
    volume was moved.
    """

    __tablename__ = "move_plans"
    __table_args__ = (sa.Index("ix_move_plans_created_at", "created_at", "id"),)

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    goal: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    arguments: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    summary: orm.Mapped[str] = orm.mapped_column(FreeText())
    limits: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    state: orm.Mapped[str] = orm.mapped_column(exact_text(8), index=True, default=RUNNING)
    message: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    generation: orm.Mapped[int] = orm.mapped_column(default=1)
    stalls: orm.Mapped[int] = orm.mapped_column(default=0)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    progress_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    next_plan_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    ended_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class MoveStepRow(Base):
    """One move of a plan. ``number`` counts the steps of all generations of the plan, from 1.

    ``after`` are the numbers of the steps that make room for it, ``reason`` is why the volume goes to that pool, and
    ``message`` why the step failed, was skipped, or waits.
    """

    __tablename__ = "move_steps"

    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    generation: orm.Mapped[int] = orm.mapped_column()
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    source: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    target: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    after: orm.Mapped[list[int]] = orm.mapped_column("after_steps", Json)
    reason: orm.Mapped[str] = orm.mapped_column(FreeText())
    state: orm.Mapped[str] = orm.mapped_column(exact_text(8), index=True, default=WAITING)
    message: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    started_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    ended_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class MovePlanPool(Base):
    """A pool that an unfinished plan uses. The key lets no other plan use it."""

    __tablename__ = "move_plan_pools"

    pool: orm.Mapped[str] = orm.mapped_column(exact_text(511), primary_key=True)
    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), index=True)
