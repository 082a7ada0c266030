# SPDX-License-Identifier: Apache-2.0
"""``POST /move-plans``."""

from typing import Any

import pytest
from falcon import testing

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client


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
    answer = post(client, "empty", target="h@b#p")
    assert (answer.status_code, "pool h@b#p could not be found" in answer.text) == (404, True)


@pytest.mark.parametrize("value", [-399644772156209037312, [[1]], {"a": 1}, 10**400])
def test_arguments_of_any_other_type_are_wrong_values(client: Client, value: Any) -> None:
    assert post(client, "relieve", pool=value, below=1).status_code in (400, 404)


def test_plans_are_for_administrators_of_the_newest_microversion(client: Client, member: Client) -> None:
    assert post(member, "empty", target=BACKEND).status_code == 403
    assert post(client, "empty", minor=71, target=BACKEND).status_code == 404
