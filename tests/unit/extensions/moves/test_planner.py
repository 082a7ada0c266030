# SPDX-License-Identifier: Apache-2.0
"""The planner of a scheduler."""

from types import SimpleNamespace
from typing import Any

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.scheduler.simulation.simulator import Snapshot


def test_a_plan_is_made_on_a_copy_of_the_pools() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    snapshots: Any = SimpleNamespace(take=lambda: Snapshot(cloud.table, cloud.rules, 20.0, {}, "nova"))
    planner = Planner(cloud.database, snapshots)
    query = PlanQuery(goal="empty", arguments={"target": "h@a#p"})
    assert moves_of(planner.plan(query)) == moves_of(planner.plan(query)) == [(30, "a", "b")]
    assert (cloud.table.row(1).claimed, cloud.table.row(1).allocated) == (0, 0)
