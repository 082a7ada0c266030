# SPDX-License-Identifier: Apache-2.0
"""``/move-plans``."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from falcon import testing

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client, Cluster, wait_until
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.moves.records.hours import Hours

#: The minor number of the microversion with plans that are carried out.
APPLIED_PLANS = 73

_HOUR = datetime.datetime.now().astimezone().hour
#: Hours of the day that do not begin for a long time.
CLOSED = f"{(_HOUR + 12) % 24}-{(_HOUR + 13) % 24}"


def post(client: Client, goal: str, minor: int = OWN_KEYS, **arguments: Any) -> testing.Result:
    body = {"move_plan": {"goal": goal, "arguments": arguments}}
    return client.at("POST", "/v3/move-plans", minor, json=body)


def test_a_plan_has_the_moves_with_the_levels_of_both_pools(client: Client) -> None:
    volume = client.wait_until_settled(client.create(3)["id"])
    source = volume["os-vol-host-attr:host"]
    answer = post(client, "empty", target=source)
    plan = answer.json["move_plan"]
    assert (answer.status_code, plan["goal"], plan["outcome"]) == (200, f"empty {source}", f"{source} becomes empty")
    [move] = [move for move in plan["moves"] if move["volume_id"] == volume["id"]]
    assert (move["size_gb"], move["source"], move["target"], move["after"]) == (3, source, f"{BACKEND}#thick", [])
    assert move["target_level"]["promised_gb"] >= 3
    assert client.show(volume["id"])["os-vol-host-attr:host"] == source
    client.simulate_delete(f"/v3/volumes/{volume['id']}")


def test_errors_of_a_goal_are_those_of_the_request(client: Client) -> None:
    answer = post(client, "shuffle")
    assert (answer.status_code, "goal is 'shuffle': expected balance, empty, fit, relieve" in answer.text) == (
        400,
        True,
    )
    answer = post(client, "relieve", pool="h@b#p", below="all")
    assert (answer.status_code, "goal relieve: below is 'all': expected a number" in answer.text) == (400, True)
    answer = post(client, "empty", target=BACKEND, keep_forecast=True)
    assert (answer.status_code, "enable the extension history" in answer.text) == (400, True)
    answer = post(client, "empty", target="h@b#p")
    assert (answer.status_code, "pool h@b#p could not be found" in answer.text) == (404, True)


@pytest.mark.parametrize("value", [-399644772156209037312, [[1]], {"a": 1}, 10**400])
def test_arguments_of_any_other_type_are_wrong_values(client: Client, value: Any) -> None:
    assert post(client, "relieve", pool=value, below=1).status_code in (400, 404)


def test_plans_are_for_administrators_of_the_newest_microversion(client: Client, member: Client) -> None:
    assert post(member, "empty", target=BACKEND).status_code == 403
    assert post(client, "empty", minor=71, target=BACKEND).status_code == 404


@pytest.fixture
def volume(client: Client) -> Iterator[str]:
    """A volume in the thin pool."""
    volume_id = client.wait_until_settled(client.create(3)["id"])["id"]
    yield volume_id
    client.simulate_delete(f"/v3/volumes/{volume_id}")
    client.wait_until_settled(volume_id)


def apply(client: Client, minor: int = APPLIED_PLANS, **limits: Any) -> testing.Result:
    goal = {"goal": "empty", "arguments": {"target": f"{BACKEND}#thin"}, "apply": True}
    return client.at("POST", "/v3/move-plans", minor, json={"move_plan": {**goal, "limits": limits}})


@pytest.fixture(autouse=True)
def _ended_plans(cluster: Cluster) -> Iterator[None]:
    """Wait until the scheduler has released the pools of the plans of a test."""
    yield
    wait_until(lambda: not cluster.database.run(plan_records.open_plans))


def show(client: Client, plan_id: str) -> Any:
    return client.at("GET", f"/v3/move-plans/{plan_id}", APPLIED_PLANS).json["move_plan"]


def test_a_plan_is_carried_out_and_stays_as_the_record(client: Client, volume: str) -> None:
    answer = apply(client, moves_per_backend=1, failures=9)
    plan = answer.json["move_plan"]
    assert (answer.status_code, [move["volume_id"] for move in plan["moves"]]) == (202, [volume])
    wait_until(lambda: show(client, plan["id"])["state"] == "finished")
    shown = show(client, plan["id"])
    assert shown["mover"] == "tonnage"
    assert (shown["goal"], shown["goal_name"], shown["message"]) == (
        f"empty {BACKEND}#thin",
        "empty",
        f"{BACKEND}#thin has no volume",
    )
    assert (shown["moves"], shown["moved"], shown["moved_gb"], shown["failed"]) == (1, 1, 3, 0)
    assert (shown["limits"]["failures"], shown["limits"]["moves"], shown["seconds_left"]) == (9, 8, None)
    [step] = shown["steps"]
    assert (step["state"], step["volume_id"], step["target"]) == ("moved", volume, f"{BACKEND}#thick")
    assert step["target_level"]["promised_gb"] - step["source_level"]["promised_gb"] >= 3
    assert (shown["staying"], shown["is_reached"]) == ([], True)
    [thick, thin] = shown["pools"]
    assert (thick["pool"], thin["pool"]) == (f"{BACKEND}#thick", f"{BACKEND}#thin")
    assert thick["after"]["promised_gb"] - thick["before"]["promised_gb"] == 3
    assert thin["before"]["promised_gb"] - thin["after"]["promised_gb"] == 3
    assert answer.json["move_plan"]["pools"] == shown["pools"]
    assert step["started_at"] <= step["ended_at"] <= shown["ended_at"]
    assert client.show(volume)["os-vol-host-attr:host"] == f"{BACKEND}#thick"
    for number in (0, 1):
        some = client.at("GET", f"/v3/move-plans/{plan['id']}?steps={number}", APPLIED_PLANS).json["move_plan"]
        assert some == {**shown, "steps": shown["steps"][:number]}
    for number in ("all", "1001", "-1"):
        refusal = client.at("GET", f"/v3/move-plans/{plan['id']}?steps={number}", APPLIED_PLANS)
        problem = f"steps is '{number}': expected a whole number up to 1000; without steps all are shown"
        assert (refusal.status_code, problem in refusal.text) == (400, True)
    assert client.at("GET", f"/v3/move-plans/{plan['id']}?steps=1000", APPLIED_PLANS).status_code == 200
    listed = client.at("GET", "/v3/move-plans?state=finished&limit=1", APPLIED_PLANS).json
    assert [row["id"] for row in listed["move_plans"]] == [plan["id"]]
    assert "steps" not in listed["move_plans"][0]


@pytest.mark.parametrize("more", [{}, {"apply": False}])
def test_limits_of_a_plan_that_is_not_carried_out_are_refused(client: Client, more: dict[str, Any]) -> None:
    goal = {"goal": "empty", "arguments": {"target": f"{BACKEND}#thin"}, "limits": {"moves": 1}}
    answer = client.at("POST", "/v3/move-plans", APPLIED_PLANS, json={"move_plan": {**goal, **more}})
    assert (answer.status_code, "set apply to true, or omit them" in answer.text) == (400, True)


def test_a_plan_is_paused_resumed_and_stopped(client: Client, volume: str) -> None:
    plan_id = apply(client, hours=CLOSED).json["move_plan"]["id"]
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        answer = client.at("POST", f"/v3/move-plans/{plan_id}/action", APPLIED_PLANS, json={action: None})
        assert (answer.status_code, show(client, plan_id)["state"]) == (202, state)
    shown = show(client, plan_id)
    assert [step["state"] for step in shown["steps"]] == ["skipped"]
    assert (shown["moved"], shown["moves"], shown["size_gb"]) == (0, 1, 3)
    answer = client.at("POST", f"/v3/move-plans/{plan_id}/action", APPLIED_PLANS, json={"resume": {}})
    assert (answer.status_code, "is stopped: only a running or paused plan" in answer.text) == (400, True)
    for body in ({"hurry": None}, {"stop": {"now": True}}, {}):
        assert client.at("POST", f"/v3/move-plans/{plan_id}/action", APPLIED_PLANS, json=body).status_code == 400


def test_a_second_plan_for_the_same_pools_is_refused(client: Client, volume: str) -> None:
    plan_id = apply(client, hours=CLOSED).json["move_plan"]["id"]
    answer = apply(client)
    assert answer.status_code == 400
    assert f"is used by plan {plan_id} (empty {BACKEND}#thin), which is running" in answer.text
    client.at("POST", f"/v3/move-plans/{plan_id}/action", APPLIED_PLANS, json={"stop": None})


def test_a_plan_without_moves_has_no_id(client: Client) -> None:
    answer = client.at(
        "POST",
        "/v3/move-plans",
        APPLIED_PLANS,
        json={"move_plan": {"goal": "fit", "arguments": {"size": 1}, "apply": True}},
    )
    assert (answer.status_code, answer.json["move_plan"]["id"], answer.json["move_plan"]["moves"]) == (200, None, [])
    plan = post(client, "fit", APPLIED_PLANS, size=1).json["move_plan"]
    assert ("id" in plan, plan["seconds"]) == (False, None)
    assert {"seconds", "pools"}.isdisjoint(post(client, "fit", size=1).json["move_plan"])


def test_wrong_limits_are_errors_of_the_request(client: Client) -> None:
    for limits in ({"moves": 0}, {"hours": "22-25"}, {"speed": 1}, {"in_flight_gb": 2**31}):
        assert apply(client, **limits).status_code == 400


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        ("25-30", '"25-30"'),
        ("22-06\n", '"22-06\\n"'),
        (22, "22"),
    ],
)
def test_wrong_hours_are_answered_with_a_sentence(client: Client, hours: Any, text: str) -> None:
    answer = apply(client, hours=hours)
    message = answer.json["badRequest"]["message"]
    problem = f"Invalid input for move_plan.limits.hours: {text}: expected {Hours.EXPECTED}."
    assert (answer.status_code, message) == (400, problem)


def test_plans_that_are_carried_out_take_the_newest_microversion_and_the_right(client: Client, member: Client) -> None:
    assert apply(client, minor=OWN_KEYS).status_code == 400
    assert client.at("GET", "/v3/move-plans", OWN_KEYS).status_code == 404
    assert client.at("GET", "/v3/move-plans/none", APPLIED_PLANS).status_code == 404
    assert client.at("GET", "/v3/move-plans?marker=none", APPLIED_PLANS).status_code == 404
    assert apply(member).status_code == 403
    assert member.at("GET", "/v3/move-plans", APPLIED_PLANS).status_code == 403
    assert member.at("GET", "/v3/move-plans/none", APPLIED_PLANS).status_code == 403
    assert member.at("POST", "/v3/move-plans/none/action", APPLIED_PLANS, json={"stop": None}).status_code == 403
