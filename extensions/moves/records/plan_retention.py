# SPDX-License-Identifier: Apache-2.0
"""The end of the records of plans: sums of their steps when they have ended, and their deletion some time later."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.moves.records import tables
from tonnage.extensions.moves.records.tables import (
    MovePlanLevel,
    MovePlanPool,
    MovePlanRow,
    MovePlanStaying,
    MovePlanSum,
    MoveStepRow,
)
from tonnage.ledger import models
from tonnage.ledger.db import dialects

#: The tables with many rows for a plan, each with the column that is a key beside the id of the plan.
_DETAILS: tuple[tuple[Any, Any], ...] = (
    (MoveStepRow, MoveStepRow.number),
    (MovePlanStaying, MovePlanStaying.number),
    (MovePlanLevel, MovePlanLevel.pool),
)


def sum_up(session: orm.Session, plan_id: str, *states: str, name: str | None = None) -> None:
    """Record the number and the GiB of the steps of a plan by their states, of some states or of all.

    With ``name`` the sums are recorded under this name in the place of the state.
    """
    row = MoveStepRow
    state = row.state if name is None else sa.literal(name, MovePlanSum.state.type)
    sums = sa.select(row.plan_id, state, sa.func.count(), sa.func.sum(row.size_gb)).where(row.plan_id == plan_id)
    if states:
        sums = sums.where(row.state.in_(states))
    grouped = sums.group_by(row.plan_id) if name is not None else sums.group_by(row.plan_id, row.state)
    session.execute(sa.insert(MovePlanSum).from_select(["plan_id", "state", "moves", "size_gb"], grouped))


def purge(session: orm.Session, days: int, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete at most ``limit`` rows of plans that ended more than ``days`` days ago, and return their number.

    A plan goes after its steps; one of which a move has not ended stays.
    """
    before = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(days=days)
    plan = MovePlanRow
    holds_pools = sa.exists().where(MovePlanPool.plan_id == plan.id)
    expired = sa.select(plan.id).where(plan.ended_at < before, plan.state.not_in(tables.UNFINISHED), ~holds_pools)
    number = 0
    for plan_id in session.scalars(expired.order_by(plan.ended_at, plan.id).limit(limit)).all():
        for table, key in _DETAILS:
            number += _delete(session, table, key, plan_id, limit - number)
            if number >= limit:
                return number
        # The few sums go with their plan.
        session.execute(sa.delete(plan).where(plan.id == plan_id).execution_options(synchronize_session=False))
        number += 1
        if number >= limit:
            break
    return number


def _delete(session: orm.Session, table: Any, key: Any, plan_id: str, limit: int) -> int:
    keys = session.scalars(sa.select(key).where(table.plan_id == plan_id).order_by(key).limit(limit)).all()
    if keys:
        session.execute(
            sa.delete(table).where(table.plan_id == plan_id, key.in_(keys)).execution_options(synchronize_session=False)
        )
    return len(keys)
