# SPDX-License-Identifier: Apache-2.0
"""The planner: it answers questions for plans, on a copy of the pools, without any effect."""

import math
import threading
import time
from collections.abc import Mapping

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

    def plan(self, query: PlanQuery) -> MovePlan:
        """Return a plan for a goal.

        The argument :data:`KEEP_FORECAST` goes with all goals: if it is true, the plan is made as if each pool had
        grown by the upper range of its forecast already.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal or wrong arguments, and
        :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there.
        """
        return self.plan_beside(query, {})

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan that uses no pool of ``held``, which maps the pools of other plans to the ids of these plans.

        Raises the errors of :meth:`plan`.
        """
        arguments = dict(query.arguments)
        arguments.pop(KEEP_FORECAST, None)
        goal = goal_loader.load(query.goal, arguments)
        with self._turn:
            return goal.plan(self._model(query, held))

    def model(self, query: PlanQuery) -> PoolModel:
        """Return a model of the pools as they are now, to look at single moves."""
        return self._model(query, {})

    def volumes(self, query: PlanQuery) -> PlacedVolumes:
        """Return a reader of the volumes as they are now."""
        return PlacedVolumes(self._database)

    def _model(self, query: PlanQuery, held: Mapping[str, str]) -> PoolModel:
        growth = self._growth(query)
        snapshot = self._snapshots.take()
        pools = snapshot.pools.snapshot()
        if snapshot.rules.counts_volumes:
            with self._database.reading() as session:
                set_volume_numbers(pools, snapshot.entries, volumes.per_pool(session))
        model = PoolModel(pools, snapshot.rules, PlacedVolumes(self._database), held)
        model.grow(growth)
        return model

    def _growth(self, query: PlanQuery) -> Mapping[str, PoolGrowth]:
        """Return the growth for which the plan keeps room."""
        is_kept = query.arguments.get(KEEP_FORECAST, False)
        if not isinstance(is_kept, bool):
            raise errors.InvalidInput(f"{KEEP_FORECAST} is {is_kept!r}: expected true or false")
        if not is_kept:
            return {}
        growth, read_at = self._read
        if growth is None or time.monotonic() - read_at > _GROWTH_LIFETIME:
            growth = self._growth_forecasts.read()
            self._read = growth, time.monotonic()
        if growth is None:
            raise errors.InvalidInput(
                f"{KEEP_FORECAST} needs forecasts, and no enabled extension makes them: enable the extension history"
            )
        return growth
