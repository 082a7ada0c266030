# SPDX-License-Identifier: Apache-2.0
"""The rows of plans that are carried out: each function is a part of one transaction.

A transaction that changes a plan or its steps locks the row of the plan first. A transaction that starts steps locks
the rows of all unfinished plans, in the order of their ids, because the limits count the moves of all plans.
"""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove
from tonnage.extensions.moves.records import plan_details, plan_retention, tables
from tonnage.extensions.moves.records.plan_limits import Limits, Load, Slots
from tonnage.extensions.moves.records.tables import MovePlanPool, MovePlanRow, MoveStepRow
from tonnage.ledger import models
from tonnage.ledger.db import dialects, paging
from tonnage.ledger.db.database import StaleRead

#: Keys by which a list of plans is sorted, and keys that filter it.
SORT_KEYS: paging.SortKeys = {
    "id": lambda plan: plan.id,
    "created_at": lambda plan: plan.created_at,
    "state": lambda plan: plan.state,
}
FILTERS = frozenset({"goal", "state"})

_HOLD = dialects.insert_unless_known(models.table(MovePlanPool))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """A plan to carry out: its id, the goal, the limits, the mover, and the administrator who starts it."""

    id: str
    goal: str
    arguments: Mapping[str, Any]
    limits: Limits
    project_id: str = ""
    user_id: str = ""
    mover: str = ""
    mover_options: Mapping[str, Any] | None = None


def limits_of(plan: MovePlanRow) -> Limits:
    """Return the limits of a plan. A limit of a later release is left out."""
    names = asdict(Limits()).keys()
    return Limits(**{name: value for name, value in plan.limits.items() if name in names})


def insert(session: orm.Session, new_plan: NewPlan, plan: MovePlan) -> bool:
    """Record a plan, which runs from now on; return False if it has been recorded before.

    Raises :class:`~tonnage.capacity.errors.Conflict` if it shares a pool with an unfinished plan.
    """
    if session.get(MovePlanRow, new_plan.id) is not None:
        return False
    session.add(
        MovePlanRow(
            id=new_plan.id,
            goal=new_plan.goal,
            arguments=dict(new_plan.arguments),
            summary=plan.goal,
            limits=asdict(new_plan.limits),
            project_id=new_plan.project_id,
            user_id=new_plan.user_id,
            mover=new_plan.mover,
            mover_options=None if new_plan.mover_options is None else dict(new_plan.mover_options),
        )
    )
    session.flush()
    hold(session, new_plan.id, plan.used_pools)
    _insert_steps(session, new_plan.id, 1, 0, plan.moves)
    plan_details.record(session, new_plan.id, plan)
    return True


def hold(session: orm.Session, plan_id: str, pools: Collection[str]) -> None:
    """Let no other plan use pools until this one has ended.

    Raises :class:`~tonnage.capacity.errors.Conflict` if another unfinished plan uses one of them.
    """
    connection = session.connection()
    insert_pool = _HOLD[connection.dialect.name]
    # Sorted, so that two transactions do not wait for each other.
    for pool in sorted(pools):
        if connection.execute(insert_pool, {"pool": pool, "plan_id": plan_id}).rowcount:
            continue
        holder = session.execute(
            sa.select(MovePlanRow.id, MovePlanRow.summary, MovePlanRow.state)
            .join(MovePlanPool, MovePlanPool.plan_id == MovePlanRow.id)
            .where(MovePlanPool.pool == pool)
        ).one_or_none()
        if holder is None:
            raise StaleRead(f"pool {pool} was released meanwhile")
        if holder.id != plan_id:
            raise errors.Conflict(
                f"pool {pool} is used by plan {holder.id} ({holder.summary}), which is {holder.state}: wait for its "
                "end, or stop it"
            )


def held_by_others(session: orm.Session, plan_id: str) -> dict[str, str]:
    """Return the pools that other plans use, with the ids of these plans."""
    rows = session.execute(sa.select(MovePlanPool.pool, MovePlanPool.plan_id).where(MovePlanPool.plan_id != plan_id))
    return {row.pool: row.plan_id for row in rows}


def open_plans(session: orm.Session, mover: str = "") -> Sequence[MovePlanRow]:
    """Return the plans of a mover that hold pools: the unfinished ones, and those whose last moves have not ended."""
    statement = sa.select(MovePlanRow).where(MovePlanRow.mover == mover, MovePlanRow.id.in_(open_ids()))
    return session.scalars(statement.order_by(MovePlanRow.created_at, MovePlanRow.id)).all()


