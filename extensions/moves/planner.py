# SPDX-License-Identifier: Apache-2.0
"""The planner: it answers questions for plans, on a copy of the pools, without any effect."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tonnage.capacity import errors
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.scheduler.requests.pool_selection import set_volume_numbers
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecasts, PoolGrowth
from tonnage.scheduler.simulation.simulator import DecisionSnapshots

#: The argument of a plan that keeps room for the forecasts of pools.
KEEP_FORECAST = "keep_forecast"

#: Most pools without a forecast that an outcome names.
_MOST_POOLS = 5

#: Seconds until the forecasts are read again, which are made once a day.
_GROWTH_LIFETIME = 60.0


class Planner:
    """Makes plans, one at a time: a plan may take long, and decisions are more urgent."""

    def __init__(
        self, database: Database, snapshots: DecisionSnapshots, growth_forecasts: GrowthForecasts | None = None
    ) -> None:
        self._database, self._snapshots = database, snapshots
        self._growth_forecasts = growth_forecasts or GrowthForecasts()
        #: The forecasts, and the time when they were read.
        self._read: tuple[Mapping[str, PoolGrowth] | None, float] = (None, -math.inf)
        self._turn = threading.Lock()

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan for a goal that uses no pool of ``held``.

        ``held`` maps the pools of other plans to the ids of these plans. The argument :data:`KEEP_FORECAST` goes with
        all goals: if it is true, the plan is made as if each pool had grown by the upper range of its forecast already,
        and the outcome names the pools without a forecast.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal or wrong arguments, and
        :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there.
        """
        arguments = dict(query.arguments)
        arguments.pop(KEEP_FORECAST, None)
        goal = goal_loader.load(query.goal, arguments)
        with self._turn:
            growth = self._growth(query)
            model = self._model(growth or {}, held)
            plan = goal.plan(model)
        if growth is None:
            return plan
        return replace(plan, outcome=plan.outcome + _without_forecast(model.pools.names, growth))

    def model(self, query: PlanQuery) -> PoolModel:
        """Return a model of the pools as they are now, to look at single moves."""
        return self._model(self._growth(query) or {}, {})

    def volumes(self, query: PlanQuery) -> PlacedVolumes:
        """Return a reader of the volumes as they are now."""
        return PlacedVolumes(self._database)

    def _model(self, growth: Mapping[str, PoolGrowth], held: Mapping[str, str]) -> PoolModel:
        snapshot = self._snapshots.take()
        pools = snapshot.pools.snapshot()
        if snapshot.rules.counts_volumes:
            with self._database.reading() as session:
                set_volume_numbers(pools, snapshot.entries, volumes.per_pool(session))
        model = PoolModel(pools, snapshot.rules, PlacedVolumes(self._database), held)
        model.grow(growth)
        return model

    def _growth(self, query: PlanQuery) -> Mapping[str, PoolGrowth] | None:
        """Return the growth for which the plan keeps room, None if it does not do so."""
        is_kept = query.arguments.get(KEEP_FORECAST, False)
        if not isinstance(is_kept, bool):
            raise errors.InvalidInput(f"{KEEP_FORECAST} is {is_kept!r}: expected true or false")
        if not is_kept:
            return None
        growth, read_at = self._read
        if growth is None or time.monotonic() - read_at > _GROWTH_LIFETIME:
            growth = self._growth_forecasts.read()
            self._read = growth, time.monotonic()
        if growth is None:
            raise errors.InvalidInput(
                f"{KEEP_FORECAST} needs forecasts, and no enabled extension makes them: enable the extension history"
            )
        return growth


def _without_forecast(pools: Sequence[str], growth: Mapping[str, PoolGrowth]) -> str:
    """Return the end of an outcome that names the pools without a forecast; an empty text if each has one."""
    missing = sorted(set(pools) - growth.keys())
    if not missing:
        return ""
    if len(missing) == len(pools):
        return "; no pool has a forecast yet, so no room is kept"
    rest = len(missing) - _MOST_POOLS
    names = ", ".join(missing[:_MOST_POOLS]) + (f" and {rest} more" if rest > 0 else "")
    return f"; no room is kept for the growth of {names}: no forecast exists"
