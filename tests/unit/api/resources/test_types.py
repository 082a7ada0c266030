# SPDX-License-Identifier: Apache-2.0
"""Volume types over REST."""

import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster


@pytest.fixture
def name() -> str:
    return f"type-{uuid.uuid4()}"


def create(client: Client, name: str, **fields: Any) -> Any:
    answer = client.simulate_post("/v3/types", json={"volume_type": {"name": name, "description": None, **fields}})
    assert answer.status_code == 200, answer.text
    return answer.json["volume_type"]


def test_create_show_change_delete(client: Client, name: str) -> None:
    kind = create(client, f" {name} ", extra_specs={"provisioning:type": "thin"})
    path = f"/v3/demo/types/{kind['id']}"
    assert client.simulate_get(path).json == {"volume_type": {**kind, "qos_specs_id": None}}
    assert (kind["name"], kind["extra_specs"], kind["is_public"]) == (name, {"provisioning:type": "thin"}, True)

    answer = client.simulate_put(path, json={"volume_type": {"description": "fast", "is_public": False}})
    assert answer.status_code == 200
    changed = client.simulate_get(path).json["volume_type"]
    assert (changed["name"], changed["description"], changed["is_public"]) == (name, "fast", False)

    assert client.simulate_delete(path).status_code == 202
    assert client.simulate_get(path).status_code == 404


def test_extra_specs(client: Client, name: str) -> None:
    path = f"/v3/types/{create(client, name)['id']}/extra_specs"
    answer = client.simulate_post(path, json={"extra_specs": {"a": "1", "capabilities:b": "<is> True"}})
    assert (answer.status_code, answer.json) == (200, {"extra_specs": {"a": "1", "capabilities:b": "<is> True"}})
    assert client.simulate_post(path, json={"extra_specs": {"a": "2", "c": ""}}).status_code == 200
    assert client.simulate_get(path).json == {"extra_specs": {"a": "2", "capabilities:b": "<is> True", "c": ""}}
    assert client.simulate_get(f"{path}/a").json == {"a": "2"}
    assert client.simulate_put(f"{path}/a", json={"a": "3"}).json == {"a": "3"}
    assert client.simulate_put(f"{path}/a", json={"b": "3"}).status_code == 400
    assert client.simulate_delete(f"{path}/a").status_code == 202
    assert client.simulate_delete(f"{path}/a").status_code == 404
    assert client.simulate_get(f"{path}/a").status_code == 404
    assert set(client.simulate_get(path).json["extra_specs"]) == {"capabilities:b", "c"}


@pytest.mark.parametrize(
    "specs",
    [
        {"provisioning:max_vol_size": "five"},
        {"provisioning:max_volume_size": "5"},
        {"provisioning:min_vol_size": "9", "provisioning:max_vol_size": "8"},
        {"RESKEY:availability_zones": ","},
        {"RESKEY:zones": "nova"},
    ],
)
def test_specs_that_no_volume_could_obey_are_refused(client: Client, name: str, specs: dict[str, str]) -> None:
    path = f"/v3/types/{create(client, name)['id']}/extra_specs"
    assert client.simulate_post(path, json={"extra_specs": specs}).status_code == 400
    for key, value in specs.items():
        if len(specs) == 1:
            assert client.simulate_put(f"{path}/{key}", json={key: value}).status_code == 400
    body = {"volume_type": {"name": f"{name}-2", "extra_specs": specs}}
    assert client.simulate_post("/v3/types", json=body).status_code == 400
    assert client.simulate_get(path).json == {"extra_specs": {}}


@pytest.mark.parametrize("key", ["a/b", "example.com/tier", "a/b/c"])
@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_keys_of_specs_may_contain_slashes(client: Client, name: str, key: str, slash: str) -> None:
    in_path = key.replace("/", slash)
    group_type = client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": name}}).json["group_type"]
    for path, specs in (
        (f"/v3/types/{create(client, name)['id']}/extra_specs", "extra_specs"),
        (f"/v3/demo/group_types/{group_type['id']}/group_specs", "group_specs"),
    ):
        assert client.at("POST", path, 11, json={specs: {key: "1"}}).status_code in (200, 202)
        assert client.at("GET", f"{path}/{in_path}", 11).json == {key: "1"}
        assert client.at("PUT", f"{path}/{in_path}", 11, json={key: "2"}).json == {key: "2"}
        assert client.at("DELETE", f"{path}/{in_path}", 11).status_code == 202
        assert client.at("GET", path, 11).json == {specs: {}}


