# SPDX-License-Identifier: Apache-2.0
"""Tests of requests for several volumes over REST, all or none."""

import json
import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client, Cluster
from tonnage.api.schemas import volume_bodies


def ask(client: Client, volumes: Any, project: str = "demo", **beside: Any) -> Any:
    return client.at("POST", f"/v3/{project}/volumes", OWN_KEYS, json={"volumes": volumes, **beside})


def hints(cluster: Cluster, volume_id: str) -> Any:
    with cluster.database.engine.connect() as connection:
        return json.loads(
            connection.exec_driver_sql("SELECT hints FROM volumes WHERE id = ?", (volume_id,)).scalar_one()
        )


def test_volumes_are_created_in_the_requested_order(client: Client, project: str) -> None:
    answer = ask(client, [{"size": 1, "name": "a"}, {"size": "3", "name": "b"}, {"size": 2, "name": "c"}], project)
    assert answer.status_code == 202, answer.text
    made = answer.json["volumes"]
    assert [(volume["name"], volume["size"]) for volume in made] == [("a", 1), ("b", 3), ("c", 2)]
    for volume in made:
        assert client.wait_until_settled(volume["id"])["status"] == "available"
        assert client.show(volume["id"])["os-vol-tenant-attr:tenant_id"] == project


def test_all_volumes_are_created_or_none(client: Client, project: str) -> None:
    answer = ask(client, [{"size": 1}, {"size": 5000}, {"size": 1}], project)
    assert answer.status_code == 409
    fault = answer.json["conflictingRequest"]
    assert fault["message"].startswith("No pool for 5000 GiB (volume 2 of 3, all or none): 2 pools; CapacityFilter")
    assert fault["refusal"]["nearest"]["pool"] == f"{BACKEND}#thin"
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


def test_volumes_must_fit_together(client: Client, project: str) -> None:
    """Each volume alone would fit."""
    answer = ask(client, [{"size": 900}, {"size": 900}, {"size": 900}], project)
    assert answer.status_code == 409
    assert "volume 3 of 3, all or none" in answer.json["conflictingRequest"]["message"]
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


def test_hints_can_refer_to_siblings_by_index(client: Client, cluster: Cluster) -> None:
    outside = client.create(1)["id"]
    wanted = [
        {"size": 1},
        {"size": 1, "scheduler_hints": {"same_host": 0}},
        {"size": 1, "OS-SCH-HNT:scheduler_hints": {"same_host": [0, 1, outside], "n": 1}},
    ]
    answer = ask(client, wanted)
    assert answer.status_code == 202, answer.text
    first, second, third = (volume["id"] for volume in answer.json["volumes"])
    assert hints(cluster, first) == {}
    assert hints(cluster, second) == {"same_host": [first]}
    assert hints(cluster, third) == {"same_host": [first, second, outside], "n": 1}


def test_hints_outside_of_the_list_apply_to_all_volumes_but_not_to_themselves(client: Client, cluster: Cluster) -> None:
    answer = ask(client, [{"size": 1}, {"size": 1}], **{"OS-SCH-HNT:scheduler_hints": {"same_host": [0, 1]}})
    assert answer.status_code == 202, answer.text
    first, second = (volume["id"] for volume in answer.json["volumes"])
    assert (hints(cluster, first), hints(cluster, second)) == ({"same_host": [second]}, {"same_host": [first]})


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
def test_the_number_of_volumes_in_a_hint_is_limited(client: Client, hint: str) -> None:
    """Volumes in a hint are checked for each pool and each member: 100 KB of ids blocked other requests for 20 s."""
    most = volume_bodies.MAX_AT_ONCE
    many = {hint: [str(uuid.uuid4()) for _ in range(most + 1)]}
    for body in ({"volumes": [{"size": 1}], "scheduler_hints": many}, {"volume": {"size": 1, "scheduler_hints": many}}):
        answer = client.simulate_post("/v3/volumes", json=body)
        assert answer.status_code == 400
        assert f"the hint {hint} names {most + 1} volumes: it takes at most {most}" in answer.text
    few = {"different_host": many[hint][:most]}
    assert ask(client, [{"size": 1}] * 2, scheduler_hints=few).status_code == 202


