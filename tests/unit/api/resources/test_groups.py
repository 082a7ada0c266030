# SPDX-License-Identifier: Apache-2.0
"""Groups and group types over REST."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.api.cluster import OWN_KEYS, Client, Cluster, wait_until


@pytest.fixture
def kind(client: Client) -> str:
    """A volume type."""
    answer = client.simulate_post("/v3/types", json={"volume_type": {"name": f"t-{uuid.uuid4()}"}})
    return str(answer.json["volume_type"]["id"])


@pytest.fixture
def group_type(client: Client) -> str:
    answer = client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": f"g-{uuid.uuid4()}"}})
    assert answer.status_code == 202, answer.text
    return str(answer.json["group_type"]["id"])


@pytest.fixture
def make(member: Client, group_type: str, kind: str) -> Callable[..., str]:
    """A function that creates a group of the project and returns its id."""

    def make(**fields: Any) -> str:
        body = {"name": "g", "group_type": group_type, "volume_types": [kind], **fields}
        answer = member.at("POST", "/v3/groups", 13, json={"group": body})
        assert answer.status_code == 202, answer.text
        assert answer.json == {"group": {"id": answer.json["group"]["id"], "name": body["name"]}}
        return str(answer.json["group"]["id"])

    return make


def shown(client: Client, group_id: str, minor: int = 72) -> Any:
    answer = client.at("GET", f"/v3/groups/{group_id}?list_volume=True", minor)
    return answer.json["group"] if answer.status_code == 200 else None


def change(client: Client, group_id: str, **fields: Any) -> Any:
    return client.at("PUT", f"/v3/groups/{group_id}", 13, json={"group": fields})


def delete(client: Client, group_id: str, **fields: Any) -> Any:
    return client.at("POST", f"/v3/groups/{group_id}/action", 13, json={"delete": fields})


def message_of(answer: Any) -> str:
    return str(next(iter(answer.json.values()))["message"])


def test_group_types(client: Client, member: Client, group_type: str) -> None:
    path = f"/v3/group_types/{group_type}"
    assert client.at("POST", f"{path}/group_specs", 11, json={"group_specs": {"a": "1", "b": "2"}}).status_code == 202
    assert client.at("PUT", f"{path}/group_specs/b", 11, json={"b": "3"}).json == {"b": "3"}
    assert client.at("PUT", f"{path}/group_specs/b", 11, json={"c": "3"}).status_code == 400
    assert client.at("GET", f"{path}/group_specs/b", 11).json == {"b": "3"}
    assert client.at("DELETE", f"{path}/group_specs/a", 11).status_code == 202
    assert client.at("DELETE", f"{path}/group_specs/a", 11).status_code == 404
    assert client.at("GET", f"{path}/group_specs", 11).json == {"group_specs": {"b": "3"}}
    nothing = {"name": f"g-{uuid.uuid4()}", "description": None, "group_specs": None, "is_public": None}
    made = client.at("POST", "/v3/group_types", 11, json={"group_type": nothing}).json["group_type"]
    assert (made["description"], made["group_specs"], made["is_public"]) == (None, {}, True)
    name = f"g-{uuid.uuid4()}"
    answer = client.at("PUT", path, 11, json={"group_type": {"name": name, "description": "d", "is_public": "no"}})
    expected = {"id": group_type, "name": name, "description": "d", "is_public": False, "group_specs": {"b": "3"}}
    assert answer.json["group_type"] == client.at("GET", path, 11).json["group_type"] == expected
    assert client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": name}}).status_code == 409

    def listed(of: Client, query: str = "") -> set[str]:
        return {each["id"] for each in of.at("GET", f"/v3/group_types{query}", 11).json["group_types"]}

    assert group_type in listed(client, "?is_public=none")
    assert group_type not in listed(client) | listed(member) | listed(member, "?is_public=none")
    assert member.at("GET", path, 11).status_code == 404, "a private one"
    client.at("PUT", path, 11, json={"group_type": {"is_public": True}})
    assert "group_specs" not in member.at("GET", path, 11).json["group_type"]
    assert group_type in listed(member)
    assert client.at("GET", "/v3/group_types/default", 11).status_code == 404
    assert client.at("DELETE", path, 11).status_code == 202
    assert client.at("GET", path, 11).status_code == 404


def test_a_group_with_volumes(member: Client, client: Client, make: Any, kind: str, group_type: str) -> None:
    group_id = make(description=" d ")
    first = member.create(1, volume_type=kind, group_id=group_id)
    path = f"/v3/groups/{group_id}"
    assert member.at("GET", f"/v3/volumes/{first['id']}", 13).json["volume"]["group_id"] == group_id
    assert member.at("GET", f"/v3/volumes?group_id={group_id}", 13).json["volumes"][0]["id"] == first["id"]
    outside = member.create(1)
    listed = member.at("GET", f"/v3/volumes?group_id={group_id}", 9).json["volumes"]
    assert {each["id"] for each in listed} == {first["id"], outside["id"]}, "before 3.10 it narrows nothing down"
    group = shown(member, group_id)
    assert group == {
        "id": group_id,
        "name": "g",
        "description": "d",
        "status": "available",
        "availability_zone": "nova",
        "created_at": group["created_at"],
        "group_type": group_type,
        "volume_types": [kind],
        "group_snapshot_id": None,
        "source_group_id": None,
        "volumes": [first["id"]],
        "replication_status": "disabled",
    }
    assert "project_id" in shown(client, group_id)
    assert set(shown(member, group_id, 13)) == set(group) - {
        "group_snapshot_id",
        "source_group_id",
        "volumes",
        "replication_status",
    }
    assert member.at("GET", "/v3/groups", 13).json == {"groups": [{"id": group_id, "name": "g"}]}
    assert member.at("GET", "/v3/groups/detail?list_volume=1", 38).json["groups"] == [group]
    assert client.at("GET", f"/v3/groups?all_tenants=1&group_type={group_type}", 33).json["groups"][0]["id"] == group_id

    member.wait_until_settled(first["id"])
    for refused in (
        member.simulate_delete(f"/v3/volumes/{first['id']}"),
        client.simulate_post(f"/v3/volumes/{first['id']}/action", json={"os-unmanage": None}),
        client.simulate_post(f"/v3/volumes/{first['id']}/action", json={"os-force_delete": None}),
        client.simulate_post(f"/v3/volumes/{first['id']}/action", json={"os-migrate_volume": {}}),
        client.simulate_post(f"/v3/volumes/{first['id']}/action", json={"os-retype": {"new_type": other(client)}}),
    ):
        assert refused.status_code == 400, refused.text
        assert f"is in group {group_id} and cannot be" in message_of(refused)
    assert delete(member, group_id).status_code == 400, "it has a volume"
    assert client.simulate_delete(f"/v3/types/{kind}").status_code == 400
    assert client.at("DELETE", f"/v3/group_types/{group_type}", 11).status_code == 400

    assert change(member, group_id, name="h", remove_volumes=first["id"]).status_code == 202
    assert (shown(member, group_id)["name"], shown(member, group_id)["volumes"]) == ("h", [])
    assert change(member, group_id, add_volumes=f"{first['id']},").status_code == 202
    assert delete(member, group_id, **{"delete-volumes": True}).status_code == 202
    assert member.wait_until_settled(first["id"]) is None
    assert member.at("GET", path, 13).status_code == 404
    assert client.at("DELETE", f"/v3/group_types/{group_type}", 11).status_code == 202


def other(client: Client) -> str:
    answer = client.simulate_post("/v3/types", json={"volume_type": {"name": f"t-{uuid.uuid4()}"}})
    return str(answer.json["volume_type"]["id"])


def test_unsuitable_volumes_cannot_join_a_group(
    cluster: Cluster, member: Client, client: Client, make: Any, kind: str, project: str
) -> None:
    group_id, alien = make(), other(client)
    untyped = cluster.client("member", "reader", project=project, default_volume_type="").create(1)["id"]
    volume = member.wait_until_settled(member.create(1, volume_type=kind, group_id=make())["id"])
    for ids, why in (
        (volume["id"], "it is already in group"),
        (member.wait_until_settled(member.create(1, volume_type=alien)["id"])["id"], "is not supported by the group"),
        (member.wait_until_settled(untyped)["id"], "it has no volume type"),
        (client.wait_until_settled(client.create(1, volume_type=kind)["id"])["id"], "volume cannot be found"),
        (str(uuid.uuid4()), "volume cannot be found"),
        ("x" * 300, "volume cannot be found"),
    ):
        answer = change(member, group_id, add_volumes=ids)
        assert answer.status_code == 400, answer.text
        assert why in message_of(answer)
    assert "because it is not in the group" in message_of(change(member, group_id, remove_volumes=volume["id"]))
    both = change(member, group_id, add_volumes=volume["id"], remove_volumes=volume["id"])
    assert "are in both add_volumes and remove_volumes" in message_of(both)
    assert "change nothing" in message_of(change(member, group_id, name="g"))
    for fields, status in (
        ({"volume_type": alien}, 400),
        ({}, 400),
        ({"volume_type": kind, "group_id": str(uuid.uuid4())}, 404),
        ({"volume_type": kind, "group_id": "none"}, 404),
    ):
        answer = member.simulate_post("/v3/volumes", json={"volume": {"size": 1, "group_id": group_id, **fields}})
        assert answer.status_code == status, answer.text


def test_a_volume_that_does_not_fit_into_its_group_is_refused_with_the_reason(
    member: Client, make: Any, kind: str
) -> None:
    group_id = make()
    member.wait_until_settled(member.create(1, volume_type=kind, group_id=group_id)["id"])
    body = {"volume": {"size": 100_000, "volume_type": kind, "group_id": group_id}}
    answer = member.at("POST", "/v3/volumes", OWN_KEYS, json=body)
    assert answer.status_code == 409
    assert "CapacityFilter refused 2; " in message_of(answer)
    assert answer.json["conflictingRequest"]["refusal"]["pool"] == "its backend"


def test_a_group_without_a_suitable_backend(
    member: Client, client: Client, make: Any, group_type: str, kind: str
) -> None:
    specs = {"group_specs": {"consistent_group_snapshot_enabled": "<is> True"}}
    client.at("POST", f"/v3/group_types/{group_type}/group_specs", 11, json=specs)
    body = {"volume": {"size": 1, "volume_type": kind, "group_id": make()}}
    answer = member.simulate_post("/v3/volumes", json=body)
    assert answer.status_code == 409
    assert "a backend for all types of its group is not reported at present" in message_of(answer)
    explained = client.simulate_post(f"/v3/{uuid.uuid4().hex}/scheduler-stats/explain", json=body)
    assert explained.status_code == 404, "it is of another project"


def test_a_failed_deletion_can_be_repeated(cluster: Cluster, member: Client, make: Any, kind: str) -> None:
    group_id = make()
    volume = member.wait_until_settled(member.create(1, volume_type=kind, group_id=group_id)["id"])
    with cluster.storage.failing("no"):
        assert delete(member, group_id, **{"delete-volumes": "true"}).status_code == 202
        wait_until(lambda: shown(member, group_id)["status"] == "error_deleting")
    body = {"volume": {"size": 1, "volume_type": kind, "group_id": group_id}}
    answer = member.simulate_post("/v3/volumes", json=body)
    assert (answer.status_code, message_of(answer)) == (
        400,
        f"group {group_id} is deleting: no volume can be made in it",
    )
    assert change(member, group_id, name="x").status_code == 400
    assert delete(member, group_id, **{"delete-volumes": "true"}).status_code == 202
    assert member.wait_until_settled(volume["id"]) is None
    assert shown(member, group_id) is None


def test_administrators_can_reset_the_status(member: Client, client: Client, make: Any) -> None:
    group_id = make()
    body = {"reset_status": {"status": "error"}}
    path = f"/v3/groups/{group_id}/action"
    assert member.at("POST", path, 20, json=body).status_code == 403
    assert client.at("POST", path, 19, json=body).status_code == 404
    assert client.at("POST", path, 20, json=body).status_code == 202
    assert shown(member, group_id)["status"] == "error"
    assert client.at("POST", path, 20, json={"reset_status": {"status": "odd"}}).status_code == 400
    assert delete(member, group_id).status_code == 202


def test_quotas(cluster: Cluster, client: Client, member: Client, project: str, make: Any) -> None:
    assert client.simulate_get(f"/v3/os-quota-sets/{project}").json["quota_set"]["groups"] == 10
    client.simulate_put(f"/v3/os-quota-sets/{project}", json={"quota_set": {"groups": 2}})
    make()
    group_id = make()
    usage = client.simulate_get(f"/v3/os-quota-sets/{project}?usage=True").json["quota_set"]["groups"]
    assert usage == {"limit": 2, "in_use": 2, "reserved": 0}
    group = shown(client, group_id)
    body = {"group": {"group_type": group["group_type"], "volume_types": group["volume_types"]}}
    answer = member.at("POST", "/v3/groups", 13, json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (413, "0")
    assert message_of(answer) == "GroupLimitExceeded: Maximum number of groups allowed (2) exceeded."
    below = client.simulate_put(f"/v3/os-quota-sets/{project}?skip_validation=False", json={"quota_set": {"groups": 1}})
    assert below.status_code == 400
    delete(member, group_id)
    assert member.at("POST", "/v3/groups", 13, json=body).status_code == 202
    client.simulate_put(f"/v3/os-quota-sets/{project}?user_id=someone", json={"quota_set": {"groups": 1}})
    assert member.at("POST", "/v3/groups", 13, json=body).status_code == 413


def test_groups_do_not_exist_before_their_microversion(client: Client) -> None:
    for path, minor in (("groups", 12), ("groups/detail", 0), ("group_types", 10), ("group_snapshots", 13)):
        assert client.at("GET", f"/v3/{path}", minor).status_code == 404
    assert client.at("GET", "/v3/group_snapshots/detail", 14).json == {"group_snapshots": []}
    assert client.at("POST", "/v3/group_snapshots", 14, json={"group_snapshot": {}}).status_code == 501
    assert client.at("POST", "/v3/groups/action", 14, json={"create-from-src": {}}).status_code == 501


def test_foreign_groups_get_the_same_responses_as_missing_ones(cluster: Cluster, client: Client, make: Any) -> None:
    group_id, absent = make(), str(uuid.uuid4())
    outsider = cluster.client("member", "reader", project=uuid.uuid4().hex)
    volume = outsider.wait_until_settled(outsider.create(1)["id"])
    for method, suffix, body in (
        ("GET", "", None),
        ("PUT", "", {"group": {"name": "mine", "add_volumes": volume["id"]}}),
        ("POST", "/action", {"delete": {"delete-volumes": True}}),
    ):
        answers = [outsider.at(method, f"/v3/groups/{id}{suffix}", 72, json=body) for id in (group_id, absent)]
        assert answers[0].status_code == answers[1].status_code == 404
        assert answers[0].text.replace(group_id, absent) == answers[1].text
    listed = outsider.at("GET", "/v3/groups?all_tenants=1", 72).json
    assert listed == {"groups": []}
    assert outsider.at("GET", f"/v3/groups?marker={group_id}", 72).status_code == 404
    body = {"volume": {"size": 1, "group_id": group_id}}
    assert outsider.simulate_post("/v3/volumes", json=body).status_code == 404
    reader = cluster.client("reader", project=outsider.show(volume["id"])["os-vol-tenant-attr:tenant_id"])
    assert reader.at("POST", "/v3/groups", 13, json={"group": {}}).status_code == 403


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"volume_types": []}, 400),
        ({"volume_types": None}, 400),
        ({"volume_types": ["no-such-type"]}, 404),
        ({"group_type": "no-such-type"}, 404),
        ({"availability_zone": "nowhere"}, 400),
        ({"name": "n" * 256}, 400),
    ],
)
def test_invalid_groups_are_rejected(member: Client, group_type: str, kind: str, fields: Any, status: int) -> None:
    body = {"group": {"group_type": group_type, "volume_types": [kind], **fields}}
    answer = member.at("POST", "/v3/groups", 13, json=body)
    assert answer.status_code == status, answer.text