@pytest.mark.parametrize("specs", [{"provisioning:type": "fat"}, {"a": 1}, {"a": None}, {"": "x"}, {"a,b": "x"}, []])
def test_invalid_extra_specs_are_rejected(client: Client, name: str, specs: Any) -> None:
    kind = create(client, name)
    answer = client.simulate_post(f"/v3/types/{kind['id']}/extra_specs", json={"extra_specs": specs})
    assert answer.status_code == 400, answer.text
    body = {"volume_type": {"name": f"{name}-2", "extra_specs": specs}}
    assert client.simulate_post("/v3/types", json=body).status_code == 400
    assert f"{name}-2" not in client.types()


def test_names_are_unique(client: Client, name: str) -> None:
    create(client, name)
    other = create(client, f"{name}-2")
    for answer in (
        client.simulate_post("/v3/types", json={"volume_type": {"name": name}}),
        client.simulate_put(f"/v3/types/{other['id']}", json={"volume_type": {"name": name}}),
    ):
        assert answer.status_code == 409
        assert answer.json["conflictingRequest"]["message"] == f"Volume Type {name} already exists."


@pytest.mark.parametrize(
    "body", [{}, {"volume_type": {}}, {"volume_type": {"name": " \x1c\x85\ufeff"}}, {"volume_type": None}]
)
def test_invalid_types_are_rejected(client: Client, body: Any) -> None:
    assert client.simulate_post("/v3/types", json=body).status_code == 400


def test_a_change_without_values_is_rejected(client: Client, name: str) -> None:
    kind = create(client, name)
    assert client.simulate_put(f"/v3/types/{kind['id']}", json={"volume_type": {}}).status_code == 400


def test_clients_find_names_in_the_list(client: Client, name: str) -> None:
    create(client, name)
    answer = client.simulate_get(f"/v3/types/{name}?is_public=none")
    assert (answer.status_code, list(answer.json)) == (404, ["itemNotFound"])
    assert name in client.types()


def test_private_types_are_for_administrators(client: Client, member: Client, name: str) -> None:
    kind = create(client, name, **{"os-volume-type-access:is_public": False})
    assert name in client.types()
    assert name not in [kind["name"] for kind in client.simulate_get("/v3/types").json["volume_types"]]
    assert name in [kind["name"] for kind in client.simulate_get("/v3/types?is_public=False").json["volume_types"]]
    assert name not in member.types()
    assert member.simulate_get(f"/v3/types/{kind['id']}").status_code == 404
    assert member.simulate_get(f"/v3/types/{kind['id']}/extra_specs").status_code == 404
    for asked in (name, kind["id"]):
        answer = member.simulate_post("/v3/volumes", json={"volume": {"size": 1, "volume_type": asked}})
        assert answer.status_code == 404
    assert client.simulate_get("/v3/types?is_public=perhaps").status_code == 400
    # Clients may also send booleans as words.
    worded = create(client, f"{name}-2", **{"os-volume-type-access:is_public": "False"})
    assert worded["is_public"] is False
    assert create(client, f"{name}-3", **{"os-volume-type-access:is_public": None})["is_public"] is True
    path = f"/v3/types/{worded['id']}"
    assert (
        client.simulate_put(path, json={"volume_type": {"is_public": "True"}}).json["volume_type"]["is_public"] is True
    )
    assert client.simulate_put(path, json={"volume_type": {"is_public": "perhaps"}}).status_code == 400


def test_projects_can_be_given_access(
    cluster: Cluster, client: Client, member: Client, project: str, name: str
) -> None:
    kind = create(client, name, **{"os-volume-type-access:is_public": False})
    outsider = cluster.client("member", "reader", project="another")
    path = f"/v3/types/{kind['id']}"

    def change(action: str) -> int:
        answer = client.simulate_post(f"{path}/action", json={action: {"project": project}})
        return int(answer.status_code)

    assert change("addProjectAccess") == 202
    assert change("addProjectAccess") == 409
    listed = client.simulate_get(f"{path}/os-volume-type-access").json
    assert listed == {"volume_type_access": [{"volume_type_id": kind["id"], "project_id": project}]}
    assert name in member.types()
    volume = member.create(1, volume_type=name)
    assert volume["volume_type"] == name
    assert name not in outsider.types()
    assert outsider.simulate_get(path).status_code == 404
    assert outsider.simulate_post("/v3/volumes", json={"volume": {"size": 1, "volume_type": name}}).status_code == 404

    assert change("removeProjectAccess") == 202
    assert change("removeProjectAccess") == 404
    assert member.simulate_get(path).status_code == 404
    assert member.simulate_post("/v3/volumes", json={"volume": {"size": 1, "volume_type": name}}).status_code == 404
    assert member.wait_until_settled(volume["id"])["volume_type"] == name
    assert change("addProjectAccess") == 202
    client.simulate_delete(f"/v3/{project}/volumes/{volume['id']}")
    assert client.wait_until_settled(volume["id"]) is None
    assert client.simulate_delete(path).status_code == 202


