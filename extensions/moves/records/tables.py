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
STATES = (RUNNING, PAUSED, STOPPED, FINISHED, FAILED)

#: States of steps. A step that was skipped has moved nothing, because it no longer held when its turn came.
WAITING, MOVING, MOVED, STEP_FAILED, SKIPPED = "waiting", "moving", "moved", "failed", "skipped"

#: JSON of which a missing value is NULL, and not the text null.
_NullableJson = sa.JSON(none_as_null=True)

#: The name of the sum of the steps that had not begun when a plan ended without its goal. They are skipped ones too.
REMAINING = "left"


class MovePlanRow(Base):
    """A plan that is carried out.

    ``goal`` is the name of the goal and ``arguments`` are its arguments, ``summary`` is the goal in words. ``limits``
    are the fields of :class:`~tonnage.extensions.moves.records.plan_limits.Limits`. ``generation`` is the number of
    times that the plan was made: its steps that wait are those of the last generation. ``outcome`` and ``is_reached``
    are those of the plan when it was made last; None for a plan of an earlier release. ``message`` is the reason why
    the plan waits or has ended.

    ``progress_at`` is the time of the last progress: a move ended, also with a failure, or an administrator started or
    resumed the plan. A plan is made anew not before ``next_plan_at``. ``stalls`` is the number of generations in a row
    in which no volume was moved.

    ``mover`` is the name of the system that moves the volumes, empty for Tonnage's own schedulers, and
    ``mover_options`` are the options of the plan that this system takes.
    """

    __tablename__ = "move_plans"
    __table_args__ = (
        sa.Index("ix_move_plans_created_at", "created_at", "id"),
        sa.Index("ix_move_plans_ended_at", "ended_at"),
    )

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    goal: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    arguments: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    summary: orm.Mapped[str] = orm.mapped_column(FreeText())
    limits: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    state: orm.Mapped[str] = orm.mapped_column(exact_text(8), index=True, default=RUNNING)
    message: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    outcome: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    is_reached: orm.Mapped[bool | None] = orm.mapped_column()
    generation: orm.Mapped[int] = orm.mapped_column(default=1)
    stalls: orm.Mapped[int] = orm.mapped_column(default=0)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    progress_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    next_plan_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    ended_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    mover: orm.Mapped[str] = orm.mapped_column(exact_text(32), default="", server_default="")
    mover_options: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(_NullableJson)


class MoveStepRow(Base):
    """One move of a plan. ``number`` counts the steps of all generations of the plan, from 1.

    ``after`` are the numbers of the steps that make room for it, ``reason`` is why the volume goes to that pool, and
    ``message`` why the step failed, was skipped, or waits. ``source_level`` and ``target_level`` are the fields of the
    planned :class:`~tonnage.extensions.moves.planning.plan.PoolLevel` of both pools when the move has ended, None for a
    plan of an earlier release. They are loaded on demand alone.

    ``volume_state`` is the state of the volume when the step began, if its mover needs that.
    """

    __tablename__ = "move_steps"
    __table_args__ = (
        sa.Index("ix_move_steps_state", "state"),
        sa.Index("ix_move_steps_ended_at", "state", "ended_at"),
    )

    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    generation: orm.Mapped[int] = orm.mapped_column()
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    source: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    target: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    after: orm.Mapped[list[int]] = orm.mapped_column("after_steps", Json)
    reason: orm.Mapped[str] = orm.mapped_column(FreeText())
    source_level: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(
        _NullableJson, deferred=True, deferred_group="levels"
    )
    target_level: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(
        _NullableJson, deferred=True, deferred_group="levels"
    )
    state: orm.Mapped[str] = orm.mapped_column(exact_text(8), default=WAITING)
    message: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    started_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    ended_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    volume_state: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(_NullableJson)


class MovePlanPool(Base):
    """A pool that an unfinished plan uses. The key lets no other plan use it."""

    __tablename__ = "move_plan_pools"

    pool: orm.Mapped[str] = orm.mapped_column(exact_text(511), primary_key=True)
    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), index=True)


class MovePlanStaying(Base):
    """A volume that stays in its pool for the ``reason``, by the plan when it was made last."""

    __tablename__ = "move_plan_staying"

    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    pool: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    reason: orm.Mapped[str] = orm.mapped_column(FreeText())


class MovePlanLevel(Base):
    """The levels of a pool of a plan: when the plan first used it, and when the plan as it was made last has ended.

    Both are the fields of a :class:`~tonnage.extensions.moves.planning.plan.PoolLevel`. ``level_after`` is None for a
    pool that the plan as it was made last does not use.
    """

    __tablename__ = "move_plan_levels"

    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), primary_key=True)
    pool: orm.Mapped[str] = orm.mapped_column(exact_text(511), primary_key=True)
    level_before: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    level_after: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(_NullableJson)


class MovePlanSum(Base):
    """The number and the GiB of the steps of an ended plan that are in a ``state``, so that nobody counts them again.

    The sum of the ``state`` :data:`REMAINING` is recorded when the plan ends, the others when its last move has ended.
    """

    __tablename__ = "move_plan_sums"

    plan_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(MovePlanRow.id, ondelete="CASCADE"), primary_key=True)
    state: orm.Mapped[str] = orm.mapped_column(exact_text(8), primary_key=True)
    moves: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
