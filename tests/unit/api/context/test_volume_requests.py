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
    others = [send("twice"), send(None), send(None), send("once", uuid.uuid4().hex)]
    assert not first.intersection(*others)
    listed = client.simulate_get(f"/v3/{project}/volumes").json["volumes"]
    assert len(listed) == 4 * len(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"size": 1, "name": "n"}, {"name": " n ", "size": "1"}),
        ({"size": 1}, {"size": 1.0, "description": None, "metadata": {}, "volume_type": ""}),
        ({"size": 1, "name": "n", "description": "d"}, {"size": 1, "display_name": "n", "display_description": "d"}),
        ({"size": 1, "multiattach": False}, {"size": 1, "multiattach": "no", "imageRef": ""}),
        ({"size": 1, "metadata": {"a": "1", "b": "2"}}, {"metadata": {"b": "2", "a": "1"}, "size": 1}),
        ({"size": 1, "scheduler_hints": {"a": "b"}}, {"size": 1, "OS-SCH-HNT:scheduler_hints": {"a": "b"}}),
    ],
)
def test_a_repetition_in_other_words_creates_nothing(client: Client, project: str, first: Any, second: Any) -> None:
    headers = {"Idempotency-Key": "k"}
    for wrapped in (lambda volume: {"volume": volume}, lambda volume: {"volumes": [volume, {"size": 3}]}):
        answers = [
            client.simulate_post(f"/v3/{project}/volumes", json=wrapped(volume), headers=headers)
            for volume in (first, second)
        ]
        assert [answer.status_code for answer in answers] == [202, 202], [answer.text for answer in answers]
        assert ids(answers[0]) == ids(answers[1])
        headers = {"Idempotency-Key": "another"}
    assert len(client.simulate_get(f"/v3/{project}/volumes").json["volumes"]) == 3


def ids(answer: Any) -> list[str]:
    return [volume["id"] for volume in answer.json.get("volumes") or [answer.json["volume"]]]


def test_hints_next_to_the_volume_and_inside_it_are_the_same(client: Client, project: str) -> None:
    inside = {"volume": {"size": 1, "scheduler_hints": {"a": "b"}}}
    outside = {"volume": {"size": 1}, "OS-SCH-HNT:scheduler_hints": {"a": "b"}}
    path, headers = f"/v3/{project}/volumes", {"Idempotency-Key": "k"}
    first, second = (client.simulate_post(path, json=body, headers=headers) for body in (inside, outside))
    assert first.json["volume"]["id"] == second.json["volume"]["id"]


@pytest.mark.parametrize(
    "other",
    [
        {"volume": {"size": 2}},
        {"volume": {"size": 1, "name": "n"}},
        {"volume": {"size": 1, "availability_zone": "nova"}},
        {"volume": {"size": 1, "metadata": {"a": "1"}}},
        {"volume": {"size": 1}, "scheduler_hints": {"a": "b"}},
        {"volume": {"size": 5000}},
        {"volumes": [{"size": 1}]},
    ],
)
def test_a_key_with_a_different_body_is_refused(client: Client, project: str, other: Any) -> None:
    path, headers = f"/v3/{project}/volumes", {"Idempotency-Key": "k"}
    assert client.simulate_post(path, json={"volume": {"size": 1}}, headers=headers).status_code == 202
    refused = client.simulate_post(path, json=other, headers=headers)
    assert refused.status_code == 422, refused.text
    assert "has been used for another request" in refused.json["computeFault"]["message"]
    assert len(client.simulate_get(path).json["volumes"]) == 1


def test_a_key_of_a_refused_request_with_a_different_body_is_refused(client: Client, project: str) -> None:
    path, headers = f"/v3/{project}/volumes", {"Idempotency-Key": "k"}
    assert client.simulate_post(path, json={"volume": {"size": 5000}}, headers=headers).status_code == 409
    assert client.simulate_post(path, json={"volume": {"size": 1}}, headers=headers).status_code == 422
    assert client.simulate_get(path).json["volumes"] == []


def test_a_repeated_request_gets_the_same_refusal(client: Client) -> None:
    for body in ({"volume": {"size": 5000}}, {"volumes": [{"size": 5000}]}):
        key = {"Idempotency-Key": uuid.uuid4().hex}
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
