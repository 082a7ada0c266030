# SPDX-License-Identifier: Apache-2.0
"""The progress of plans that are carried out, and the time that moves take."""

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.moves.planning.plan import PlannedMove
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits, Load
from tonnage.extensions.moves.records.tables import MovePlanRow, MovePlanSum, MoveStepRow
from tonnage.ledger import models
from tonnage.ledger.db import dialects

#: Most moves whose times are taken for an estimate, the last ones.
_MOST_MOVES = 1000


class Amount(NamedTuple):
    """A number of moves, and the sum of their GiB."""

    moves: int = 0
    size_gb: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The moves of a plan by the states of their steps, and those that were left when it ended without its goal.

    ``seconds_left`` is the estimate for the moves that have not ended; None without a move that has.
    """

    amounts: Mapping[str, Amount]
    seconds_left: float | None = None

    def of(self, *states: str) -> Amount:
        """Return the moves in any of some states."""
        chosen = [self.amounts.get(state, Amount()) for state in states]
        return Amount(sum(amount.moves for amount in chosen), sum(amount.size_gb for amount in chosen))


def load(session: orm.Session, plans: Collection[MovePlanRow]) -> dict[str, Progress]:
    """Return the progress of plans by their ids, with the time left of those that are unfinished."""
    amounts = _recorded_sums(session, [plan.id for plan in plans if plan.state not in tables.UNFINISHED])
    row = MoveStepRow
    for chunk in dialects.in_chunks([plan.id for plan in plans if not amounts[plan.id].keys() - {tables.REMAINING}]):
        statement = sa.select(row.plan_id, row.state, sa.func.count(), sa.func.sum(row.size_gb))
        for plan_id, state, count, size in session.execute(
            statement.where(row.plan_id.in_(chunk)).group_by(row.plan_id, row.state)
        ):
            amounts[plan_id][state] = Amount(int(count), int(size))
    unfinished = {plan.id: plan_records.limits_of(plan) for plan in plans if plan.state in tables.UNFINISHED}
    times = _seconds_left(session, unfinished) if unfinished else {}
    return {plan.id: Progress(amounts=amounts[plan.id], seconds_left=times.get(plan.id)) for plan in plans}


def sums(session: orm.Session) -> Mapping[str, Amount]:
    """Return the moves of all plans by the states of their steps, none for a state without any.

    Only the steps of plans that have not ended are counted. The sums of the others were recorded at their end.
    """
    step, ended = MoveStepRow, MovePlanSum
    totals: dict[str, Amount] = defaultdict(Amount)
    open_steps = (
        sa.select(step.state, sa.func.count(), sa.func.sum(step.size_gb))
        .where(step.plan_id.in_(plan_records.open_ids()))
        .group_by(step.state)
    )
    recorded = (
        sa.select(ended.state, sa.func.sum(ended.moves), sa.func.sum(ended.size_gb))
        .where(ended.state != tables.REMAINING)
        .group_by(ended.state)
    )
    for statement in (open_steps, recorded):
        for state, count, size_gb in session.execute(statement):
            before = totals[state]
            totals[state] = Amount(before.moves + int(count), before.size_gb + int(size_gb))
    return totals


def _recorded_sums(session: orm.Session, plan_ids: Iterable[str]) -> dict[str, dict[str, Amount]]:
    """Return the sums that were recorded of ended plans, by the plans and the states."""
    row = MovePlanSum
    amounts: dict[str, dict[str, Amount]] = defaultdict(dict)
    for chunk in dialects.in_chunks(plan_ids):
        for recorded in session.scalars(sa.select(row).where(row.plan_id.in_(chunk))):
            amounts[recorded.plan_id][recorded.state] = Amount(recorded.moves, recorded.size_gb)
    return amounts


def estimate(session: orm.Session, moves: Iterable[PlannedMove], limits: Limits) -> float | None:
    """Return the seconds that moves take within limits, by earlier moves between the same backends.

    Return None without moves, or if nothing was moved before between the backends of one of them.
    """
    rates = _Rates(session)
    timed = []
    for move in moves:
        load = Load(move.source, move.target, move.size_gb)
        seconds = rates.seconds(load, same_backends=True)
        if seconds is None:
            return None
        timed.append(_TimedMove(move.number, load, move.after, seconds))
    return _time_of(timed, limits) if timed else None


class _TimedMove(NamedTuple):
    """A move that takes so many seconds. It begins when those with the numbers in ``after`` have ended."""

    number: int
    load: Load
    after: Sequence[int]
    seconds: float


class _Rates:
    """The seconds that a GiB took in earlier moves, between two backends and between any."""

    def __init__(self, session: orm.Session) -> None:
        row = MoveStepRow
        self._sums: dict[tuple[str, str] | None, tuple[float, int]] = {}
        ended = sa.select(row.source, row.target, row.size_gb, row.started_at, row.ended_at).where(
            row.state == tables.MOVED, row.started_at.is_not(None)
        )
        for source, target, size, started_at, ended_at in session.execute(
            ended.order_by(row.ended_at.desc()).limit(_MOST_MOVES)
        ):
            seconds = 0.0 if ended_at is None else models.age(ended_at, started_at) or 0.0
            for key in ((backend_of(source), backend_of(target)), None):
                before = self._sums.get(key, (0.0, 0))
                self._sums[key] = before[0] + seconds, before[1] + size

    def seconds(self, load: Load, *, same_backends: bool = False) -> float | None:
        """Return the seconds that a move takes; None without an earlier one.

        Without one between the same backends those between others count, unless ``same_backends`` is true.
        """
        sums = self._sums.get((backend_of(load.source), backend_of(load.target)))
        if sums is None and not same_backends:
            sums = self._sums.get(None)
        seconds, copied_gb = sums or (0.0, 0)
        return seconds * load.size_gb / copied_gb if copied_gb else None


def _seconds_left(session: orm.Session, plans: Mapping[str, Limits]) -> dict[str, float | None]:
    """Return the estimates for plans, by their limits."""
    rates = _Rates(session)
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    row = MoveStepRow
    steps: dict[str, list[MoveStepRow]] = {plan_id: [] for plan_id in plans}
    for chunk in dialects.in_chunks(plans):
        remaining = sa.select(row).where(row.plan_id.in_(chunk), row.state.in_((tables.WAITING, tables.MOVING)))
        for step in session.scalars(remaining.order_by(row.plan_id, row.number)):
            steps[step.plan_id].append(step)
    return {plan_id: _time_left(steps[plan_id], rates, limits, now) for plan_id, limits in plans.items()}


def _time_left(steps: Iterable[MoveStepRow], rates: _Rates, limits: Limits, now: datetime.datetime) -> float | None:
    """Return the time of steps that wait or are moving, in the order of their numbers; None without an earlier move."""
    timed = []
    for step in steps:
        load = Load(step.source, step.target, step.size_gb)
        seconds = rates.seconds(load)
        if seconds is None:
            return None
        if step.state == tables.MOVING:
            seconds = max(0.0, seconds - (models.age(now, step.started_at) or 0.0))
        timed.append(_TimedMove(step.number, load, step.after, seconds))
    return _time_of(timed, limits)


def _time_of(moves: Iterable[_TimedMove], limits: Limits) -> float:
    """Return the longest of these times: of the busiest backend, of all moves, and of moves that wait for each other.

    Each of the first two goes through the number of moves at a time. Hours of the day do not count.
    """
    total, per_backend, ends = 0.0, defaultdict[str, float](float), dict[int, float]()
    for number, load, after, seconds in moves:
        total += seconds
        for backend in {backend_of(load.source), backend_of(load.target)}:
            per_backend[backend] += seconds
        ends[number] = seconds + max((ends.get(earlier, 0.0) for earlier in after), default=0.0)
    return max(
        total / limits.moves,
        max(per_backend.values(), default=0.0) / limits.moves_per_backend,
        max(ends.values(), default=0.0),
    )
