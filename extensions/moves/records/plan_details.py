# SPDX-License-Identifier: Apache-2.0
"""The details of a recorded plan: the volumes that stay, the levels of its pools, and the answer to its request."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import type_conversion
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove, PoolChange, PoolLevel, StayingVolume
from tonnage.extensions.moves.records.tables import MovePlanLevel, MovePlanRow, MovePlanStaying, MoveStepRow
from tonnage.ledger.db import dialects


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLevels:
    """The levels of a pool before the moves of a plan, and after those of the plan as it was made last.

    ``after`` is None for a pool that the plan as it was made last does not use.
    """

    pool: str
    before: PoolLevel
    after: PoolLevel | None


#: Most volumes that stay which are recorded; the outcome of the plan has the number of all.
MOST_STAYING = 1000


def record(session: orm.Session, plan_id: str, plan: MovePlan) -> None:
    """Record the details of a plan in the place of those of its last generation. Its row is locked."""
    session.execute(
        sa.update(MovePlanRow)
        .where(MovePlanRow.id == plan_id)
        .values(outcome=plan.outcome, is_reached=plan.is_reached)
        .execution_options(synchronize_session=False)
    )
    session.execute(
        sa.delete(MovePlanStaying)
        .where(MovePlanStaying.plan_id == plan_id)
        .execution_options(synchronize_session=False)
    )
    session.add_all(
        MovePlanStaying(plan_id=plan_id, number=number, **asdict(volume))
        for number, volume in enumerate(plan.staying[:MOST_STAYING], start=1)
    )
    _record_levels(session, plan_id, plan.pools)
    session.flush()


def _record_levels(session: orm.Session, plan_id: str, changes: Iterable[PoolChange]) -> None:
    """Record the levels of pools; those before the plan stay those of the first generation that used the pool.

    Pools without a change have none after the plan any more: the moves of earlier generations may have been skipped.
    """
    row = MovePlanLevel
    session.execute(
        sa.update(row)
        .where(row.plan_id == plan_id)
        .values(level_after=sa.null())
        .execution_options(synchronize_session=False)
    )
    for chunk in dialects.in_chunks(changes):
        rows = {
            level.pool: level
            for level in session.scalars(
                sa.select(row)
                .where(row.plan_id == plan_id, row.pool.in_([change.pool for change in chunk]))
                .execution_options(populate_existing=True)
            )
        }
        for change in chunk:
            after = asdict(change.after)
            if change.pool in rows:
                rows[change.pool].level_after = after
            else:
                session.add(
                    row(plan_id=plan_id, pool=change.pool, level_before=asdict(change.before), level_after=after)
                )


def staying(session: orm.Session, plan_id: str) -> list[StayingVolume]:
    """Return the volumes that stay, at most :data:`MOST_STAYING` of them."""
    row = MovePlanStaying
    rows = session.scalars(sa.select(row).where(row.plan_id == plan_id).order_by(row.number))
    return [type_conversion.convert(volume, StayingVolume, from_attributes=True) for volume in rows]


def pools(session: orm.Session, plan_id: str) -> list[PoolLevels]:
    """Return the levels of the pools of a plan, by their names."""
    row = MovePlanLevel
    rows = session.scalars(sa.select(row).where(row.plan_id == plan_id).order_by(row.pool))
    return [
        PoolLevels(
            pool=level.pool,
            before=_level(level.level_before),
            after=None if level.level_after is None else _level(level.level_after),
        )
        for level in rows
    ]


def answer(session: orm.Session, plan_id: str) -> MovePlan | None:
    """Return a recorded plan as the answer to the request for it, which may come twice.

    The moves are those of the first answer. If the plan was made anew since, the outcome, the volumes that stay and the
    pools are those of the plan as it was made last. None if there is no plan, or one of an earlier release.
    """
    plan = session.get(MovePlanRow, plan_id)
    if plan is None or plan.outcome is None:
        return None
    row = MoveStepRow
    steps = session.scalars(
        sa.select(row)
        .where(row.plan_id == plan_id, row.generation == 1)
        .order_by(row.number)
        .options(orm.undefer_group("levels"))
    ).all()
    return MovePlan(
        goal=plan.summary,
        is_reached=bool(plan.is_reached),
        outcome=plan.outcome,
        moves=tuple(type_conversion.convert(step, PlannedMove, from_attributes=True) for step in steps),
        staying=tuple(staying(session, plan_id)),
        pools=tuple(
            PoolChange(pool=levels.pool, before=levels.before, after=levels.after)
            for levels in pools(session, plan_id)
            if levels.after is not None
        ),
    )


def _level(values: dict[str, Any] | None) -> PoolLevel:
    return type_conversion.convert(values, PoolLevel)
