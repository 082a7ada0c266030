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

    ``seconds_left`` is the estimate for the moves of a running plan that have not ended; None without a move that has.
    """

    amounts: Mapping[str, Amount]
    seconds_left: float | None = None

    def of(self, *states: str) -> Amount:
        """Return the moves in any of some states."""
        chosen = [self.amounts.get(state, Amount()) for state in states]
        return Amount(sum(amount.moves for amount in chosen), sum(amount.size_gb for amount in chosen))


def load(session: orm.Session, plans: Collection[MovePlanRow]) -> dict[str, Progress]:
    """Return the progress of plans by their ids, with the time left of those that are running."""
    amounts = _recorded_sums(session, [plan.id for plan in plans if plan.state not in tables.UNFINISHED])
    row = MoveStepRow
    for chunk in dialects.in_chunks([plan.id for plan in plans if not amounts[plan.id].keys() - {tables.REMAINING}]):
        statement = sa.select(row.plan_id, row.state, sa.func.count(), sa.func.sum(row.size_gb))
        for plan_id, state, count, size in session.execute(
            statement.where(row.plan_id.in_(chunk)).group_by(row.plan_id, row.state)
        ):
            amounts[plan_id][state] = Amount(int(count), int(size))
    running = {plan.id: plan_records.limits_of(plan) for plan in plans if plan.state == tables.RUNNING}
    times = _seconds_left(session, running) if running else {}
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
    duration = None
    for move in moves:
        load = Load(move.source, move.target, move.size_gb)
        seconds = rates.seconds(load, same_backends=True)
        if seconds is None:
            return None
        duration = duration or _Duration(limits)
        duration.add(load, seconds)
        duration.follow(move.number, seconds, move.after)
    return None if duration is None else duration.seconds


class _Duration:
    """The time of moves within limits. Hours of the day do not count.

    ``longest`` are the seconds of the longest move, or of moves that wait for each other.
    """

    def __init__(self, limits: Limits) -> None:
        self.longest = 0.0
        self._limits, self._total = limits, 0.0
        self._per_backend: dict[str, float] = defaultdict(float)
        self._ends: dict[int, float] = {}

    def add(self, load: Load, seconds: float) -> None:
        """Count the time of a move, or of several between the same pools."""
        self._total += seconds
        for backend in {backend_of(load.source), backend_of(load.target)}:
            self._per_backend[backend] += seconds

    def follow(self, number: int, seconds: float, after: Iterable[int]) -> None:
        """Let a move begin when those with the numbers in ``after`` have ended, which were named before it."""
        self._ends[number] = seconds + max((self._ends.get(earlier, 0.0) for earlier in after), default=0.0)
        self.longest = max(self.longest, self._ends[number])

    @property
    def seconds(self) -> float:
        """The longest of these times: of the busiest backend, of all moves, and of moves that wait for each other.

        Each of the first two goes through the number of moves at a time.
        """
        return max(
            self._total / self._limits.moves,
            max(self._per_backend.values(), default=0.0) / self._limits.moves_per_backend,
            self.longest,
        )


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
    times: dict[str, float | None] = {}
    for chunk in dialects.in_chunks(plans):
        remaining = _remaining(session, chunk, now)
        times.update({plan_id: _time_left(remaining[plan_id], rates, plans[plan_id]) for plan_id in chunk})
    return times


class _Remaining:
    """The steps of a plan that wait or are moving: most of them as sums, because a plan may have thousands.

    ``sums`` has the GiB of the steps that wait for no other one by their pools, and those of the largest one. ``steps``
    are the others, those that they wait for, and those that are moving, each with the seconds since its begin. A step
    in both counts in ``sums`` alone.
    """

    def __init__(self) -> None:
        self.sums: list[tuple[Load, int]] = []
        self.steps: dict[int, tuple[Load, Sequence[int], float, bool]] = {}


def _remaining(session: orm.Session, plan_ids: Sequence[str], now: datetime.datetime) -> Mapping[str, _Remaining]:
    """Return the steps of plans that have not ended."""
    row = MoveStepRow
    plans: dict[str, _Remaining] = defaultdict(_Remaining)
    waits_for_none = sa.cast(row.after, sa.Text) == "[]"
    waiting = sa.and_(row.plan_id.in_(plan_ids), row.state == tables.WAITING)
    sums = sa.select(row.plan_id, row.source, row.target, sa.func.max(row.size_gb), sa.func.sum(row.size_gb))
    for plan_id, source, target, largest, total in session.execute(
        sums.where(waiting, waits_for_none).group_by(row.plan_id, row.source, row.target)
    ):
        plans[plan_id].sums.append((Load(source, target, largest), int(total)))
    columns = sa.select(row.plan_id, row.number, row.source, row.target, row.size_gb, row.after, row.started_at)
    single = columns.where(
        row.plan_id.in_(plan_ids),
        sa.or_(row.state == tables.MOVING, sa.and_(row.state == tables.WAITING, ~waits_for_none)),
    )
    for plan_id, number, source, target, size, after, started_at in session.execute(single):
        age = models.age(now, started_at) or 0.0
        plans[plan_id].steps[number] = Load(source, target, size), after, age, False
    for plan_id, plan in plans.items():
        earlier = {number for _, after, _, _ in plan.steps.values() for number in after} - plan.steps.keys()
        for chunk in dialects.in_chunks(sorted(earlier)):
            statement = columns.where(row.plan_id == plan_id, row.state == tables.WAITING, row.number.in_(chunk))
            for _, number, source, target, size, after, _ in session.execute(statement):
                plan.steps[number] = Load(source, target, size), after, 0.0, True
    return plans


def _time_left(remaining: _Remaining, rates: _Rates, limits: Limits) -> float | None:
    """Return the time of the steps of a plan that have not ended; None without an earlier move."""
    duration = _Duration(limits)
    for load, total_gb in remaining.sums:
        longest = rates.seconds(load)
        if longest is None:
            return None
        duration.add(load, longest * total_gb / load.size_gb)
        duration.longest = max(duration.longest, longest)
    for number, (load, after, age, is_in_sums) in sorted(remaining.steps.items()):
        seconds = rates.seconds(load)
        if seconds is None:
            return None
        seconds = max(0.0, seconds - age)
        if not is_in_sums:
            duration.add(load, seconds)
        duration.follow(number, seconds, after)
    return duration.seconds
