# SPDX-License-Identifier: Apache-2.0
"""The planner: it answers questions for plans, on a copy of the pools, without any effect."""

import threading
from collections.abc import Mapping

from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.scheduler.requests.pool_selection import set_volume_numbers
from tonnage.scheduler.simulation.simulator import DecisionSnapshots


class Planner:
    """Makes plans, one at a time: a plan may take long, and decisions are more urgent."""

    def __init__(self, database: Database, snapshots: DecisionSnapshots) -> None:
        self._database, self._snapshots = database, snapshots
        self._turn = threading.Lock()

    def plan(self, query: PlanQuery) -> MovePlan:
        """Return a plan for a goal.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal or wrong arguments, and
        :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there.
        """
        return self.plan_beside(query, {})

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan that uses no pool of ``held``, which maps the pools of other plans to the ids of these plans.

        Raises the errors of :meth:`plan`.
        """
        goal = goal_loader.load(query.goal, query.arguments)
        with self._turn:
            return goal.plan(self._model(held))

    def model(self, query: PlanQuery) -> PoolModel:
        """Return a model of the pools as they are now, to look at single moves."""
        return self._model({})

    def volumes(self, query: PlanQuery) -> PlacedVolumes:
        """Return a reader of the volumes as they are now."""
        return PlacedVolumes(self._database)

    def _model(self, held: Mapping[str, str]) -> PoolModel:
        snapshot = self._snapshots.take()
        pools = snapshot.pools.snapshot()
        if snapshot.rules.counts_volumes:
            with self._database.reading() as session:
                set_volume_numbers(pools, snapshot.entries, volumes.per_pool(session))
        return PoolModel(pools, snapshot.rules, PlacedVolumes(self._database), held)