def test_a_public_type_has_no_access_list(client: Client, name: str) -> None:
    path = f"/v3/types/{create(client, name)['id']}"
    for action in ("addProjectAccess", "removeProjectAccess"):
        answer = client.simulate_post(f"{path}/action", json={action: {"project": "p"}})
        assert (answer.status_code, "is public" in answer.json["badRequest"]["message"]) == (400, True)
    assert client.simulate_get(f"{path}/os-volume-type-access").status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"addProjectAccess": {}}, {"addProjectAccess": {"project": ""}}, {"addProjectAccess": "p"}, {"x": {}}]
)
def test_invalid_changes_of_access_are_rejected(client: Client, body: Any) -> None:
    assert client.simulate_post("/v3/types/x/action", json=body).status_code == 400


def test_a_type_in_use_cannot_be_deleted(client: Client, name: str) -> None:
    kind = create(client, name)
    volume_id = client.create(1, volume_type=name)["id"]
    client.wait_until_settled(volume_id)
    answer = client.simulate_delete(f"/v3/types/{kind['id']}")
    assert answer.status_code == 400
    assert "is in use by 1 volume(s)" in answer.json["badRequest"]["message"]
    client.simulate_delete(f"/v3/volumes/{volume_id}")
    assert client.wait_until_settled(volume_id) is None
    assert client.simulate_delete(f"/v3/types/{kind['id']}").status_code == 202


def test_default_type(cluster: Cluster, client: Client, name: str) -> None:
    none = cluster.client(default_volume_type="").simulate_get("/v3/types/default")
    assert none.status_code == 404
    assert "default_volume_type" in none.json["itemNotFound"]["message"]
    kind = create(client, name)
    other = cluster.client(default_volume_type=name)
    assert other.simulate_get("/v3/types/default").json == {"volume_type": {**kind, "qos_specs_id": None}}
    assert other.simulate_delete(f"/v3/types/{kind['id']}").status_code == 400
    assert client.simulate_delete(f"/v3/types/{kind['id']}").status_code == 202
    assert other.simulate_get("/v3/types/default").status_code == 404


def test_paging(client: Client, name: str) -> None:
    for number in range(3):
        create(client, f"{name}-{number}")
    names: list[str] = []
    path = "/v3/types?limit=1&sort=name:asc&is_public=none"
    while path:
        answer = client.simulate_get(path).json
        names += [kind["name"] for kind in answer["volume_types"]]
        links = answer.get("volume_type_links", [])
        path = links[0]["href"].partition("falconframework.org")[2] if links else ""
    assert names == sorted(client.types())


def test_filters_apply_since_3_52(cluster: Cluster, client: Client, name: str) -> None:
    create(client, name, extra_specs={"tier": name, "a": "<is> True"})
    create(client, f"{name}-2", extra_specs={"tier": name})

    def names(query: str, minor: int = 52) -> set[str]:
        answer = client.at("GET", f"/v3/types?is_public=none&{query}", minor)
        return {kind["name"] for kind in answer.json["volume_types"]}

    assert names(f"extra_specs={{'tier': '{name}'}}") == {name, f"{name}-2"}
    assert names(f"extra_specs={{'tier': '{name}', 'a': '<is> True'}}") == {name}
    assert names(f"name={name}-2") == {f"{name}-2"}
    assert names(f"name={name}&extra_specs={{'b': 'x'}}") == set()
    assert names("extra_specs={'b': 'x'}", 51) >= {name, f"{name}-2"}
    assert client.at("GET", "/v3/types?extra_specs=tier", 52).status_code == 400
    assert client.at("GET", "/v3/types?colour=red", 52).status_code == 400