def open_ids() -> sa.CompoundSelect[tuple[str]]:
    """Return the statement for the ids of the plans that hold pools."""
    unfinished = sa.select(MovePlanRow.id).where(MovePlanRow.state.in_(tables.UNFINISHED))
    return sa.union(unfinished, sa.select(MovePlanPool.plan_id))


def get(session: orm.Session, plan_id: str) -> MovePlanRow:
    """Return a plan. Raises :class:`~tonnage.capacity.errors.NotFound`."""
    plan = session.get(MovePlanRow, plan_id)
    if plan is None:
        raise errors.NotFound(f"plan {plan_id} could not be found")
    return plan


def page(session: orm.Session, filters: Mapping[str, str], part: paging.Page) -> list[MovePlanRow]:
    """Return a page of plans with these values of columns that are in :data:`FILTERS`, the newest first.

    Raises :class:`~tonnage.capacity.errors.NotFound` if the marker is no plan.
    """
    if part.marker is not None:
        get(session, part.marker)
    statement = sa.select(MovePlanRow).where(*(getattr(MovePlanRow, key) == text for key, text in filters.items()))
    return list(session.scalars(paging.apply(statement, MovePlanRow, SORT_KEYS, part)))


def steps(
    session: orm.Session, plan_id: str, generation: int | None = None, *, with_levels: bool = False
) -> Sequence[MoveStepRow]:
    """Return the steps of a plan in their order, or those of one generation, with the levels of pools if needed."""
    statement = sa.select(MoveStepRow).where(MoveStepRow.plan_id == plan_id)
    if generation is not None:
        statement = statement.where(MoveStepRow.generation == generation)
    if with_levels:
        statement = statement.options(orm.undefer_group("levels"))
    return session.scalars(statement.order_by(MoveStepRow.number)).all()


