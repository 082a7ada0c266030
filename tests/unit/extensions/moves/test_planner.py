# SPDX-License-Identifier: Apache-2.0
"""The planner of a scheduler."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.capacity import errors
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecasts, PoolGrowth
from tonnage.scheduler.simulation.simulator import Snapshot


def test_a_plan_is_made_on_a_copy_of_the_pools() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    snapshots: Any = SimpleNamespace(take=lambda: Snapshot(cloud.table, cloud.rules, 20.0, {}, "nova"))
    planner = Planner(cloud.database, snapshots)
    query = PlanQuery(goal="empty", arguments={"target": "h@a#p"})
    assert moves_of(planner.plan_beside(query, {})) == moves_of(planner.plan_beside(query, {})) == [(30, "a", "b")]
    assert (cloud.table.row(1).claimed, cloud.table.row(1).allocated) == (0, 0)


def planner(cloud: Cloud, growth: Mapping[str, tuple[float | None, float | None]] | None) -> Planner:
    """Return a planner with the physical and the promised growth of pools."""
    snapshots: Any = SimpleNamespace(take=lambda: Snapshot(cloud.table, cloud.rules, 20.0, {}, "nova"))
    forecasts = GrowthForecasts()
    if growth is not None:
        forecasts.sources.append(
            lambda: {
                f"h@{name}#p": PoolGrowth(physical_gb=physical, promised_gb=promised)
                for name, (physical, promised) in growth.items()
            }
        )
    return Planner(cloud.database, snapshots, forecasts)


def moves(cloud: Cloud, growth: Mapping[str, tuple[float | None, float | None]], goal: str, **arguments: Any) -> Any:
    return moves_of(planner(cloud, growth).plan_beside(PlanQuery(goal=goal, arguments=arguments), {}))


def test_room_is_kept_for_the_forecasts_of_pools_if_the_plan_says_so() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100).add("c", 60)
    growth = {"b": (80.0, None), "c": (30.0, None), "gone": (1.0, 1.0)}
    assert moves(cloud, growth, "empty", target="h@a#p") == [(30, "a", "b")]
    assert moves(cloud, growth, "empty", target="h@a#p", keep_forecast=False) == [(30, "a", "b")]
    assert moves(cloud, growth, "empty", target="h@a#p", keep_forecast=True) == [(30, "a", "c")]
    growth = {"b": (80.0, None), "c": (31.0, None)}
    assert moves(cloud, growth, "empty", target="h@a#p", keep_forecast=True) == []


def test_a_thin_pool_keeps_room_below_each_of_its_bounds() -> None:
    cloud = Cloud().add("a", 100, [30], thin=True).add("b", 100, thin=True, ratio=2.0)
    for growth, number in (((70.0, 170.0), 1), ((71.0, 0.0), 0), ((None, 171.0), 0), ((-5.0, None), 1)):
        assert len(moves(cloud, {"b": growth}, "empty", target="h@a#p", keep_forecast=True)) == number, growth


def test_made_room_outlasts_the_growth() -> None:
    cloud = Cloud().add("a", 100, [50, 20, 10]).add("b", 100, [95])
    assert moves(cloud, {"a": (15.0, None)}, "fit", size=20) == []
    cloud.add("c", 20)
    assert moves(cloud, {"a": (5.0, None), "c": (10.0, None)}, "fit", size=20, keep_forecast=True) == [(10, "a", "c")]
    assert moves(cloud, {"a": (5.0, None)}, "relieve", pool="h@a#p", below=80, keep_forecast=True) == [(10, "a", "c")]


def test_a_plan_names_the_pools_without_a_forecast() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)

    def outcome(*pools: str, is_kept: bool = True) -> str:
        growth = dict.fromkeys(pools, (1.0, None))
        query = PlanQuery(goal="empty", arguments={"target": "h@a#p", "keep_forecast": is_kept})
        return planner(cloud, growth).plan_beside(query, {}).outcome

    assert outcome("a", "b") == outcome(is_kept=False) == "h@a#p becomes empty"
    assert outcome() == "h@a#p becomes empty; no pool has a forecast yet, so no room is kept"
    assert outcome("b") == "h@a#p becomes empty; no room is kept for the growth of h@a#p: no forecast exists"
    for name in "cdefgh":
        cloud.add(name, 1)
    names = "h@a#p, h@c#p, h@d#p, h@e#p, h@f#p and 2 more"
    assert outcome("b") == f"h@a#p becomes empty; no room is kept for the growth of {names}: no forecast exists"


def test_without_forecasts_no_room_can_be_kept_for_them() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    query = PlanQuery(goal="empty", arguments={"target": "h@a#p", "keep_forecast": True})
    with pytest.raises(errors.InvalidInput, match="keep_forecast needs forecasts, and no enabled extension makes them"):
        planner(cloud, None).plan_beside(query, {})
    query = PlanQuery(goal="empty", arguments={"target": "h@a#p", "keep_forecast": "yes"})
    with pytest.raises(errors.InvalidInput, match="keep_forecast is 'yes': expected true or false"):
        planner(cloud, {}).plan_beside(query, {})


def test_the_moves_of_such_a_plan_keep_the_room_too() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    made = planner(cloud, {"b": (80.0, None)})
    [volume] = made.model(PlanQuery(goal="empty")).volumes("h@a#p")
    for is_kept in (False, True):
        model = made.model(PlanQuery(goal="empty", arguments={"keep_forecast": is_kept}))
        assert isinstance(model.accepts(volume, "h@b#p"), str) is is_kept