def test_anti_affine_siblings_require_as_many_backends(client: Client) -> None:
    answer = ask(client, [{"size": 1}, {"size": 1, "scheduler_hints": {"different_host": [0]}}])
    assert answer.status_code == 409
    assert "DifferentBackendFilter refused" in answer.json["conflictingRequest"]["message"]


def test_types_and_sources_are_resolved_for_each_volume(client: Client) -> None:
    name = f"t-{uuid.uuid4()}"
    client.simulate_post("/v3/types", json={"volume_type": {"name": name}})
    source = client.wait_until_settled(client.create(2)["id"])
    answer = ask(client, [{"size": 1, "volume_type": name}, {"source_volid": source["id"]}])
    assert answer.status_code == 202, answer.text
    typed, clone = answer.json["volumes"]
    assert typed["volume_type"] == name
    assert (clone["size"], clone["source_volid"], clone["volume_type"]) == (2, source["id"], "__DEFAULT__")
    assert client.wait_until_settled(clone["id"])["status"] == "available"


@pytest.mark.parametrize("body", [{"volume": {"size": 1}}, {"volumes": [{"size": 1}, {"size": 2}]}])
def test_a_repeated_request_with_the_same_key_creates_nothing(client: Client, project: str, body: Any) -> None:
    def send(key: str | None, to: str = project, **more: Any) -> set[str]:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = client.simulate_post(f"/v3/{to}/volumes", json={**body, **more}, headers=headers)
        assert answer.status_code == 202, answer.text
        return {volume["id"] for volume in answer.json.get("volumes") or [answer.json["volume"]]}

    first = send("once")
    assert send("once") == first
    others = [send("twice"), send(None), send(None), send("once", uuid.uuid4().hex), send("once", scheduler_hints={})]
    assert not first.intersection(*others)
    listed = client.simulate_get(f"/v3/{project}/volumes").json["volumes"]
    assert len(listed) == 5 * len(first)


def test_a_repeated_request_gets_the_same_refusal(client: Client) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    for body in ({"volume": {"size": 5000}}, {"volumes": [{"size": 5000}]}):
        first, second = (client.simulate_post("/v3/volumes", json=body, headers=key) for _ in range(2))
        assert first.status_code == second.status_code == 409
        assert first.text == second.text


@pytest.mark.parametrize("key", ["", "k" * 256, "a\tb"])
def test_malformed_keys_are_rejected(client: Client, key: str) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1}}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert "Idempotency-Key is no text of 1 to 255 characters" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"volumes": []}, "volumes: a list: expected array of length >= 1"),
        ({"volumes": [{"size": 1}] * (volume_bodies.MAX_AT_ONCE + 1)}, "expected array of length <= 128"),
        ({"volumes": {"size": 1}}, "expected array, got object"),
        ({"volumes": [{"size": 1}], "volume": {"size": 1}}, "both volume and volumes"),
        ({"volumes": [{"size": 1}, {"size": 0}]}, "volumes[1].size: 0: expected a whole number"),
        ({"volumes": [{}]}, "missing required field size"),
        ({"volumes": [{"size": 1, "imageRef": "x"}]}, "imageRef is set"),
        (
            {"volumes": [{"size": 1}, {"size": 1, "scheduler_hints": {"same_host": [2]}}]},
            "volumes[1]: the hint same_host names 2: expected the id of a volume that is there, or the place of one in "
            "this list, 0 to 1",
        ),
        ({"volumes": [{"size": 1, "scheduler_hints": {"different_host": True}}]}, "names True"),
        ({"volumes": [{"size": 1, "scheduler_hints": {"different_host": [-1]}}]}, "names -1"),
        ({"volumes": [{"size": 1, "scheduler_hints": {"different_host": [0.5]}}]}, "names 0.5"),
    ],
)
def test_invalid_input_is_rejected(client: Client, body: Any, message: str) -> None:
    answer = client.simulate_post("/v3/volumes", json=body)
    assert answer.status_code == 400, answer.text
    assert message in answer.json["badRequest"]["message"]


def test_unknown_types_and_sources_are_errors(client: Client) -> None:
    for wanted in ({"size": 1, "volume_type": "nowhere"}, {"source_volid": str(uuid.uuid4())}):
        assert ask(client, [{"size": 1}, wanted]).status_code == 404


def test_readers_cannot_create_volumes(cluster: Cluster, project: str) -> None:
    assert ask(cluster.client("reader", project=project), [{"size": 1}]).status_code == 403
