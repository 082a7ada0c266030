# SPDX-License-Identifier: Apache-2.0
"""Plans for a cloud."""

from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import CLOUD, INTERVAL, A, B, C, CloudApi, CloudWorld, rules
from tonnage.capacity import errors
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.relocation.cloud_planner import CloudPlanner
from tonnage.extensions.relocation.plan_choices import Choices


@pytest.fixture
def api() -> CloudApi:
    return CloudApi({A: 100, B: 40, C: 30})


def plan(api: CloudApi, goal: str, retype: dict[str, str] | None = None, **arguments: Any) -> MovePlan:
    options = Choices(cloud=CLOUD, retype=retype or {}).as_options()
    world = CloudWorld(api)
    return world.planner.plan_beside(PlanQuery(goal=goal, arguments=arguments, options=options), {})


def moves(made: MovePlan) -> list[tuple[int, str, str]]:
    return [(move.size_gb, move.source, move.target) for move in made.moves]


def test_a_backend_is_emptied_and_what_stays_is_named_beforehand(api: CloudApi) -> None:
    api.add(A, 30), api.add(A, 10), api.add(A, 20)
    kept = api.add(A, 5)
    api.snapshots.append(("s1", kept))
    made = plan(api, "empty", target="h@a")
    assert moves(made) == [(30, A, B), (20, A, C), (10, A, C)]
    assert [(volume.volume_id, "has snapshots" in volume.reason) for volume in made.staying] == [(kept, True)]
    assert not made.is_reached


def test_a_disabled_backend_that_the_scheduler_does_not_show_is_emptied(api: CloudApi) -> None:
    api.add(A, 30)
    api.services["h@a"]["status"] = "disabled"
    assert moves(plan(api, "empty", target="h@a")) == [(30, A, B)]


@pytest.mark.parametrize("change", [{"status": "disabled"}, {"frozen": True}, {"state": "down"}])
def test_a_backend_that_the_scheduler_does_not_show_may_be_empty_already(api: CloudApi, change: dict[str, Any]) -> None:
    api.services["h@a"] |= change
    for target in ("h@a", A):
        made = plan(api, "empty", target=target)
        assert (made.is_reached, made.outcome) == (True, f"{target} has no volume")
    for target in ("h@z", "h@z#p", "h@b#q"):
        with pytest.raises(errors.NotFound, match=f"{target} could not be found"):
            plan(api, "empty", target=target)
    assert plan(api, "balance", pools=[A, B, C]).goal.startswith("balance 2 pools")


def test_the_other_goals_work_on_the_same_model(api: CloudApi) -> None:
    api.add(A, 30), api.add(B, 30)
    assert moves(plan(api, "relieve", pool=B, below=50, bound="promised")) == [(30, B, A)]
    assert moves(plan(api, "balance", points=60)) == []
    assert moves(plan(api, "fit", size=80, volume_type="__DEFAULT__")) == [(30, A, C)]


def test_pools_are_balanced_within_a_volume_type_and_by_either_bound(api: CloudApi) -> None:
    for name, pool in zip("xxz", (A, B, C), strict=True):
        api.pools[pool]["volume_backend_name"] = name
    api.types["gold"] = {"volume_backend_name": "x"}
    for _ in range(3):
        api.add(A, 20, volume_type="gold")
    for bound in ("promised", "physical"):
        made = plan(api, "balance", volume_type="gold", bound=bound)
        assert made.goal.startswith("balance 2 pools within 10 points of their mean, 42.9 %")
        assert moves(made) == [(20, A, B)]
    with pytest.raises(errors.InvalidInput, match="a single pool cannot be balanced"):
        plan(api, "balance", volume_type="gold", pools=[A, C])


def test_volumes_leave_a_backend_that_their_type_demands_by_another_type(api: CloudApi) -> None:
    for name, pool in zip("abc", (A, B, C), strict=True):
        api.pools[pool]["volume_backend_name"] = name
    api.types |= {"gold": {"volume_backend_name": "a"}, "silver": {"volume_backend_name": "c"}}
    gold = api.add(A, 10, volume_type="gold")
    made = plan(api, "empty", target=A)
    assert [volume.volume_id for volume in made.staying] == [gold]
    assert "CapabilitiesFilter refused" in made.staying[0].reason
    world = CloudWorld(api)
    choices = Choices(cloud=CLOUD, retype={"gold": "silver"})
    query = PlanQuery(goal="empty", arguments={"target": A}, options=choices.as_options())
    made = world.planner.plan_beside(query, {})
    assert moves(made) == [(10, A, C)]
    assert world.planner.new_types(made, choices) == {1: "silver"}


