# SPDX-License-Identifier: Apache-2.0
"""Several volumes at once over REST, all of them or none."""

import json
import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tonnage.api.schemas import volume_bodies


def ask(client: Client, volumes: Any, project: str = "demo", **beside: Any) -> Any:
    return client.simulate_post(f"/v3/{project}/volumes", json={"volumes": volumes, **beside})


def hints(cluster: Cluster, volume_id: str) -> Any:
    with cluster.database.engine.connect() as connection:
        return json.loads(
            connection.exec_driver_sql("SELECT hints FROM volumes WHERE id = ?", (volume_id,)).scalar_one()
        )


def test_all_are_made_in_the_order_asked_for(client: Client, project: str) -> None:
    answer = ask(client, [{"size": 1, "name": "a"}, {"size": "3", "name": "b"}, {"size": 2, "name": "c"}], project)
    assert answer.status_code == 202, answer.text
    made = answer.json["volumes"]
    assert [(volume["name"], volume["size"]) for volume in made] == [("a", 1), ("b", 3), ("c", 2)]
    for volume in made:
        assert client.settled(volume["id"])["status"] == "available"
        assert client.show(volume["id"])["os-vol-tenant-attr:tenant_id"] == project


def test_all_or_none(client: Client, project: str) -> None:
    answer = ask(client, [{"size": 1}, {"size": 5000}, {"size": 1}], project)
    assert answer.status_code == 409
    fault = answer.json["conflictingRequest"]
    assert fault["message"].startswith("No pool for 5000 GiB (volume 2 of 3, all or none): 2 pools; CapacityFilter")
    assert fault["refusal"]["nearest"]["pool"] == f"{BACKEND}#thin"
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


def test_they_are_fitted_jointly(client: Client, project: str) -> None:
    """Each would fit alone."""
    answer = ask(client, [{"size": 900}, {"size": 900}, {"size": 900}], project)
    assert answer.status_code == 409
    assert "volume 3 of 3, all or none" in answer.json["conflictingRequest"]["message"]
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


def test_siblings_are_named_by_their_places(client: Client, cluster: Cluster) -> None:
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


def test_hints_beside_the_list_are_for_all_and_say_nothing_of_oneself(client: Client, cluster: Cluster) -> None:
    answer = ask(client, [{"size": 1}, {"size": 1}], **{"OS-SCH-HNT:scheduler_hints": {"same_host": [0, 1]}})
    assert answer.status_code == 202, answer.text
    first, second = (volume["id"] for volume in answer.json["volumes"])
    assert (hints(cluster, first), hints(cluster, second)) == ({"same_host": [second]}, {"same_host": [first]})


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
def test_a_hint_names_a_bounded_number_of_volumes(client: Client, hint: str) -> None:
    """What it names is looked at for each pool and each of a group: 100 KB kept all others waiting for 20 seconds."""
    most = volume_bodies.MAX_AT_ONCE
    many = {hint: [str(uuid.uuid4()) for _ in range(most + 1)]}
    for body in ({"volumes": [{"size": 1}], "scheduler_hints": many}, {"volume": {"size": 1, "scheduler_hints": many}}):
        answer = client.simulate_post("/v3/volumes", json=body)
        assert answer.status_code == 400
        assert f"the hint {hint} names {most + 1} volumes: it takes at most {most}" in answer.text
    few = {"different_host": many[hint][:most]}
    assert ask(client, [{"size": 1}] * 2, scheduler_hints=few).status_code == 202


def test_siblings_that_have_to_be_apart_need_as_many_backends(client: Client) -> None:
    answer = ask(client, [{"size": 1}, {"size": 1, "scheduler_hints": {"different_host": [0]}}])
    assert answer.status_code == 409
    assert "DifferentBackendFilter refused" in answer.json["conflictingRequest"]["message"]


def test_types_and_sources_are_looked_up_for_each(client: Client) -> None:
    name = f"t-{uuid.uuid4()}"
    client.simulate_post("/v3/types", json={"volume_type": {"name": name}})
    source = client.settled(client.create(2)["id"])
    answer = ask(client, [{"size": 1, "volume_type": name}, {"source_volid": source["id"]}])
    assert answer.status_code == 202, answer.text
    typed, clone = answer.json["volumes"]
    assert typed["volume_type"] == name
    assert (clone["size"], clone["source_volid"]) == (2, source["id"])
    assert client.settled(clone["id"])["status"] == "available"


@pytest.mark.parametrize("body", [{"volume": {"size": 1}}, {"volumes": [{"size": 1}, {"size": 2}]}])
def test_the_same_request_with_the_same_key_makes_nothing_anew(client: Client, project: str, body: Any) -> None:
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


def test_a_refusal_is_repeated_under_its_key(client: Client) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    for body in ({"volume": {"size": 5000}}, {"volumes": [{"size": 5000}]}):
        first, second = (client.simulate_post("/v3/volumes", json=body, headers=key) for _ in range(2))
        assert first.status_code == second.status_code == 409
        assert first.text == second.text


@pytest.mark.parametrize("key", ["", "k" * 256, "a\tb"])
def test_keys_that_are_none(client: Client, key: str) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1}}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert "Idempotency-Key is no text of 1 to 255 characters" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
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
def test_bad_input(client: Client, body: Any, words: str) -> None:
    answer = client.simulate_post("/v3/volumes", json=body)
    assert answer.status_code == 400, answer.text
    assert words in answer.json["badRequest"]["message"]


def test_unknown_type_and_source(client: Client) -> None:
    for wanted in ({"size": 1, "volume_type": "nowhere"}, {"source_volid": str(uuid.uuid4())}):
        assert ask(client, [{"size": 1}, wanted]).status_code == 404


def test_readers_create_none(cluster: Cluster, project: str) -> None:
    assert ask(cluster.client("reader", project=project), [{"size": 1}]).status_code == 403