def some_steps(session: orm.Session, plan_id: str, limit: int) -> Sequence[MoveStepRow]:
    """Return at most ``limit`` steps of a plan in their order, with the levels of pools.

    They are those that are moving, and in equal parts the next ones that wait and the last ones that have ended.
    """
    row = MoveStepRow
    statement = sa.select(row).where(row.plan_id == plan_id).options(orm.undefer_group("levels")).limit(limit)
    moving_now = session.scalars(statement.where(row.state == tables.MOVING).order_by(row.number)).all()
    next_steps = session.scalars(statement.where(row.state == tables.WAITING).order_by(row.number)).all()
    ended = session.scalars(
        statement.where(row.state.not_in((tables.MOVING, tables.WAITING))).order_by(
            row.ended_at.desc(), row.number.desc()
        )
    ).all()
    rest = limit - len(moving_now)
    waiting_count = max(rest - rest // 2, rest - len(ended))
    chosen = [*moving_now, *next_steps[:waiting_count]]
    return sorted([*chosen, *ended[: limit - len(chosen)]], key=lambda step: step.number)


def active_steps(session: orm.Session, plan_id: str) -> Sequence[MoveStepRow]:
    """Return the steps of a plan that are moving and those that have failed, in their order."""
    row = MoveStepRow
    active = row.state.in_((tables.MOVING, tables.STEP_FAILED))
    return session.scalars(sa.select(row).where(row.plan_id == plan_id, active).order_by(row.number)).all()


def waiting_loads(session: orm.Session, plan_id: str, generation: int) -> list[Load]:
    """Return the pairs of pools between which steps wait, each with the size of the smallest one."""
    row = MoveStepRow
    statement = sa.select(row.source, row.target, sa.func.min(row.size_gb)).where(
        row.plan_id == plan_id, row.generation == generation, row.state == tables.WAITING
    )
    return [Load(*pair) for pair in session.execute(statement.group_by(row.source, row.target))]


def waiting_steps(session: orm.Session, plan_id: str, generation: int, after: int, limit: int) -> Sequence[MoveStepRow]:
    """Return the next steps that wait: at most ``limit``, with numbers above ``after``, in their order."""
    row = MoveStepRow
    statement = sa.select(row).where(
        row.plan_id == plan_id, row.generation == generation, row.state == tables.WAITING, row.number > after
    )
    return session.scalars(statement.order_by(row.number).limit(limit)).all()


def numbered_steps(session: orm.Session, plan_id: str, numbers: Collection[int]) -> list[MoveStepRow]:
    """Return the steps of a plan with these numbers, in their order."""
    row = MoveStepRow
    rows: list[MoveStepRow] = []
    for chunk in dialects.in_chunks(sorted(set(numbers))):
        statement = sa.select(row).where(row.plan_id == plan_id, row.number.in_(chunk))
        rows += session.scalars(statement.order_by(row.number))
    return rows


def moving(session: orm.Session) -> list[Load]:
    """Return the moves of all plans that are under way."""
    rows = session.execute(
        sa.select(MoveStepRow.source, MoveStepRow.target, MoveStepRow.size_gb).where(MoveStepRow.state == tables.MOVING)
    )
    return [Load(*row) for row in rows]


def start(
    session: orm.Session,
    plan_id: str,
    numbers: Collection[int],
    volume_states: Mapping[int, Mapping[str, Any] | None] = MappingProxyType({}),
) -> list[MoveStepRow]:
    """Mark waiting steps as moving, as far as the limits allow, and return them.

    ``volume_states`` has the states of their volumes by their ``numbers``, where the mover needs them.
    Nothing is marked unless the plan is running. Of two schedulers that start a step, one marks it.
    """
    plans = session.scalars(
        sa.select(MovePlanRow)
        .where(MovePlanRow.state.in_(tables.UNFINISHED))
        .order_by(MovePlanRow.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    plan = next((row for row in plans if row.id == plan_id), None)
    if plan is None or plan.state != tables.RUNNING:
        return []
    slots = Slots(limits_of(plan), moving(session))
    rows = {step.number: step for step in numbered_steps(session, plan_id, numbers)}
    started = []
    for number in numbers:
        step = rows.get(number)
        if step is None or step.generation != plan.generation or step.state != tables.WAITING:
            continue
        if not slots.allow(load := Load(step.source, step.target, step.size_gb)):
            continue
        values = {"state": tables.MOVING, "message": None, "volume_state": volume_states.get(number)}
        if _set_step(session, step, tables.WAITING, started_at=models.utcnow(), **values):
            slots.take(load)
            orm.attributes.set_committed_value(step, "volume_state", values["volume_state"])
            started.append(step)
    return started


def note(session: orm.Session, plan_id: str, messages: Mapping[int, str]) -> None:
    """Record why steps wait."""
    for step in numbered_steps(session, plan_id, messages):
        _set_step(session, step, tables.WAITING, message=messages[step.number])


def end_step(session: orm.Session, plan_id: str, number: int, state: str, message: str | None) -> bool:
    """Record the end of a step that is moving; return False if another scheduler has done so."""
    _lock(session, plan_id)
    step = session.get_one(MoveStepRow, (plan_id, number), populate_existing=True)
    if not _set_step(session, step, tables.MOVING, state=state, message=message, ended_at=models.utcnow()):
        return False
    if state in (tables.MOVED, tables.STEP_FAILED):  # a copy ran until now; failures have a limit of their own
        _set_plan(session, plan_id, progress_at=models.utcnow())
    return True


def release(session: orm.Session, plan_id: str) -> MovePlanRow | None:
    """Let other plans use the pools of a plan that has ended and whose moves have ended too.

    Return the plan if this has released them, None if they are used or were released before.
    """
    plan = _lock(session, plan_id)
    is_moving = sa.exists().where(MoveStepRow.plan_id == plan_id, MoveStepRow.state == tables.MOVING)
    if plan.state in tables.UNFINISHED or session.scalar(sa.select(is_moving)):
        return None
    released = session.execute(sa.delete(MovePlanPool).where(MovePlanPool.plan_id == plan_id))
    if not released.rowcount:  # type: ignore[attr-defined]
        return None
    plan_retention.sum_up(session, plan_id)
    return plan


def end(session: orm.Session, plan_id: str, state: str, message: str) -> bool:
    """End a running plan: its waiting steps are skipped, its moves under way end. Return False if it does not run.

    Its pools are released by :func:`release`.
    """
    plan = _lock(session, plan_id)
    if plan.state != tables.RUNNING:
        return False
    _end(session, plan, state, message)
    return True


def pause(session: orm.Session, plan_id: str) -> None:
    """Start no further step of a plan. Raises :class:`~tonnage.capacity.errors.Conflict` if it has ended."""
    plan = _lock_unfinished(session, plan_id, "paused")
    plan.state, plan.message = tables.PAUSED, None


def resume(session: orm.Session, plan_id: str) -> None:
    """Go on with a paused plan. Raises :class:`~tonnage.capacity.errors.Conflict` if it has ended."""
    plan = _lock_unfinished(session, plan_id, "resumed")
    if plan.state == tables.PAUSED:
        plan.state = tables.RUNNING
        session.flush()
        _set_plan(session, plan_id, progress_at=models.utcnow(), next_plan_at=models.utcnow(), stalls=0)


def tell(session: orm.Session, plan_id: str, message: str | None) -> None:
    """Set the message of an unfinished plan: why it waits, or None."""
    if _lock(session, plan_id).state in tables.UNFINISHED:
        _set_plan(session, plan_id, message=message)


def stop(session: orm.Session, plan_id: str) -> None:
    """End a plan; its moves under way end as usual. A stopped plan stays so.

    Raises :class:`~tonnage.capacity.errors.Conflict` if it has ended otherwise.
    """
    plan = _lock(session, plan_id)
    if plan.state == tables.STOPPED:
        return
    plan = _lock_unfinished(session, plan_id, "stopped")
    _end(session, plan, tables.STOPPED, "stopped by an administrator")


def add_generation(
    session: orm.Session, plan_id: str, generation: int, new_plan: MovePlan, message: str, pause_s: float
) -> bool:
    """Replace the waiting steps of a running plan; return False if the plan does not run or was made anew already.

    ``generation`` is the present one. If no volume was moved in it, the next plan after this one is made after a pause
    of ``pause_s`` seconds. Raises :class:`~tonnage.capacity.errors.Conflict` if another plan uses one of the pools.
    """
    plan = _lock(session, plan_id)
    if plan.state != tables.RUNNING or plan.generation != generation:
        return False
    hold(session, plan_id, new_plan.used_pools)
    row = MoveStepRow
    has_moved = sa.exists().where(row.plan_id == plan_id, row.generation == generation, row.state == tables.MOVED)
    has_progress = bool(session.scalar(sa.select(has_moved)))
    _skip_waiting(session, plan_id, "the plan was made anew")
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    plan.generation = generation + 1
    plan.stalls = 0 if has_progress else plan.stalls + 1
    plan.message = message
    plan.next_plan_at = now if has_progress else now + datetime.timedelta(seconds=pause_s)
    session.flush()
    last = session.scalar(sa.select(sa.func.max(row.number)).where(row.plan_id == plan_id)) or 0
    _insert_steps(session, plan_id, generation + 1, last, new_plan.moves)
    plan_details.record(session, plan_id, new_plan)
    return True


def _insert_steps(session: orm.Session, plan_id: str, generation: int, last: int, moves: Sequence[PlannedMove]) -> None:
    """Insert steps. The numbers of the moves are counted on from ``last``."""
    session.add_all(
        MoveStepRow(
            plan_id=plan_id,
            number=last + move.number,
            generation=generation,
            volume_id=move.volume_id,
            size_gb=move.size_gb,
            source=move.source,
            target=move.target,
            after=[last + number for number in move.after],
            reason=move.reason,
            source_level=asdict(move.source_level),
            target_level=asdict(move.target_level),
        )
        for move in moves
    )
    session.flush()


def _lock(session: orm.Session, plan_id: str) -> MovePlanRow:
    plan = session.get(MovePlanRow, plan_id, with_for_update=True, populate_existing=True)
    if plan is None:
        raise errors.NotFound(f"plan {plan_id} could not be found")
    return plan


def _lock_unfinished(session: orm.Session, plan_id: str, action: str) -> MovePlanRow:
    plan = _lock(session, plan_id)
    if plan.state not in tables.UNFINISHED:
        raise errors.Conflict(f"plan {plan_id} is {plan.state}: only a running or paused plan can be {action}")
    return plan


def _end(session: orm.Session, plan: MovePlanRow, state: str, message: str) -> None:
    plan.state, plan.message = state, message
    session.flush()
    _set_plan(session, plan.id, ended_at=models.utcnow())
    if state != tables.FINISHED:
        plan_retention.sum_up(session, plan.id, tables.WAITING, name=tables.REMAINING)
    _skip_waiting(session, plan.id, f"the plan is {state}")


def _skip_waiting(session: orm.Session, plan_id: str, reason: str) -> None:
    """Skip the steps of a plan that wait; those that could not begin keep their own reason."""
    row = MoveStepRow
    session.execute(
        sa.update(row)
        .where(row.plan_id == plan_id, row.state == tables.WAITING)
        .values(state=tables.SKIPPED, message=sa.func.coalesce(row.message, reason), ended_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )


def _set_plan(session: orm.Session, plan_id: str, **values: Any) -> None:
    session.execute(
        sa.update(MovePlanRow)
        .where(MovePlanRow.id == plan_id)
        .values(**values)
        .execution_options(synchronize_session=False)
    )


def _set_step(session: orm.Session, step: MoveStepRow, state_before: str, **values: Any) -> bool:
    """Change a step that is in a state; return whether it was."""
    result = session.execute(
        sa.update(MoveStepRow)
        .where(
            MoveStepRow.plan_id == step.plan_id, MoveStepRow.number == step.number, MoveStepRow.state == state_before
        )
        .values(**values)
        .execution_options(synchronize_session=False)
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]