def test_a_model_of_the_moment_reads_few_volumes(api: CloudApi) -> None:
    for _ in range(5):
        api.add(A, 1)
    api.change(new := api.add(B, 4))
    world = CloudWorld(api)
    query = PlanQuery(goal="empty", options=Choices(cloud=CLOUD).as_options())
    model = world.planner.model(query)
    assert model.pools.row(1).in_flight == 4
    assert "/snapshots" not in {path for _, path, _ in api.requests}
    [volume] = world.planner.volumes(query).read([new]).values()
    assert model.level(B).promised_gb == 8
    assert volume.pool == B


def test_a_planner_without_a_database_plans_too(api: CloudApi) -> None:
    api.add(A, 30)
    planner = CloudPlanner(CloudWorld(api).client, rules(), 20.0, INTERVAL, now=lambda: api.now)
    query = PlanQuery(goal="empty", arguments={"target": A}, options=Choices(cloud=CLOUD).as_options())
    assert moves(planner.plan_beside(query, {})) == [(30, A, B)]
    assert planner.model(query).level(A).promised_gb == 30
    assert planner.volumes(query).of(B) == []


def test_a_cloud_without_pools_has_no_plan(api: CloudApi) -> None:
    api.pools.clear()
    with pytest.raises(errors.Unavailable, match="no backend has reported"):
        plan(api, "empty", target=A)
    with pytest.raises(errors.InvalidInput, match="goal is 'tidy'"):
        plan(api, "tidy")
    with pytest.raises(
        errors.InvalidInput,
        match="the pools of a cloud have no forecasts: neither Cinder nor",
    ):
        plan(api, "empty", target=A, keep_forecast=True)


@pytest.mark.parametrize("goal", ["balance", "empty", "fit", "relieve"])
def test_no_plan_is_made_before_each_backend_that_takes_volumes_has_reported(goal: str) -> None:
    """Cinder's scheduler has been restarted."""
    arguments = {"empty": {"target": A}, "fit": {"size": 1}, "relieve": {"pool": A, "below": 1}}.get(goal, {})
    api = CloudApi({A: 100, B: 40, C: 30, "h@d#p": 30})
    api.add(A, 10)
    api.silent = {"h@b", "h@c"}
    expected = (
        "shows no pool of h@b, h@c yet, up and enabled: .* wait for a report .*, or disable a backend that sends none: "
        "openstack volume service set --disable h@b cinder-volume$"
    )
    with pytest.raises(errors.Unavailable, match=expected):
        plan(api, goal, **arguments)
    api.services["h@b"] |= {"frozen": True}
    api.services["h@c"] |= {"status": "disabled"}
    assert plan(api, goal, **arguments).goal
    api.services["h@c"] |= {"status": "enabled", "state": "down"}
    assert plan(api, goal, **arguments).goal
    api.services["h@c"] |= {"state": "up"}
    with pytest.raises(errors.Unavailable, match="shows no pool of h@c yet"):
        plan(api, goal, **arguments)
    api.silent.clear()
    assert plan(api, goal, **arguments).goal


def test_a_cluster_has_reported_when_one_of_its_services_has(api: CloudApi) -> None:
    api.services |= {f"h{number}@d": {"status": "enabled", "state": "up", "cluster": "k@d"} for number in range(2)}
    with pytest.raises(errors.Unavailable, match="shows no pool of k@d yet"):
        plan(api, "balance")
    api.pools["k@d#p"] = {"total": 10}
    assert plan(api, "balance").goal.startswith("balance 4 pools")


def test_an_error_about_many_backends_without_a_report_names_the_first(api: CloudApi) -> None:
    api.services |= {f"h@s{number}": {"status": "enabled", "state": "up"} for number in range(7)}
    with pytest.raises(errors.Unavailable, match="no pool of h@s0, h@s1, h@s2, h@s3, h@s4 and 2 more yet"):
        plan(api, "balance")
