# SPDX-License-Identifier: Apache-2.0
"""The views of pools: figures as clients expect them, and the selection of pools."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.rpc.messages import PoolQuery, PoolView
from tonnage.scheduler.simulation import pool_views
from tonnage.scheduler.simulation.pool_views import PoolsSnapshot

NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 999, tzinfo=datetime.UTC)
P, Q = "h@a#p", "h@b#q"


def snapshot(pool: Mapping[str, Any] | None = None, stats: Mapping[str, Any] | None = None, **values: Any) -> Any:
    """Return two pools, of which the first has these figures and this report."""
    figures = {"total": 100.0, "free": 50.0, "thin": True, "ratio": 2.0}
    pools = PoolTable([Pool(name=P, **{**figures, **(pool or {})}), Pool(name=Q, **figures)])
    reports = {P: PoolStats("p", 100.0, 50.0, **(stats or {})), Q: PoolStats("q", 100.0, 50.0)}
    usual = {"heard": {"h@a": (NOON, 1.04), "h@b": (None, 2.0)}, "calculation": Calculation.CINDER, "stats": reports}
    return PoolsSnapshot(pools=pools, **{**usual, **values})


def capabilities(pools: PoolsSnapshot) -> Mapping[str, Any]:
    """Return the capabilities of the first pool."""
    [view] = pool_views.shown(pools, [P])
    return view.capabilities


def test_figures_are_shown_as_clients_expect_them() -> None:
    shown = capabilities(
        snapshot(
            {"allocated": 7, "reserved_percentage": 12.6, "ratio": 1.23456, "free": float("inf"), "up": False},
            {"capabilities": {"volume_backend_name": "fast", "pool_name": "wrong"}, "ratio": 1.23456},
        )
    )
    assert (shown["pool_name"], shown["volume_backend_name"], shown["vendor_name"]) == ("p", "fast", None)
    assert (shown["allocated_capacity_gb"], shown["reserved_percentage"]) == (7, 13)
    assert (shown["max_over_subscription_ratio"], shown["max_over_subscription_ratio_source"]) == (1.2346, "reported")
    assert (shown["free_capacity_gb"], shown["backend_state"]) == ("infinite", "down")


@pytest.mark.parametrize(
    ("up", "reported", "shown"), [(True, "down", "down"), (True, "up", "up"), (False, "up", "down"), (True, 7, "up")]
)
def test_a_pool_is_up_if_its_agent_and_its_driver_say_so(up: bool, reported: object, shown: str) -> None:
    pools = snapshot({"up": up}, {"capabilities": {"backend_state": reported}})
    assert capabilities(pools)["backend_state"] == shown


def test_a_pool_that_reports_no_provisioned_capacity_shows_the_allocated_one() -> None:
    assert capabilities(snapshot({"allocated": 7}))["provisioned_capacity_gb"] == 7
    assert capabilities(snapshot({"allocated": 7, "provisioned": 9.0}))["provisioned_capacity_gb"] == 9


def test_what_is_usual_is_not_mentioned() -> None:
    unusual = {"disabled", "expired", "draining", "storage_id", "remarks", "findings"}
    assert unusual.isdisjoint(capabilities(snapshot()))
    shown = capabilities(
        snapshot(
            {"enabled": False, "expired": True},
            {"storage_id": "array"},
            draining={"h@a"},
            findings={P: {"free": "text"}},
        )
    )
    assert unusual - shown.keys() == {"remarks"}
    assert shown["findings"] == [{"breach": "free", "text": "text"}]


@pytest.mark.parametrize(("ratio", "source"), [(None, "default"), ("auto", "auto"), (2.0, "reported")])
def test_the_source_of_the_ratio_is_shown(ratio: float | str | None, source: str) -> None:
    shown = capabilities(snapshot(stats={"ratio": ratio}))
    assert shown["max_over_subscription_ratio_source"] == source
    assert ("max_over_subscription_ratio_inputs" in shown) is (ratio == "auto")


def test_pools_are_shown_in_order_without_unknown_ones() -> None:
    pools = snapshot()
    assert [view.name for view in pool_views.shown(pools, [Q, "h@c#r", P])] == [P, Q]
    assert [view.name for view in pool_views.selected(pools, PoolQuery(), None)] == [P, Q]
    assert [view.name for view in pool_views.selected(pools, PoolQuery(name=Q), None)] == [Q]


def test_capabilities_are_compared_as_text_without_case() -> None:
    pools = snapshot(stats={"capabilities": {"colour": "Red"}})
    for required, names in (({"colour": "rED", "thin_provisioning_support": "true"}, [P]), ({"colour": "blue"}, [])):
        views = pool_views.selected(pools, PoolQuery(capabilities=required), None)
        assert [view.name for view in views] == names
    view = PoolView(name=P, capabilities={"a": None}, capacity_factors={})
    assert pool_views.matches(view, {})
    assert not pool_views.matches(view, {"b": "None"})


def test_a_probe_selects_the_pools_that_have_its_features() -> None:
    pools = snapshot({"capabilities": {"colour": "red"}}, {"capabilities": {"colour": "red"}})
    probe = Request("r", 1, extra_specs={"colour": "red"})
    assert [view.name for view in pool_views.selected(pools, PoolQuery(), probe)] == [P]
    assert pool_views.selected(pools, PoolQuery(name=Q), probe) == []


def test_the_time_of_a_report_is_that_of_its_backend_or_of_kept_figures() -> None:
    pools = snapshot()
    assert pool_views.source(pools, P) == "h@a"
    assert pool_views.last_heard(pools, "h@a") == {
        "updated": "2026-01-02T12:00:00",
        "timestamp": "2026-01-02T12:00:00",
        "figures_age_seconds": 1.0,
    }
    assert pool_views.last_heard(pools, "h@b")["updated"] is None
    kept = snapshot(heard={"h@a": (NOON, 1.0), P: (NOON, 60.0)})
    assert pool_views.source(kept, P) == P
    assert pool_views.last_heard(kept, P)["figures_age_seconds"] == 60.0


def test_what_cinder_does_not_have_is_left_out_for_its_clients() -> None:
    assert pool_views.last_heard_as_in_cinder(snapshot(), "h@b") == {"updated": None, "timestamp": None}
    assert pool_views.as_in_cinder({"storage_id": "array", "pool_name": "p"}) == {"pool_name": "p"}


def test_a_snapshot_does_not_change_with_the_scheduler() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    before = pool_views.take_snapshot(world.hosts, world.now + 5.0, {})
    world.made(3)
    after = pool_views.take_snapshot(world.hosts, world.now, {})
    [first], [later] = (pool_views.selected(pools, PoolQuery(), None) for pools in (before, after))
    assert first.capabilities["allocated_capacity_gb"] == 0
    assert later.capabilities["allocated_capacity_gb"] == 3
    assert first.capabilities["figures_age_seconds"] == 5.0


def test_names_are_sorted_again_only_if_there_are_others() -> None:
    sorted_names = pool_views.SortedNames()
    names = ("c", "a", "b")
    assert sorted_names.after(names, "", 2) == ["a", "b"]
    assert sorted_names.after(names, "b", 2) == ["c"]
    assert sorted_names.after(names, "aa", 1) == ["b"]
    kept = sorted_names._kept[1]
    sorted_names.after(names, "c", 2)
    assert sorted_names._kept[1] is kept
    assert sorted_names.after(("d", *names), "b", 9) == ["c", "d"]
